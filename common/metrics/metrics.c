/* The registry: a list in order of registration, under a mutex. Entries are never removed, so
 * pointers to their values stay valid. */
#include "common/metrics/metrics.h"

#include <assert.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/exposition.h"

#define EXACT_BUCKETS  16u /* each value from 0 to 15 has its own bucket */
#define OCTAVE_BUCKETS 8u
#define EXACT_BITS     4u
#define OCTAVE_BITS    3u
#define EXPOSED_BITS   40u /* exposition: upper bounds 2^k - 1 for k = 0..40, then +Inf */
#define SECONDS_SUFFIX "_seconds"
#define NANOSECONDS    1e9

_Static_assert(EXACT_BUCKETS + (64 - EXACT_BITS) * OCTAVE_BUCKETS <= HISTOGRAM_BUCKETS, "every u64 must have a bucket");

enum metric_kind { METRIC_COUNTER, METRIC_GAUGE, METRIC_HISTOGRAM };

struct metric {
	struct metric *next;
	enum metric_kind kind;
	char *name, *labels, *help;
	union {
		struct counter counter;
		struct gauge gauge;
		struct histogram histogram;
	} value;
};

struct metrics {
	pthread_mutex_t lock; /* guards the list, not the values */
	struct metric *first, **last;
};

struct metrics *metrics_create(void)
{
	struct metrics *m = calloc(1, sizeof *m);
	if (!m)
		return NULL;
	pthread_mutex_init(&m->lock, NULL);
	m->last = &m->first;
	return m;
}

static void metric_destroy(struct metric *e)
{
	free(e->name);
	free(e->labels);
	free(e->help);
	free(e);
}

void metrics_destroy(struct metrics *m)
{
	if (!m)
		return;
	while (m->first) {
		struct metric *e = m->first;
		m->first = e->next;
		metric_destroy(e);
	}
	pthread_mutex_destroy(&m->lock);
	free(m);
}

static bool name_is_valid(const char *name)
{
	if (*name >= '0' && *name <= '9')
		return false;
	size_t length = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_:");
	return length > 0 && name[length] == 0;
}

static struct metric *metric_create(enum metric_kind kind, const char *name, const char *labels, const char *help)
{
	struct metric *e = calloc(1, sizeof *e);
	if (!e)
		return NULL;
	e->kind = kind;
	e->name = strdup(name);
	e->labels = strdup(labels);
	e->help = strdup(help);
	if (e->name && e->labels && e->help)
		return e;
	metric_destroy(e);
	return NULL;
}

static struct metric *metric_get(struct metrics *m, enum metric_kind kind, const char *name, const char *labels, const char *help)
{
	assert(name_is_valid(name));
	pthread_mutex_lock(&m->lock);
	struct metric *e = m->first;
	while (e && (strcmp(e->name, name) != 0 || strcmp(e->labels, labels) != 0)) {
		assert(strcmp(e->name, name) != 0 || e->kind == kind);
		e = e->next;
	}
	if (!e) {
		e = metric_create(kind, name, labels, help);
		if (e) {
			*m->last = e;
			m->last = &e->next;
		}
	}
	pthread_mutex_unlock(&m->lock);
	assert(!e || e->kind == kind);
	return e;
}

struct counter *metrics_counter(struct metrics *m, const char *name, const char *labels, const char *help)
{
	struct metric *e = metric_get(m, METRIC_COUNTER, name, labels, help);
	return e ? &e->value.counter : NULL;
}

struct gauge *metrics_gauge(struct metrics *m, const char *name, const char *labels, const char *help)
{
	struct metric *e = metric_get(m, METRIC_GAUGE, name, labels, help);
	return e ? &e->value.gauge : NULL;
}

struct histogram *metrics_histogram(struct metrics *m, const char *name, const char *labels, const char *help)
{
	struct metric *e = metric_get(m, METRIC_HISTOGRAM, name, labels, help);
	return e ? &e->value.histogram : NULL;
}

/* --- Histograms. A value v >= 16 of e + 1 bits is in octave e; the three bits below the leading
 * one select the bucket in the octave. */

unsigned histogram_bucket_of(uint64_t value)
{
	if (value < EXACT_BUCKETS)
		return (unsigned)value;
	unsigned e = 63 - (unsigned)__builtin_clzll(value);
	unsigned eighth = (unsigned)(value >> (e - OCTAVE_BITS)) & (OCTAVE_BUCKETS - 1);
	return EXACT_BUCKETS + (e - EXACT_BITS) * OCTAVE_BUCKETS + eighth;
}

uint64_t histogram_bucket_bound(unsigned bucket)
{
	assert(bucket < HISTOGRAM_BUCKETS);
	if (bucket < EXACT_BUCKETS)
		return bucket;
	unsigned e = EXACT_BITS + (bucket - EXACT_BUCKETS) / OCTAVE_BUCKETS;
	if (e > 63)
		return UINT64_MAX;
	uint64_t eighth = (bucket - EXACT_BUCKETS) % OCTAVE_BUCKETS;
	return ((OCTAVE_BUCKETS + eighth) << (e - OCTAVE_BITS)) + ((1ull << (e - OCTAVE_BITS)) - 1);
}

void histogram_record(struct histogram *h, uint64_t value)
{
	atomic_fetch_add_explicit(&h->bucket[histogram_bucket_of(value)], 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&h->count, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&h->sum, value, memory_order_relaxed);
	uint64_t max = atomic_load_explicit(&h->max, memory_order_relaxed);
	while (value > max &&
	       !atomic_compare_exchange_weak_explicit(&h->max, &max, value, memory_order_relaxed, memory_order_relaxed))
		;
}

uint64_t histogram_quantile(struct histogram *h, double q)
{
	assert(q >= 0 && q <= 1);
	uint64_t counts[HISTOGRAM_BUCKETS], total = 0;
	for (unsigned b = 0; b < HISTOGRAM_BUCKETS; b++)
		total += counts[b] = atomic_load_explicit(&h->bucket[b], memory_order_relaxed);
	if (total == 0)
		return 0;
	double rank = q * (double)total;
	uint64_t below = 0;
	for (unsigned b = 0; b < HISTOGRAM_BUCKETS; b++) {
		below += counts[b];
		if (below > 0 && (double)below >= rank)
			return histogram_bucket_bound(b);
	}
	return histogram_bucket_bound(HISTOGRAM_BUCKETS - 1);
}

/* --- Exposition */

static void write_sample(FILE *out, const struct metric *e, const char *suffix)
{
	fprintf(out, "%s%s", e->name, suffix);
	if (*e->labels)
		fprintf(out, "{%s}", e->labels);
	fputc(' ', out);
}

static void write_histogram(FILE *out, struct metric *e)
{
	struct histogram *h = &e->value.histogram;
	size_t length = strlen(e->name), suffix = strlen(SECONDS_SUFFIX);
	bool seconds = length > suffix && strcmp(e->name + length - suffix, SECONDS_SUFFIX) == 0;
	const char *comma = *e->labels ? "," : "";
	uint64_t below = 0;
	unsigned next = 0;
	for (unsigned k = 0; k <= EXPOSED_BITS; k++) {
		uint64_t bound = (1ull << k) - 1;
		for (; histogram_bucket_bound(next) <= bound; next++)
			below += atomic_load_explicit(&h->bucket[next], memory_order_relaxed);
		fprintf(out, "%s_bucket{%s%sle=\"%.12g\"} %" PRIu64 "\n", e->name, e->labels, comma,
		        seconds ? (double)bound / NANOSECONDS : (double)bound, below);
	}
	for (; next < HISTOGRAM_BUCKETS; next++)
		below += atomic_load_explicit(&h->bucket[next], memory_order_relaxed);
	fprintf(out, "%s_bucket{%s%sle=\"+Inf\"} %" PRIu64 "\n", e->name, e->labels, comma, below);
	uint64_t sum = atomic_load_explicit(&h->sum, memory_order_relaxed);
	write_sample(out, e, "_sum");
	if (seconds)
		fprintf(out, "%.17g\n", (double)sum / NANOSECONDS);
	else
		fprintf(out, "%" PRIu64 "\n", sum);
	write_sample(out, e, "_count");
	fprintf(out, "%" PRIu64 "\n", below);
}

static void write_metric(FILE *out, struct metric *e)
{
	if (e->kind == METRIC_HISTOGRAM) {
		write_histogram(out, e);
		return;
	}
	write_sample(out, e, "");
	if (e->kind == METRIC_COUNTER)
		fprintf(out, "%" PRIu64 "\n", counter_get(&e->value.counter));
	else
		fprintf(out, "%" PRId64 "\n", atomic_load_explicit(&e->value.gauge.value, memory_order_relaxed));
}

static bool is_first_of_name(struct metrics *m, const struct metric *e)
{
	const struct metric *at = m->first;
	while (strcmp(at->name, e->name) != 0)
		at = at->next;
	return at == e;
}

void metrics_series(FILE *out, struct metrics *m)
{
	static const char *const types[] = {"counter", "gauge", "histogram"};
	pthread_mutex_lock(&m->lock);
	for (struct metric *e = m->first; e; e = e->next) {
		/* All series of one name follow one header. */
		if (!is_first_of_name(m, e))
			continue;
		exposition_header(out, e->name, types[e->kind], e->help);
		for (struct metric *same = e; same; same = same->next)
			if (strcmp(same->name, e->name) == 0)
				write_metric(out, same);
	}
	pthread_mutex_unlock(&m->lock);
}
