/* A registry of counters, gauges and histograms. Updates are lock-free from any thread;
 * registration takes a lock. A metric lives as long as its registry. Names follow Prometheus:
 * weir_pushes_total, weir_push_seconds. */
#ifndef WEIR_METRICS_H
#define WEIR_METRICS_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct metrics;
struct counter {
	_Atomic uint64_t value;
};
struct gauge {
	_Atomic int64_t value; /* in the unit that the name states, unscaled */
};
/* A histogram of unsigned values in log-linear buckets: exact up to 15, then 8 buckets per power of
 * two (a bound is at most 12.5 % above a value in its bucket). Record nanoseconds if the name ends
 * in _seconds: the exposition divides. */
#define HISTOGRAM_BUCKETS 512
struct histogram {
	_Atomic uint64_t count;
	_Atomic uint64_t sum;
	_Atomic uint64_t max;
	_Atomic uint64_t bucket[HISTOGRAM_BUCKETS];
};

struct metrics *metrics_create(void);
void metrics_destroy(struct metrics *m);
/* The same (name, labels) returns the same metric. labels: `table="dense"` or "". NULL when out of
 * memory. */
struct counter *metrics_counter(struct metrics *m, const char *name, const char *labels, const char *help);
struct gauge *metrics_gauge(struct metrics *m, const char *name, const char *labels, const char *help);
struct histogram *metrics_histogram(struct metrics *m, const char *name, const char *labels, const char *help);

static inline void counter_add(struct counter *c, uint64_t n)
{
	atomic_fetch_add_explicit(&c->value, n, memory_order_relaxed);
}
/* for a count that is kept elsewhere */
static inline void counter_set(struct counter *c, uint64_t n)
{
	atomic_store_explicit(&c->value, n, memory_order_relaxed);
}
static inline uint64_t counter_get(struct counter *c)
{
	return atomic_load_explicit(&c->value, memory_order_relaxed);
}
static inline void gauge_set(struct gauge *g, int64_t v)
{
	atomic_store_explicit(&g->value, v, memory_order_relaxed);
}
void histogram_record(struct histogram *h, uint64_t value);
/* Smallest bucket bound at or above quantile q in [0, 1]; 0 when empty. */
uint64_t histogram_quantile(struct histogram *h, double q);
/* The bucket of a value, and the largest value of a bucket: for histograms sent between
 * processes. */
unsigned histogram_bucket_of(uint64_t value);
uint64_t histogram_bucket_bound(unsigned bucket);
void metrics_series(FILE *out, struct metrics *m); /* Prometheus' text exposition, version 0.0.4 */

#endif
