/* The critical path of a batch: from its pull to the acknowledgement of the part that is last. What
 * the batch waits for at any moment is one step of it, so the steps add up to the whole time. */
#include <stdlib.h>

#include "cli/profile/profile_report.h"

/* A batch whose whole way is within the window. */
struct whole {
	const struct profile_flow *last;    /* the part that is acknowledged last */
	const struct profile_place *answer; /* the pull's last answer; NULL: no pull */
	int64_t begun_ns, total_ns;
};

/* --- The median */

static const struct profile_place *later(const struct profile_place *a, const struct profile_place *b)
{
	if (!a || !b)
		return a ? a : b;
	return span_end_ns(b->span) > span_end_ns(a->span) ? b : a;
}

/* Of the flows [first, next) of one batch. False: it is not whole. */
static bool describe(const struct profile *p, const struct profile_flows *flows, uint64_t first, uint64_t next, struct whole *out)
{
	*out = (struct whole){0};
	const struct profile_place *end = NULL;
	for (uint64_t i = first; i < next; i++) {
		const struct profile_flow *f = &flows->items[i];
		out->answer = later(out->answer, profile_flow_point(f, TRACE_ANSWER));
		if (!end || span_end_ns(profile_flow_end(f)->span) > span_end_ns(end->span)) {
			end = profile_flow_end(f);
			out->last = f;
		}
	}
	const struct profile_place *pull = profile_flow_point(out->last, TRACE_PULL), *computed = profile_flow_computed(out->last);
	if (!computed || !profile_flow_point(out->last, TRACE_SEND) || !profile_flow_point(out->last, TRACE_APPEND))
		return false;
	out->begun_ns = pull ? pull->span->begun_ns : computed->span->begun_ns;
	out->total_ns = span_end_ns(end->span) - out->begun_ns;
	return out->begun_ns >= p->began_ns && span_end_ns(end->span) <= p->ended_ns;
}

static int by_total(const void *a, const void *b)
{
	const struct whole *x = a, *y = b;
	return x->total_ns < y->total_ns ? -1 : x->total_ns > y->total_ns;
}

static uint64_t find_whole(const struct profile *p, const struct profile_flows *flows, struct whole *out)
{
	uint64_t count = 0;
	for (uint64_t first = 0, next; first < flows->count; first = next) {
		const struct trace_what *batch = &profile_flow_end(&flows->items[first])->span->what;
		for (next = first + 1; next < flows->count; next++)
			if (!profile_same_batch(batch, &profile_flow_end(&flows->items[next])->span->what))
				break;
		count += describe(p, flows, first, next, &out[count]);
	}
	return count;
}

/* --- Its steps */

struct walk {
	const struct profile *profile;
	struct profile_report *report;
	int64_t at_ns;
};

/* The batch waits for `what` until then. */
static void step(struct walk *w, const char *what, const struct profile_place *where, int64_t until_ns)
{
	struct profile_report *r = w->report;
	if (until_ns <= w->at_ns)
		return;
	r->path[r->path_count++] = (struct profile_step){
	    .what = what, .where = where ? w->profile->processes[where->process].is.name : NULL, .ns = until_ns - w->at_ns};
	w->at_ns = until_ns;
}

static void walk_to_worker(struct walk *w, const struct whole *b)
{
	const struct profile_place *pull = profile_flow_point(b->last, TRACE_PULL), *computed = profile_flow_computed(b->last);
	if (pull && b->answer && span_end_ns(b->answer->span) <= span_end_ns(pull->span)) {
		step(w, "pull on its way to the server, and its turn there", NULL, b->answer->span->begun_ns);
		step(w, "answers the pull", b->answer, span_end_ns(b->answer->span));
		step(w, "answer on its way to the worker, and decoded", NULL, span_end_ns(pull->span));
	} else if (pull) {
		step(w, "pull", NULL, span_end_ns(pull->span));
	}
	step(w, "waits for its turn to compute", computed, computed->span->begun_ns);
	step(w, "computes", computed, span_end_ns(computed->span));
}

static int64_t least(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static void walk_to_server(struct walk *w, const struct whole *b)
{
	const struct profile_flow *f = b->last;
	const struct profile_place *send = profile_flow_point(f, TRACE_SEND), *append = profile_flow_point(f, TRACE_APPEND),
	                           *replicate = profile_flow_point(f, TRACE_REPLICATE), *apply = profile_flow_point(f, TRACE_APPLY),
	                           *end = profile_flow_end(f);
	step(w, "encodes and sends the push", send, least(span_end_ns(send->span), append->span->begun_ns));
	step(w, "push on its way to the server, and its turn there", NULL, append->span->begun_ns);
	step(w, "appends it to the log", append, span_end_ns(append->span));
	if (replicate)
		step(w, "waits for the other replicas", replicate, span_end_ns(replicate->span));
	if (apply) {
		step(w, "waits to apply it", apply, apply->span->begun_ns);
		step(w, "applies it", apply, span_end_ns(apply->span));
	}
	step(w, "acknowledgement on its way to the worker", NULL, end->span->begun_ns);
	step(w, "notes the acknowledgement", end, span_end_ns(end->span));
}

weir_status profile_path_find(const struct profile *p, const struct profile_flows *flows, struct profile_report *r,
                              weir_error *err)
{
	struct whole *all = malloc((flows->count + 1) * sizeof *all);
	if (!all)
		return weir_fail(err, WEIR_E_MEMORY, "no memory for the report of a profile");
	r->whole = find_whole(p, flows, all);
	if (r->whole) {
		qsort(all, r->whole, sizeof *all, by_total);
		const struct whole *b = &all[r->whole / 2];
		struct walk w = {.profile = p, .report = r, .at_ns = b->begun_ns};
		r->median = profile_flow_end(b->last)->span->what;
		r->median_worker = p->processes[profile_flow_end(b->last)->process].is.name;
		r->median_ns = b->total_ns;
		walk_to_worker(&w, b);
		walk_to_server(&w, b);
	}
	free(all);
	return WEIR_OK;
}
