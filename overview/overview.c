/* Computations over an overview. */
#include "overview/overview.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

void overview_destroy(struct overview *s)
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

void overview_stall_text(const struct overview_stall *stall, char out[OVERVIEW_STALL_BYTES])
{
	const time_t since = (time_t)(stall->since_unix_ms / 1000);
	struct tm utc;
	char when[32], held[64] = "the evaluation", more[32] = "";
	strftime(when, sizeof when, "%Y-%m-%d %H:%M:%S", gmtime_r(&since, &utc));
	if (stall->units)
		snprintf(held, sizeof held, "unit %u", stall->unit);
	if (stall->units > 1)
		snprintf(more, sizeof more, " and %u more", stall->units - 1);
	snprintf(out, OVERVIEW_STALL_BYTES, "did not move for %.1f s, since %s UTC, with %s of pass %u%s%s",
	         (double)stall->idle_ms / 1e3, when, held, stall->pass + 1, more,
	         stall->waits_for_data ? "; it waited for data" : "");
}

bool overview_is_idle(const struct overview_worker *w)
{
	return w->live && w->idle_ms > 0 && w->idle_ms >= w->idle_limit_ms / 4;
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
	return s->row_tokens && s->evaluated_batches && s->logloss > 0 ? exp(s->logloss) : 0;
}

double overview_staleness_mean(const struct overview *s)
{
	return counts_mean(s->staleness);
}
