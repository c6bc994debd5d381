/* replica_explorer [--seed N] [--seeds COUNT] [--seconds S] [--trace]
 *
 * Runs seeds N, N + 1, ... and prints figures. Exits 1 at the first violation, with the seed that
 * repeats it. Without arguments it runs a few seconds and checks that a seed repeats itself, as in
 * `make test`. */
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "tests/sim/replica/explorer.h"

struct plan {
	uint64_t seed, seeds;
	double seconds;
	bool trace;
};

static bool parse(struct plan *p, int argc, char **argv)
{
	*p = (struct plan){.seed = 1, .seeds = UINT64_MAX, .seconds = 4};
	for (int i = 1; i < argc; i++) {
		const bool more = i + 1 < argc;
		if (strcmp(argv[i], "--trace") == 0) {
			p->trace = true;
		} else if (more && strcmp(argv[i], "--seed") == 0) {
			p->seed = strtoull(argv[++i], NULL, 10);
			p->seeds = 1;
		} else if (more && strcmp(argv[i], "--seeds") == 0) {
			p->seeds = strtoull(argv[++i], NULL, 10);
			p->seconds = 1e9;
		} else if (more && strcmp(argv[i], "--seconds") == 0) {
			p->seconds = strtod(argv[++i], NULL);
		} else {
			fprintf(stderr, "usage: %s [--seed N] [--seeds COUNT] [--seconds S] [--trace]\n", argv[0]);
			return false;
		}
	}
	return true;
}

/* Sums over all runs. */
struct totals {
	uint64_t events, commits, begins, crashes, snapshots, truncations, moves, rewinds;
	uint32_t combinations;       /* number of combinations of fault kinds */
	bool met[1u << FAULT_KINDS]; /* [combination] */
};

static void add(struct totals *t, const struct sim *s)
{
	t->events += s->events;
	t->commits += s->count.commits;
	t->begins += s->count.begins;
	t->crashes += s->count.crashes;
	t->snapshots += s->count.snapshots;
	t->truncations += s->count.truncations;
	t->moves += s->count.moves;
	t->rewinds += s->count.rewinds;
	t->combinations += !t->met[s->kinds];
	t->met[s->kinds] = true;
}

static void print(const struct totals *t, uint64_t runs, double elapsed, uint64_t trace)
{
	printf("seeds %llu (%.1f/s) combinations %u events %llu commits %llu primaries %llu crashes %llu snapshots %llu truncations "
	       "%llu "
	       "moves %llu rewinds %llu last trace %016llx\n",
	       (unsigned long long)runs, (double)runs / elapsed, t->combinations, (unsigned long long)t->events,
	       (unsigned long long)t->commits, (unsigned long long)t->begins, (unsigned long long)t->crashes,
	       (unsigned long long)t->snapshots, (unsigned long long)t->truncations, (unsigned long long)t->moves,
	       (unsigned long long)t->rewinds, (unsigned long long)trace);
}

static bool repeats(struct sim *s, uint64_t seed)
{
	sim_run(s, seed, false);
	const uint64_t first = s->trace;
	sim_run(s, seed, false);
	if (first != s->trace)
		fprintf(stderr, "seed %llu: trace %016llx, then %016llx\n", (unsigned long long)seed, (unsigned long long)first,
		        (unsigned long long)s->trace);
	return first == s->trace;
}

int main(int argc, char **argv)
{
	struct plan p;
	if (!parse(&p, argc, argv))
		return 2;
	struct sim *s = malloc(sizeof *s);
	struct totals *t = calloc(1, sizeof *t);
	if (!s || !t)
		return 2;
	const int64_t start = clock_ns(clock_system());
	uint64_t runs = 0;
	double elapsed = 0;
	bool ok = repeats(s, p.seed);
	for (; ok && runs < p.seeds && elapsed < p.seconds; runs++) {
		ok = sim_run(s, p.seed + runs, p.trace);
		add(t, s);
		elapsed = (double)(clock_ns(clock_system()) - start) / 1e9;
	}
	if (s->failure[0])
		fprintf(stderr, "%s\nreplica_explorer --seed %llu --trace shows it\n", s->failure, (unsigned long long)s->seed);
	print(t, runs, elapsed, s->trace);
	free(t);
	free(s);
	return ok ? 0 : 1;
}
