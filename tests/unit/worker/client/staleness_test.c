/* Bounded staleness with real clients and servers. A worker's n-th read includes at least what each
 * other one pushed in its first n - 1 - bound batches, and at most what it may have pushed by then.
 * Worker i adds 1 to its own element of each table per batch, so a read shows both. With bound 0
 * this is the guarantee of synchronous steps: all of the previous batch, none of the next. Workers
 * stall at random. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "common/base/prng.h"
#include "server/log/journal.h"
#include "tests/cmocka_check.h"
#include "tests/rounds.h"
#include "tests/unit/worker/client/cluster_replicas.h"

enum { WORKERS = 4, TABLES = 3, BATCHES = 1500, STALL_EVERY = 100, STALL_US = 3000 };

struct shared {
	pthread_barrier_t barrier;
	int64_t shift[WORKERS]; /* the ledger's number of the worker's n-th batch is shift + n */
	uint32_t bound, batches;
};

struct worker {
	struct shared *shared;
	char name[16];
	weir_client *client;
	pthread_t thread;
	uint32_t index, tables[TABLES];
	int64_t lead;    /* batches ahead of what it read of another worker, at most */
	uint64_t behind; /* reads that lacked possible pushes of another worker */
	char failure[200];
};

static void say(struct worker *w, const char *what, weir_status status, const weir_error *err)
{
	if (!*w->failure)
		snprintf(w->failure, sizeof w->failure, "%s: %s: %.120s", what, weir_status_name(status), err->text);
}

static void worker_open(struct worker *w, struct shared *s, struct cluster *c, uint32_t index)
{
	*w = (struct worker){.shared = s, .index = index};
	snprintf(w->name, sizeof w->name, "worker-%u", index);
	w->client = cluster_trainer(c, w->name, WORKERS);
	for (uint32_t t = 0; t < TABLES; t++) {
		char name[16];
		snprintf(name, sizeof name, "table-%u", t);
		w->tables[t] = cluster_table(w->client, name, WEIR_DENSE, WORKERS, (weir_mode){.kind = WEIR_SSP, .bound = s->bound});
	}
}

/* values (TABLES, WORKERS) of batch n, counted from 1. */
static void look(struct worker *w, int64_t n, const float *values)
{
	const struct shared *s = w->shared;
	const int64_t mine = s->shift[w->index] + n, bound = s->bound, all = s->batches;
	for (uint32_t t = 0; t < TABLES; t++)
		for (uint32_t j = 0; j < WORKERS; j++) {
			const int64_t has = (int64_t)values[t * WORKERS + j], due = mine - 1 - bound - s->shift[j],
			              may = mine + bound - s->shift[j], lead = mine - 1 - (s->shift[j] + has);
			if (has < (due < all ? due : all) || has > may || (j == w->index && has != n - 1))
				snprintf(w->failure, sizeof w->failure, "batch %lld reads %lld batches of worker %u, expected %lld to %lld",
				         (long long)n, (long long)has, j, (long long)due, (long long)may);
			if (has < all && lead > w->lead) /* nobody waits for a finished worker */
				w->lead = lead;
			w->behind += has < all && lead > 0;
		}
}

/* Returns false after a failure. */
static bool run_batch(struct worker *w, const weir_unit *u, uint32_t batch, bool check)
{
	float values[TABLES * WORKERS], add[WORKERS] = {0};
	weir_pull_item pull[TABLES];
	weir_push_item push[TABLES];
	weir_ticket ticket;
	weir_error err = {0};
	const weir_batch id = {.pass = u->pass, .unit = u->unit, .batch = batch, .attempt = u->attempt};
	add[w->index] = -1;
	for (uint32_t t = 0; t < TABLES; t++) {
		pull[t] = (weir_pull_item){.table = w->tables[t], .values = values + t * WORKERS};
		push[t] = (weir_push_item){.table = w->tables[t], .values = add};
	}
	weir_status status = weir_pull(w->client, &id, pull, TABLES, NULL, NULL, &ticket, &err);
	if (status == WEIR_OK)
		status = weir_wait(w->client, ticket, -1, &err);
	if (status == WEIR_OK && check)
		look(w, (int64_t)batch + 1, values);
	if (status == WEIR_OK)
		status = weir_push(w->client, &id, push, TABLES, NULL, NULL, NULL, &ticket, &err);
	if (status == WEIR_OK)
		status = weir_wait(w->client, ticket, -1, &err);
	if (status != WEIR_OK)
		say(w, "batch", status, &err);
	return !*w->failure;
}

static void *train(void *arg)
{
	struct worker *w = arg;
	struct shared *s = w->shared;
	struct prng random;
	weir_unit u = {0};
	weir_error err = {0};
	prng_seed(&random, 50 + w->index);
	weir_status status = weir_unit_lease(w->client, &u, -1, &err);
	if (status == WEIR_OK)
		status = weir_unit_begin(w->client, &u, s->batches, &err);
	if (status != WEIR_OK)
		say(w, "unit", status, &err);
	bool well = status == WEIR_OK && run_batch(w, &u, 0, false); /* then the ledger has its clock */
	pthread_mutex_lock(&w->client->lock);
	s->shift[w->index] = w->client->clocks.shift;
	pthread_mutex_unlock(&w->client->lock);
	pthread_barrier_wait(&s->barrier);
	for (uint32_t batch = 1; well && batch < s->batches; batch++) {
		if (prng_below(&random, STALL_EVERY) == 0)
			nanosleep(&(struct timespec){.tv_nsec = (long)prng_below(&random, STALL_US) * 1000}, NULL);
		well = run_batch(w, &u, batch, true);
	}
	status = well ? weir_unit_commit(w->client, &u, &err) : WEIR_OK;
	if (status != WEIR_OK)
		say(w, "commit", status, &err);
	if (*w->failure)
		weir_abandon(w->client); /* so that the others do not wait for it */
	return NULL;
}

static void keeps_to(uint32_t bound)
{
	struct cluster c;
	struct worker w[WORKERS] = {0};
	struct shared s = {.bound = bound, .batches = rounds(BATCHES)};
	int64_t lead = 0;
	uint64_t behind = 0;
	weir_error err = {0};
	assert_int_equal(pthread_barrier_init(&s.barrier, NULL, WORKERS), 0);
	cluster_start(&c, &(struct cluster_options){0});
	for (uint32_t i = 0; i < WORKERS; i++)
		worker_open(&w[i], &s, &c, i);
	for (uint32_t i = 0; i < WORKERS; i++)
		assert_int_equal(pthread_create(&w[i].thread, NULL, train, &w[i]), 0);
	for (uint32_t i = 0; i < WORKERS; i++)
		pthread_join(w[i].thread, NULL);
	for (uint32_t i = 0; i < WORKERS; i++) {
		if (*w[i].failure)
			fail_msg("bound %u: worker %u: %s", bound, i, w[i].failure);
		lead = w[i].lead > lead ? w[i].lead : lead;
		behind += w[i].behind;
		CHECK_OK(weir_close(w[i].client, &err), err);
	}
	print_message("bound %u: %u batches of %u workers, read at most %lld batches behind, %.1f %% of the time\n", bound,
	              s.batches * WORKERS, WORKERS, (long long)lead,
	              100.0 * (double)behind / (TABLES * WORKERS * WORKERS * (double)s.batches));
	assert_true(lead <= bound);
	assert_true(bound == 0 || lead > 0); /* otherwise the test had no effect */
	const struct audit a = cluster_audit(&c);
	assert_int_equal(a.applied, a.expected);
	assert_int_equal(a.twice, 0);
	cluster_stop(&c);
	pthread_barrier_destroy(&s.barrier);
}

static void zero_orders_as_steps_do(void **state)
{
	(void)state;
	keeps_to(0);
}

static void a_bound_is_kept(void **state)
{
	(void)state;
	keeps_to(1);
	keeps_to(3);
	keeps_to(10);
}

/* Waits until the ledger has acknowledged `finished` batches; returns how many may begin. */
static uint64_t told(weir_client *c, uint64_t finished)
{
	pthread_mutex_lock(&c->lock);
	while (c->clocks.asked_finished < finished || c->clocks.poll.asking)
		pthread_cond_wait(&c->changed, &c->lock);
	const uint64_t limit = c->clocks.limit;
	pthread_mutex_unlock(&c->lock);
	return limit;
}

/* A new ledger grants nothing until it has heard of every worker, also of one that told the old
 * ledger everything and waits for nothing. */
static void a_client_that_waits_for_nothing_finds_another_ledger(void **state)
{
	enum { PAIR = 2, EACH = 5 };
	static const uint32_t before[] = {0, 1, 0, 0, 1};
	uint32_t done[PAIR] = {0};
	struct cluster c;
	struct cluster_replica ledger;
	struct worker w[PAIR];
	struct shared s = {.bound = 1, .batches = EACH};
	weir_unit u[PAIR] = {0};
	weir_error err = {0};
	(void)state;
	cluster_start(&c, &(struct cluster_options){.replicas = 2});
	for (uint32_t i = 0; i < PAIR; i++) {
		worker_open(&w[i], &s, &c, i);
		CHECK_OK(weir_unit_lease(w[i].client, &u[i], -1, &err), err);
		CHECK_OK(weir_unit_begin(w[i].client, &u[i], EACH, &err), err);
	}
	for (size_t i = 0; i < sizeof before / sizeof *before; i++) {
		assert_true(run_batch(&w[before[i]], &u[before[i]], done[before[i]], false));
		(void)told(w[before[i]].client, ++done[before[i]]);
	}
	/* Worker 1 started level with the other when that had finished one, then finished one
	 * itself. */
	assert_int_equal(told(w[0].client, 3), 4);
	cluster_await_in_sync(&c, 2);
	cluster_kill_server(&c, cluster_await_primary(&c, JOURNAL_LEDGER, &ledger));
	for (uint32_t i = 0; i < PAIR; i++) { /* the first one waits for the other's report */
		for (uint32_t batch = done[i]; batch < EACH; batch++)
			if (!run_batch(&w[i], &u[i], batch, false))
				fail_msg("worker %u: %s", i, w[i].failure);
		CHECK_OK(weir_unit_commit(w[i].client, &u[i], &err), err);
	}
	for (uint32_t i = 0; i < PAIR; i++)
		weir_abandon(w[i].client);
	cluster_stop(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(zero_orders_as_steps_do),
	    cmocka_unit_test(a_bound_is_kept),
	    cmocka_unit_test(a_client_that_waits_for_nothing_finds_another_ledger),
	};
	return cmocka_run_group_tests_name("staleness", tests, NULL, NULL);
}
