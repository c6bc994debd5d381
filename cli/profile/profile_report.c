#include "cli/profile/profile_report.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/backend_traced.h"

const char *profile_share_name(enum profile_share share)
{
	static const char *const names[PROFILE_SHARES] = {
#define PROFILE_SHARE_TEXT(name, text) [SHARE_##name] = text,
	    PROFILE_SHARE_MAP(PROFILE_SHARE_TEXT)
#undef PROFILE_SHARE_TEXT
	};
	return names[share];
}

/* The part of a span within the window. */
static int64_t within(const struct profile *p, const struct trace_span *s)
{
	const int64_t end_ns = span_end_ns(s);
	const int64_t from = s->begun_ns > p->began_ns ? s->begun_ns : p->began_ns;
	const int64_t until = end_ns < p->ended_ns ? end_ns : p->ended_ns;
	return until > from ? until - from : 0;
}

/* --- Workers */

/* The share of the trainer's time that a span is; PROFILE_SHARES: of none. */
static enum profile_share share_of(const struct trace_what *w)
{
	switch (w->kind) {
	case TRACE_COMPUTE:
		return SHARE_COMPUTE;
	case TRACE_PULL_WAIT:
		return SHARE_PULL;
	case TRACE_SEND:
		return SHARE_SEND;
	case TRACE_CREDIT:
		return SHARE_CREDIT;
	case TRACE_PUSH_WAIT:
		return SHARE_ACKNOWLEDGE;
	case TRACE_READ:
		return SHARE_DATA;
	case TRACE_LOAD:
		return SHARE_LOAD;
	case TRACE_LEASE:
	case TRACE_COMMIT:
		return SHARE_LEDGER;
	default:
		return PROFILE_SHARES;
	}
}

static bool is_device_wait(const struct trace_what *w)
{
	const char *op = w->kind == TRACE_OPERATION ? backend_op_name(w->op) : NULL;
	return op && (strcmp(op, "await_mark") == 0 || strcmp(op, "sync_stream") == 0);
}

static void add_worker_span(const struct profile *p, const struct trace_span *s, bool on_device, struct profile_party *out)
{
	const enum profile_share share = share_of(&s->what);
	const int64_t ns = within(p, s), end_ns = span_end_ns(s);
	const bool computed = s->what.kind == TRACE_COMPUTE || s->what.kind == TRACE_COMPUTE_DEVICE;
	if (share < PROFILE_SHARES)
		out->share_ns[share] += ns;
	if (share == SHARE_CREDIT) /* within a push */
		out->share_ns[SHARE_SEND] -= ns;
	if (on_device && is_device_wait(&s->what))
		out->share_ns[SHARE_DEVICE] += ns;
	out->batches += computed && end_ns > p->began_ns && end_ns <= p->ended_ns;
}

static bool runs_on_device(const struct trace_process *t)
{
	for (uint32_t i = 0; i < t->threads_count; i++)
		for (uint64_t j = 0; j < t->threads[i].count; j++)
			if (t->threads[i].spans[j].what.kind == TRACE_COMPUTE_DEVICE)
				return true;
	return false;
}

static void describe_worker(const struct profile *p, const struct trace_process *t, struct profile_party *out)
{
	const bool on_device = runs_on_device(t);
	const int64_t window_ns = p->ended_ns - p->began_ns;
	for (uint32_t i = 0; i < t->threads_count; i++)
		for (uint64_t j = 0; j < t->threads[i].count; j++)
			add_worker_span(p, &t->threads[i].spans[j], on_device, out);
	int64_t other_ns = window_ns;
	for (enum profile_share share = 0; share < SHARE_OTHER; share++)
		other_ns -= out->share_ns[share];
	out->share_ns[SHARE_OTHER] = other_ns > 0 ? other_ns : 0;
	out->batch_ns = out->batches ? (double)window_ns / (double)out->batches : 0;
}

/* --- Servers */

/* The time that a thread works. Its spans are in the order of their ends, so that going back in
 * them each span adds what is before those seen. */
static int64_t worked_ns(const struct profile *p, const struct trace_thread *t)
{
	int64_t sum_ns = 0, seen_from_ns = p->ended_ns;
	for (uint64_t i = t->count; i > 0; i--) {
		const struct trace_span *s = &t->spans[i - 1];
		if (trace_kind_overlaps(s->what.kind))
			continue;
		const int64_t from_ns = s->begun_ns > p->began_ns ? s->begun_ns : p->began_ns, end_ns = span_end_ns(s);
		const int64_t until_ns = end_ns < seen_from_ns ? end_ns : seen_from_ns;
		sum_ns += until_ns > from_ns ? until_ns - from_ns : 0;
		seen_from_ns = from_ns < seen_from_ns ? from_ns : seen_from_ns;
	}
	return sum_ns;
}

static void describe_server(const struct profile *p, const struct trace_process *t, struct profile_party *out)
{
	for (uint32_t i = 0; i < t->threads_count; i++) {
		const double busy = (double)worked_ns(p, &t->threads[i]) / (double)(p->ended_ns - p->began_ns);
		out->busy = busy > out->busy ? busy : out->busy;
	}
}

/* The times of servers, as the workers see them. */
static void time_servers(const struct profile_flows *flows, struct profile_party *parties)
{
	for (uint64_t i = 0; i < flows->count; i++) {
		const struct profile_flow *f = &flows->items[i];
		const struct profile_place *pull = profile_flow_point(f, TRACE_PULL), *answer = profile_flow_point(f, TRACE_ANSWER),
		                           *send = profile_flow_point(f, TRACE_SEND), *append = profile_flow_point(f, TRACE_APPEND);
		if (pull && answer) {
			struct profile_party *x = &parties[answer->process];
			x->pull_ns += (double)(span_end_ns(answer->span) - pull->span->begun_ns);
			x->answered++;
		}
		if (send && append) {
			struct profile_party *x = &parties[append->process];
			const int64_t ns = profile_flow_end(f)->span->begun_ns - span_end_ns(send->span);
			x->push_ns += ns > 0 ? (double)ns : 0;
			x->acknowledged++;
		}
	}
}

/* --- Operations */

struct operation_key {
	uint16_t kind, op;
};

static bool is_operation(uint32_t kind)
{
	return kind == TRACE_OPERATION || kind == TRACE_ENCODE || kind == TRACE_DECODE;
}

/* The operation of a span, made when it is the first. NULL: out of memory. */
static struct profile_operation *find_operation(struct profile_report *r, struct operation_key **keys, const struct trace_what *w)
{
	for (uint32_t i = 0; i < r->operations_count; i++)
		if ((*keys)[i].kind == w->kind && (*keys)[i].op == w->op)
			return &r->operations[i];
	const size_t count = r->operations_count + 1u;
	struct profile_operation *operations = realloc(r->operations, count * sizeof *operations);
	r->operations = operations ? operations : r->operations;
	struct operation_key *more = realloc(*keys, count * sizeof *more);
	*keys = more ? more : *keys;
	if (!operations || !more)
		return NULL;
	more[r->operations_count] = (struct operation_key){w->kind, w->op};
	struct profile_operation *x = &operations[r->operations_count++];
	*x = (struct profile_operation){.calls = 0};
	profile_span_name(w, x->name);
	return x;
}

static bool add_operations(const struct profile *p, const struct trace_thread *t, struct profile_report *r,
                           struct operation_key **keys)
{
	for (uint64_t i = 0; i < t->count; i++) {
		const struct trace_span *s = &t->spans[i];
		const int64_t ns = is_operation(s->what.kind) ? within(p, s) : 0;
		struct profile_operation *x = ns > 0 ? find_operation(r, keys, &s->what) : NULL;
		if (ns > 0 && !x)
			return false;
		if (x) {
			x->calls++;
			x->total_ns += ns;
		}
	}
	return true;
}

static int by_total(const void *a, const void *b)
{
	const struct profile_operation *x = a, *y = b;
	return x->total_ns > y->total_ns ? -1 : x->total_ns < y->total_ns;
}

static bool list_operations(const struct profile *p, struct profile_report *r)
{
	struct operation_key *keys = NULL;
	bool complete = true;
	for (uint32_t i = 0; i < p->count; i++)
		for (uint32_t j = 0; j < p->processes[i].is.threads_count && complete && !p->processes[i].is_server; j++)
			complete = add_operations(p, &p->processes[i].is.threads[j], r, &keys);
	free(keys);
	if (r->operations_count)
		qsort(r->operations, r->operations_count, sizeof *r->operations, by_total);
	return complete;
}

/* --- All of it */

static void sum_up(const struct profile *p, struct profile_report *r)
{
	const double workers_ns = (double)(p->ended_ns - p->began_ns) * (double)p->workers;
	for (uint32_t i = 0; i < r->parties_count; i++) {
		struct profile_party *x = &r->parties[i];
		r->batches += x->batches;
		for (enum profile_share share = 0; share < PROFILE_SHARES && !x->is_server; share++)
			r->shares[share] += (double)x->share_ns[share] / workers_ns;
		x->pull_ns = x->answered ? x->pull_ns / (double)x->answered : 0;
		x->push_ns = x->acknowledged ? x->push_ns / (double)x->acknowledged : 0;
	}
}

weir_status profile_report_make(const struct profile *p, const struct profile_flows *flows, struct profile_report *out,
                                weir_error *err)
{
	*out = (struct profile_report){.seconds = (double)(p->ended_ns - p->began_ns) / 1e9, .parties_count = p->count};
	out->parties = calloc(p->count + 1u, sizeof *out->parties);
	if (!out->parties || !list_operations(p, out)) {
		profile_report_destroy(out);
		return weir_fail(err, WEIR_E_MEMORY, "no memory for the report of a profile");
	}
	for (uint32_t i = 0; i < p->count; i++) {
		struct profile_party *x = &out->parties[i];
		*x = (struct profile_party){.name = p->processes[i].is.name, .is_server = p->processes[i].is_server};
		if (x->is_server)
			describe_server(p, &p->processes[i].is, x);
		else
			describe_worker(p, &p->processes[i].is, x);
	}
	time_servers(flows, out->parties);
	sum_up(p, out);
	const weir_status status = profile_path_find(p, flows, out, err);
	if (status)
		profile_report_destroy(out);
	else
		profile_findings_make(p, flows, out);
	return status;
}

void profile_report_destroy(struct profile_report *r)
{
	free(r->parties);
	free(r->operations);
	*r = (struct profile_report){0};
}
