/* What is computed from a overview. */
#include "overview.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void overview_free(struct overview *s)
{
	free(s->partitions);
	free(s->workers);
	free(s->servers);
	free(s->tables);
	memset(s, 0, sizeof *s);
}

const char *overview_state_name(enum job_state state)
{
	static const char *const names[] = {"running", "evaluating", "finished", "failed"};
	return names[state];
}

uint64_t counts_quantile(const uint64_t counts[HISTOGRAM_BUCKETS], double q)
{
	uint64_t total = 0, below = 0;
	for (unsigned b = 0; b < HISTOGRAM_BUCKETS; b++)
		total += counts[b];
	for (unsigned b = 0; b < HISTOGRAM_BUCKETS && total > 0; b++) {
		below += counts[b];
		if ((double)below >= q * (double)total && below > 0)
			return histogram_bucket_bound(b);
	}
	return 0;
}

double counts_mean(const uint64_t counts[HISTOGRAM_BUCKETS])
{
	double total = 0, sum = 0;
	for (unsigned b = 0; b < HISTOGRAM_BUCKETS; b++)
		if (counts[b] > 0) {
			total += (double)counts[b];
			sum += (double)counts[b] * (double)histogram_bucket_bound(b);
		}
	return total > 0 ? sum / total : 0;
}

uint64_t overview_staleness_quantile(const struct overview *s, double q)
{
	return counts_quantile(s->staleness, q);
}

double overview_hit_ratio(const struct overview *s)
{
	return s->keys ? (double)s->keys_cached / (double)s->keys : 0;
}

double overview_mfu(const struct overview *s, double samples_per_s, uint32_t workers)
{
	return workers ? samples_per_s * s->row_least_s / workers : 0;
}

double overview_learning_rate(const struct overview *s)
{
	for (uint32_t i = 0; i < s->tables_count && s->inner_rate == 0; i++)
		if (strcmp(s->tables[i].name, "dense") == 0)
			return s->tables[i].learning_rate;
	return s->inner_rate;
}

double overview_perplexity(const struct overview *s)
{
	return s->row_tokens && s->logloss > 0 ? exp(s->logloss) : 0;
}

double overview_staleness_mean(const struct overview *s)
{
	return counts_mean(s->staleness);
}
