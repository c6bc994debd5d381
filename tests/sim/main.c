/* simulator [--seed N] [--seeds COUNT] [--seconds S] [--trace]
 *
 * Runs jobs from seed N on (default 1), each in a world of its own, until COUNT of them or S seconds are over. The first one runs twice: its trace must be the
 * same. --trace shows what happens. Prints figures last; exits 0 when nothing was violated. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "job.h"

struct plan {
	uint64_t seed, seeds;
	double seconds;
	bool trace;
};

static bool parse(struct plan *p, int argc, char **argv)
{
	*p = (struct plan){.seed = 1, .seeds = UINT64_MAX, .seconds = 1e9};
	bool limited = false;
	for (int i = 1; i < argc; i++) {
		const bool more = i + 1 < argc;
		if (strcmp(argv[i], "--trace") == 0)
			p->trace = true;
		else if (more && strcmp(argv[i], "--seed") == 0)
			p->seed = strtoull(argv[++i], NULL, 0);
		else if (more && strcmp(argv[i], "--seeds") == 0 && (limited = true))
			p->seeds = strtoull(argv[++i], NULL, 0);
		else if (more && strcmp(argv[i], "--seconds") == 0 && (limited = true))
			p->seconds = strtod(argv[++i], NULL);
		else {
			fprintf(stderr, "usage: simulator [--seed N] [--seeds COUNT] [--seconds S] [--trace]\n");
			return false;
		}
	}
	if (!limited)
		p->seeds = 1;
	return true;
}

static double now(void)
{
	struct timespec t;
	timespec_get(&t, TIME_UTC); /* the machine's own: no seam is here */
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

struct totals {
	struct result sum;
	uint64_t runs, durable, exact;
	double simulated_s;
};

static void add(struct totals *t, const struct result *r)
{
	t->runs++;
	t->durable += r->durable;
	t->exact += r->exact;
	t->simulated_s += (double)r->took_ns * 1e-9;
	t->sum.events += r->events;
	t->sum.starts += r->starts;
	t->sum.pushes += r->pushes;
	t->sum.packets += r->packets;
	t->sum.stalled += r->stalled;
	t->sum.early += r->early;
	t->sum.resets += r->resets;
	t->sum.silences += r->silences;
	for (uint32_t i = 0; i < FAULTS; i++)
		t->sum.done[i] += r->done[i];
}

static void print(const struct totals *t, double elapsed, uint64_t hash)
{
	static const char *const names[FAULTS] = {
#define SIM_FAULT_NAME(name, text) [FAULT_##name] = text,
	    SIM_FAULT_MAP(SIM_FAULT_NAME)
#undef SIM_FAULT_NAME
	};
	const struct result *s = &t->sum;
	printf("%llu seeds in %.1f s (%.1f a second), %.0f simulated seconds, %llu with logs on disk, %llu with every element "
	       "compared\n",
	       (unsigned long long)t->runs, elapsed, (double)t->runs / elapsed, t->simulated_s, (unsigned long long)t->durable,
	       (unsigned long long)t->exact);
	printf(
	    "%llu processes, %llu pushes, %llu packets (%llu stalled, %llu out of order), %llu resets, %llu silences, %llu events\n",
	    (unsigned long long)s->starts, (unsigned long long)s->pushes, (unsigned long long)s->packets,
	    (unsigned long long)s->stalled, (unsigned long long)s->early, (unsigned long long)s->resets,
	    (unsigned long long)s->silences, (unsigned long long)s->events);
	for (uint32_t i = 0; i < FAULTS; i++)
		printf("  %6u  %s\n", s->done[i], names[i]);
	printf("trace %016llx\n", (unsigned long long)hash);
}

static bool is_fine(const struct result *r)
{
	if (r->failure[0])
		fprintf(stderr, "seed %llu: %s\nsimulator --seed %llu --trace shows it\n", (unsigned long long)r->seed, r->failure,
		        (unsigned long long)r->seed);
	return !r->failure[0];
}

static bool repeats(uint64_t seed)
{
	static struct result first, second;
	job_run(&first, seed, false);
	job_run(&second, seed, false);
	if (first.hash != second.hash)
		fprintf(stderr, "seed %llu: trace %016llx, then %016llx\n", (unsigned long long)seed, (unsigned long long)first.hash,
		        (unsigned long long)second.hash);
	return first.hash == second.hash;
}

int main(int argc, char **argv)
{
	static struct totals totals;
	static struct result r;
	struct plan p;
	if (!parse(&p, argc, argv))
		return 2;
	bool ok = repeats(p.seed);
	const double start = now();
	do {
		job_run(&r, p.seed + totals.runs, p.trace);
		add(&totals, &r);
		ok &= is_fine(&r);
	} while (ok && totals.runs < p.seeds && now() - start < p.seconds);
	print(&totals, now() - start, r.hash);
	return ok ? 0 : 1;
}
