#include "cli/profile/profile_flows.h"

#include <stdlib.h>
#include <string.h>

/* --- An index of the spans that flows go through */

static int compare(uint64_t a, uint64_t b)
{
	return a < b ? -1 : a > b;
}

static int compare_times(const struct trace_span *a, const struct trace_span *b)
{
	return a->begun_ns < b->begun_ns ? -1 : a->begun_ns > b->begun_ns;
}

static int compare_batches(const struct trace_what *a, const struct trace_what *b)
{
	int order = compare((uint64_t)a->pass << 32 | a->unit, (uint64_t)b->pass << 32 | b->unit);
	return order ? order : compare((uint64_t)a->batch << 32 | a->attempt, (uint64_t)b->batch << 32 | b->attempt);
}

static uint64_t point_key(const struct trace_what *w)
{
	return (uint64_t)w->kind << 32 | (uint32_t)w->partition << 16 | w->part;
}

static int compare_whats(const struct trace_what *a, const struct trace_what *b)
{
	const int order = compare_batches(a, b);
	return order ? order : compare(point_key(a), point_key(b));
}

static int by_what(const void *a, const void *b)
{
	const struct trace_span *x = ((const struct profile_place *)a)->span, *y = ((const struct profile_place *)b)->span;
	const int order = compare_whats(&x->what, &y->what);
	return order ? order : compare_times(x, y);
}

struct index {
	struct profile_place *items; /* (count) by_what */
	uint64_t count;
};

static bool make_index(const struct profile *p, const struct profile_place *places, struct index *out)
{
	out->items = malloc((p->spans + 1) * sizeof *out->items);
	out->count = 0;
	for (uint64_t i = 0; out->items && i < p->spans; i++)
		if (places[i].span->what.kind < TRACE_FLOW_KINDS && places[i].span->what.attempt)
			out->items[out->count++] = places[i];
	if (out->items)
		qsort(out->items, out->count, sizeof *out->items, by_what);
	return out->items != NULL;
}

/* The first one that is not before `what`. */
static uint64_t find(const struct index *x, const struct trace_what *what)
{
	uint64_t low = 0, high = x->count;
	while (low < high) {
		const uint64_t middle = low + (high - low) / 2;
		if (compare_whats(&x->items[middle].span->what, what) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* --- A flow */

/* The spans of a kind that the part went through, as far as spans of that kind tell parts apart. */
static struct trace_what wanted(const struct trace_what *part, enum trace_kind kind)
{
	struct trace_what w = *part;
	w.kind = (uint16_t)kind;
	if (kind == TRACE_LEASE)
		w.batch = TRACE_NO_BATCH;
	if (kind < TRACE_APPEND)
		w.part = 0;
	if (kind < TRACE_APPEND && kind != TRACE_ANSWER)
		w.partition = 0;
	return w;
}

static int by_time(const void *a, const void *b)
{
	const struct trace_span *x = ((const struct profile_place *)a)->span, *y = ((const struct profile_place *)b)->span;
	const int order = compare_times(x, y);
	return order ? order : compare(x->what.kind, y->what.kind);
}

static void add_points(const struct index *x, const struct trace_what *part, int64_t until_ns, struct profile_flow *f)
{
	for (enum trace_kind kind = 0; kind < TRACE_ACKNOWLEDGED; kind++) {
		const struct trace_what w = wanted(part, kind);
		const uint32_t most = kind == TRACE_TAKE ? WEIR_REPLICAS_MAX : 1; /* a push that is sent again has several */
		uint64_t at = find(x, &w);
		for (uint32_t n = 0; n < most && at < x->count && compare_whats(&x->items[at].span->what, &w) == 0; n++, at++)
			if (x->items[at].span->begun_ns <= until_ns)
				f->points[f->count++] = x->items[at];
	}
}

weir_status profile_flows_find(const struct profile *p, const struct profile_place *places, struct profile_flows *out,
                               weir_error *err)
{
	struct index x;
	*out = (struct profile_flows){0};
	bool complete = make_index(p, places, &x);
	uint64_t ends = 0;
	for (uint64_t i = 0; complete && i < x.count; i++)
		ends += x.items[i].span->what.kind == TRACE_ACKNOWLEDGED;
	complete = complete && (out->items = calloc(ends + 1, sizeof *out->items));
	for (uint64_t i = 0; complete && i < x.count; i++) {
		const struct profile_place *end = &x.items[i];
		if (end->span->what.kind != TRACE_ACKNOWLEDGED)
			continue;
		struct profile_flow *f = &out->items[out->count++];
		add_points(&x, &end->span->what, end->span->begun_ns, f);
		qsort(f->points, f->count, sizeof *f->points, by_time);
		f->points[f->count++] = *end;
	}
	free(x.items);
	return complete ? WEIR_OK : weir_fail(err, WEIR_E_MEMORY, "no memory for the flows of a profile");
}

void profile_flows_destroy(struct profile_flows *f)
{
	free(f->items);
	*f = (struct profile_flows){0};
}

const struct profile_place *profile_flow_point(const struct profile_flow *f, enum trace_kind kind)
{
	for (uint32_t i = 0; i < f->count; i++)
		if (f->points[i].span->what.kind == kind)
			return &f->points[i];
	return NULL;
}

const struct profile_place *profile_flow_computed(const struct profile_flow *f)
{
	const struct profile_place *on_host = profile_flow_point(f, TRACE_COMPUTE);
	return on_host ? on_host : profile_flow_point(f, TRACE_COMPUTE_DEVICE);
}

bool profile_same_batch(const struct trace_what *a, const struct trace_what *b)
{
	return compare_batches(a, b) == 0;
}
