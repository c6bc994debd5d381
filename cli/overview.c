/* What is computed from a overview. */
#include "overview.h"

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

uint64_t overview_staleness_quantile(const struct overview *s, double q)
{
	uint64_t total = 0, below = 0;
	for (unsigned b = 0; b < HISTOGRAM_BUCKETS; b++)
		total += s->staleness[b];
	for (unsigned b = 0; b < HISTOGRAM_BUCKETS && total > 0; b++) {
		below += s->staleness[b];
		if ((double)below >= q * (double)total && below > 0)
			return histogram_bucket_bound(b);
	}
	return 0;
}

double overview_staleness_mean(const struct overview *s)
{
	double total = 0, sum = 0;
	for (unsigned b = 0; b < HISTOGRAM_BUCKETS; b++)
		if (s->staleness[b] > 0) {
			total += (double)s->staleness[b];
			sum += (double)s->staleness[b] * (double)histogram_bucket_bound(b);
		}
	return total > 0 ? sum / total : 0;
}
