/* What stands out in a profile, in words. */
#include <stdarg.h>

#include "cli/profile/profile_report.h"

#define SHARE_LARGE 0.10 /* of workers' time, that something is worth a sentence */
#define RATIO_LARGE 1.3  /* between two servers, or two workers */
#define BUSY_LARGE  0.8  /* of a server's thread */
#define CALLS_LEAST 20u  /* of each of two that are compared */

static void add(struct profile_report *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add(struct profile_report *r, const char *format, ...)
{
	va_list rest;
	if (r->findings_count == PROFILE_FINDINGS_MAX)
		return;
	va_start(rest, format);
	vsnprintf(r->findings[r->findings_count++], PROFILE_TEXT_BYTES, format, rest);
	va_end(rest);
}

static void tell_largest(struct profile_report *r)
{
	enum profile_share most = SHARE_COMPUTE;
	for (enum profile_share share = 0; share < PROFILE_SHARES; share++)
		most = r->shares[share] > r->shares[most] ? share : most;
	if (most != SHARE_COMPUTE)
		add(r, "%.0f %% of a batch's time is %s", 100 * r->shares[most], profile_share_name(most));
	else
		add(r, "workers compute for %.0f %% of their time", 100 * r->shares[SHARE_COMPUTE]);
	enum profile_share next = SHARE_OTHER;
	for (enum profile_share share = SHARE_COMPUTE + 1; share < PROFILE_SHARES; share++)
		if (share != most && (next == most || r->shares[share] > r->shares[next]))
			next = share;
	if (next != most && r->shares[next] >= SHARE_LARGE)
		add(r, "another %.0f %% is %s", 100 * r->shares[next], profile_share_name(next));
}

/* The times of two of a kind that differ most. */
struct extremes {
	const struct profile_party *fast, *slow;
	double fast_ns, slow_ns;
};

static void extend(struct extremes *e, const struct profile_party *x, double ns, uint64_t calls)
{
	if (calls < CALLS_LEAST)
		return;
	if (!e->fast || ns < e->fast_ns) {
		e->fast = x;
		e->fast_ns = ns;
	}
	if (!e->slow || ns > e->slow_ns) {
		e->slow = x;
		e->slow_ns = ns;
	}
}

static void tell_slower(struct profile_report *r, const struct extremes *e, const char *what)
{
	if (e->fast && e->fast_ns > 0 && e->slow_ns >= RATIO_LARGE * e->fast_ns)
		add(r, "%s is %.1fx slower than %s: %s takes %.2f ms against %.2f ms", e->slow->name, e->slow_ns / e->fast_ns,
		    e->fast->name, what, e->slow_ns / 1e6, e->fast_ns / 1e6);
}

static void compare(struct profile_report *r)
{
	struct extremes pulls = {0}, pushes = {0}, batches = {0};
	for (uint32_t i = 0; i < r->parties_count; i++) {
		const struct profile_party *x = &r->parties[i];
		extend(&pulls, x, x->pull_ns, x->answered);
		extend(&pushes, x, x->push_ns, x->acknowledged);
		extend(&batches, x, x->batch_ns, x->batches);
	}
	tell_slower(r, &pulls, "a pull until its answer");
	tell_slower(r, &pushes, "a push until its acknowledgement");
	tell_slower(r, &batches, "a batch");
}

static void tell_busy(struct profile_report *r)
{
	for (uint32_t i = 0; i < r->parties_count; i++)
		if (r->parties[i].busy >= BUSY_LARGE)
			add(r,
			    "the busiest thread of %s works for %.0f %% of the time: give it more (cluster.executors), or the job more "
			    "servers",
			    r->parties[i].name, 100 * r->parties[i].busy);
}

/* The share of replication in the time of pushes on the servers' side. */
static void tell_replication(const struct profile_flows *flows, struct profile_report *r)
{
	double replicating_ns = 0, pushing_ns = 0;
	for (uint64_t i = 0; i < flows->count; i++) {
		const struct profile_flow *f = &flows->items[i];
		const struct profile_place *append = profile_flow_point(f, TRACE_APPEND), *way = profile_flow_point(f, TRACE_REPLICATE);
		if (!append || !way)
			continue;
		replicating_ns += (double)way->span->duration_ns;
		pushing_ns += (double)(profile_flow_end(f)->span->begun_ns - append->span->begun_ns);
	}
	if (pushing_ns > 0)
		add(r, "replication is %.0f %% of the time from a push's arrival to its acknowledgement",
		    100 * replicating_ns / pushing_ns);
}

void profile_findings_make(const struct profile *p, const struct profile_flows *flows, struct profile_report *r)
{
	if (r->batches)
		tell_largest(r);
	compare(r);
	tell_busy(r);
	tell_replication(flows, r);
	if (p->missing[0])
		add(r, "%.200s: no spans came from there", p->missing);
	if (p->lost)
		add(r, "the oldest %llu spans were overwritten: the last %.1f s are complete", (unsigned long long)p->lost, r->seconds);
}
