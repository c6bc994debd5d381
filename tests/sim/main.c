/* simulator [--seed N] [--seeds COUNT | --seeds A..B] [--seconds S] [--jobs J] [--first] [--trace]
 *
 * Runs jobs from seed N on (default 1), each in a world of its own, for COUNT seeds or S seconds,
 * in J processes. The first seed runs twice and must repeat its trace. --first ends at the first
 * violation. --trace prints events and uses one process. Prints figures at the end; exits 0 without
 * violations. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/sim/job/job.h"
#include "tests/sim/machine_time.h"

enum { JOBS_MAX = 64, KINDS = SIM_REPLICAS_MAX * 4 /* kinds of jobs: by replicas, log and mode */ };

struct plan {
	uint64_t seed, seeds;
	double seconds;
	uint32_t jobs;
	bool trace, first;
	const struct totals *totals; /* (jobs), shared by the processes */
};

static bool parse_seeds(struct plan *p, const char *text)
{
	char *end;
	const uint64_t first = strtoull(text, &end, 0);
	if (strncmp(end, "..", 2) == 0) {
		p->seed = first;
		p->seeds = strtoull(end + 2, &end, 0) + 1 - first;
	} else {
		p->seeds = first;
	}
	return !*end && p->seeds > 0;
}

static bool parse(struct plan *p, int argc, char **argv)
{
	*p = (struct plan){.seed = 1, .seeds = UINT64_MAX, .seconds = 1e9, .jobs = 1};
	bool ok = true, limited = false;
	for (int i = 1; i < argc && ok; i++) {
		const char *more = i + 1 < argc ? argv[i + 1] : NULL;
		i += more != NULL;
		if (more && strcmp(argv[i - 1], "--seed") == 0) {
			p->seed = strtoull(more, NULL, 0);
		} else if (more && strcmp(argv[i - 1], "--seeds") == 0) {
			limited = ok = parse_seeds(p, more);
		} else if (more && strcmp(argv[i - 1], "--seconds") == 0) {
			limited = (p->seconds = strtod(more, NULL)) > 0;
		} else if (more && strcmp(argv[i - 1], "--jobs") == 0) {
			p->jobs = (uint32_t)strtoul(more, NULL, 0);
			ok = p->jobs > 0 && p->jobs <= JOBS_MAX;
		} else {
			i -= more != NULL;
			p->first |= strcmp(argv[i], "--first") == 0;
			p->trace |= strcmp(argv[i], "--trace") == 0;
			ok = strcmp(argv[i], "--first") == 0 || strcmp(argv[i], "--trace") == 0;
		}
	}
	if (!limited)
		p->seeds = 1;
	if (!ok)
		fprintf(stderr, "usage: sim [--seed N] [--seeds COUNT | --seeds A..B] [--seconds S] [--jobs J] [--first] [--trace]\n");
	return ok;
}

/* --- Figures, shared by the processes */

struct totals {
	struct result sum;
	/* first: lowest seed with a violation; 0: none. */
	uint64_t runs, violations, replicated, durable, lost, exact, first;
	/* The seed that runs now or next. */
	uint64_t seed;
	double simulated_s, slowest_s;
	bool combinations[KINDS][1u << FAULTS];
};

static void add(struct totals *t, const struct result *r)
{
	uint32_t committed = 0;
	t->runs++;
	t->replicated += r->replicas > 1;
	t->durable += r->durable;
	t->lost += r->is_lost;
	t->exact += r->exact;
	t->simulated_s += (double)r->took_ns * 1e-9;
	if (t->slowest_s < (double)r->slowest_ns * 1e-9)
		t->slowest_s = (double)r->slowest_ns * 1e-9;
	t->sum.events += r->events;
	t->sum.starts += r->starts;
	t->sum.pushes += r->pushes;
	t->sum.stalls += r->stalls;
	t->sum.noticed += r->noticed;
	t->sum.reads += r->reads;
	t->sum.moves += r->moves;
	t->sum.packets += r->packets;
	t->sum.stalled += r->stalled;
	t->sum.early += r->early;
	t->sum.resets += r->resets;
	t->sum.silences += r->silences;
	t->sum.failovers += r->failovers;
	for (uint32_t i = 0; i < FAULTS; i++) {
		t->sum.done[i] += r->done[i];
		committed |= (uint32_t)(r->done[i] > 0) << i;
	}
	t->combinations[(r->replicas - 1) * 4 + r->durable * 2u + r->synchronous][committed] = true;
}

static void add_totals(struct totals *t, const struct totals *other)
{
	struct result r = other->sum;
	t->runs += other->runs;
	t->violations += other->violations;
	t->replicated += other->replicated;
	t->durable += other->durable;
	t->lost += other->lost;
	t->exact += other->exact;
	t->simulated_s += other->simulated_s;
	if (t->slowest_s < other->slowest_s)
		t->slowest_s = other->slowest_s;
	if (other->first && (!t->first || other->first < t->first))
		t->first = other->first;
	t->sum.events += r.events;
	t->sum.starts += r.starts;
	t->sum.pushes += r.pushes;
	t->sum.stalls += r.stalls;
	t->sum.noticed += r.noticed;
	t->sum.reads += r.reads;
	t->sum.moves += r.moves;
	t->sum.packets += r.packets;
	t->sum.stalled += r.stalled;
	t->sum.early += r.early;
	t->sum.resets += r.resets;
	t->sum.silences += r.silences;
	t->sum.failovers += r.failovers;
	for (uint32_t i = 0; i < FAULTS; i++)
		t->sum.done[i] += r.done[i];
	for (uint32_t i = 0; i < KINDS; i++)
		for (uint32_t j = 0; j < 1u << FAULTS; j++)
			t->combinations[i][j] |= other->combinations[i][j];
}

static void violate(struct totals *t, uint64_t seed)
{
	t->violations++;
	if (!t->first)
		t->first = seed;
}

static void print(const struct totals *t, double elapsed)
{
	static const char *const names[FAULTS] = {
#define SIM_FAULT_NAME(name, text) [FAULT_##name] = text,
	    SIM_FAULT_MAP(SIM_FAULT_NAME)
#undef SIM_FAULT_NAME
	};
	const struct result *s = &t->sum;
	uint64_t combinations = 0;
	for (uint32_t i = 0; i < KINDS; i++)
		for (uint32_t j = 0; j < 1u << FAULTS; j++)
			combinations += t->combinations[i][j];
	printf(
	    "%llu with replicas, %llu with logs on disk, %llu with every element compared, %llu to be begun anew before anything was "
	    "committed; %.0f simulated seconds, at most %.1f s without progress\n",
	    (unsigned long long)t->replicated, (unsigned long long)t->durable, (unsigned long long)t->exact,
	    (unsigned long long)t->lost, t->simulated_s, t->slowest_s);
	printf("%llu processes, %llu new primaries, %llu pushes, %llu reads at replicas, %llu packets (%llu stalled, %llu out of "
	       "order), "
	       "%llu resets, %llu silences, %llu events\n",
	       (unsigned long long)s->starts, (unsigned long long)s->failovers, (unsigned long long)s->pushes,
	       (unsigned long long)s->reads, (unsigned long long)s->packets, (unsigned long long)s->stalled,
	       (unsigned long long)s->early, (unsigned long long)s->resets, (unsigned long long)s->silences,
	       (unsigned long long)s->events);
	for (uint32_t i = 0; i < FAULTS; i++)
		printf("  %7u  %s\n", s->done[i], names[i]);
	printf("  %7llu  a trainer computes no more for a while, and its library goes on; %llu times it was taken for dead\n",
	       (unsigned long long)s->stalls, (unsigned long long)s->noticed);
	printf("%llu seeds, %llu violations, %.1f seeds a second, %llu distinct combinations of job and faults\n",
	       (unsigned long long)t->runs, (unsigned long long)t->violations, (double)t->runs / elapsed,
	       (unsigned long long)combinations);
}

/* --- Running */

static void complain(const struct result *r)
{
	fprintf(stderr, "seed %llu: %s\nsimulator --seed %llu --trace shows it\n", (unsigned long long)r->seed, r->failure,
	        (unsigned long long)r->seed);
}

/* Runs the seed twice and compares. */
static bool repeats(uint64_t seed)
{
	static struct result first, second;
	job_run(&first, seed, false);
	job_run(&second, seed, false);
	if (first.hash != second.hash)
		fprintf(stderr, "seed %llu: trace %016llx, then %016llx\n", (unsigned long long)seed, (unsigned long long)first.hash,
		        (unsigned long long)second.hash);
	else
		printf("seed %llu: trace %016llx, twice\n", (unsigned long long)seed, (unsigned long long)first.hash);
	fflush(stdout);
	return first.hash == second.hash;
}

/* By any of the processes. */
static bool is_violated(const struct plan *p)
{
	for (uint32_t i = 0; i < p->jobs; i++)
		if (p->totals[i].violations)
			return true;
	return false;
}

static bool is_over(const struct plan *p, const struct totals *t, double start)
{
	return t->seed - p->seed >= p->seeds || machine_time_s() - start >= p->seconds || (p->first && is_violated(p));
}

/* Runs every jobs-th seed from t->seed on. */
static void run(const struct plan *p, struct totals *t, double start)
{
	static struct result r;
	for (; !is_over(p, t, start); t->seed += p->jobs) {
		job_run(&r, t->seed, p->trace);
		add(t, &r);
		if (!r.failure[0])
			continue;
		violate(t, r.seed);
		complain(&r);
	}
}

/* Runs in a process of its own. If it hits an assertion, the run that follows reports it. */
static bool repeats_apart(uint64_t seed)
{
	int status = 0;
	const pid_t pid = fork();
	if (pid == 0)
		_exit(repeats(seed) ? 0 : 1);
	return pid > 0 && waitpid(pid, &status, 0) == pid && !(WIFEXITED(status) && WEXITSTATUS(status) != 0);
}

static pid_t start_process(const struct plan *p, struct totals *t, double start)
{
	const pid_t pid = fork();
	if (pid == 0) {
		run(p, t, start);
		_exit(0);
	}
	return pid;
}

/* A process that ends abnormally hit an assertion. That counts as a violation, and another process
 * continues after its seed. Returns false if no process could start. */
static bool run_processes(const struct plan *p, struct totals *shared, double start)
{
	pid_t pids[JOBS_MAX] = {0};
	uint32_t running = 0;
	bool ok = true;
	for (uint32_t i = 0; i < p->jobs; i++) {
		shared[i].seed = p->seed + i;
		pids[i] = start_process(p, &shared[i], start);
		ok &= pids[i] > 0;
		running += pids[i] > 0;
	}
	while (running > 0) {
		int status = 0;
		const pid_t pid = wait(&status);
		uint32_t i = 0;
		while (i < p->jobs && pids[i] != pid)
			i++;
		if (i == p->jobs)
			continue;
		running--;
		if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
			continue;
		fprintf(stderr, "seed %llu: the process has died\n", (unsigned long long)shared[i].seed);
		shared[i].runs++;
		violate(&shared[i], shared[i].seed);
		shared[i].seed += p->jobs;
		pids[i] = start_process(p, &shared[i], start);
		ok &= pids[i] > 0;
		running += pids[i] > 0;
	}
	return ok;
}

int main(int argc, char **argv)
{
	static struct totals all;
	struct plan p;
	if (!parse(&p, argc, argv))
		return 2;
	/* Zeroed. */
	struct totals *shared = mmap(NULL, p.jobs * sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED) {
		fprintf(stderr, "simulator: %s\n", strerror(errno));
		return 2;
	}
	p.totals = shared;
	bool ok = p.trace || repeats_apart(p.seed);
	const double start = machine_time_s();
	shared[0].seed = p.seed;
	if (p.trace)
		run(&p, &shared[0], start);
	else
		ok &= run_processes(&p, shared, start);
	for (uint32_t i = 0; i < p.jobs; i++)
		add_totals(&all, &shared[i]);
	print(&all, machine_time_s() - start);
	if (all.first)
		printf("the first violation: seed %llu\n", (unsigned long long)all.first);
	return ok && !all.violations ? 0 : 1;
}
