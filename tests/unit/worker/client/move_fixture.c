#include "tests/unit/worker/client/move_fixture.h"

#include <stdlib.h>
#include <time.h>

#include "server/ledger/ledger_log.h"
#include "tests/await.h"
#include "tests/cmocka_check.h"
#include "tests/unit/on_loop.h"
#include "tests/unit/worker/client/integer_trainer.h"

uint32_t pushes_so_far(struct pusher *p)
{
	pthread_mutex_lock(&p->lock);
	const uint32_t count = p->count;
	pthread_mutex_unlock(&p->lock);
	return count;
}

static weir_status push_one(struct pusher *p, const weir_unit *u, uint32_t batch)
{
	uint64_t keys[KEYS_PUSHED];
	float add[KEYS_PUSHED * WIDTH];
	const weir_batch id = {.pass = u->pass, .unit = u->unit, .batch = batch, .attempt = u->attempt};
	const float value = (float)(batch % 3 + 1);
	struct push *at = &p->pushes[pushes_so_far(p)];
	weir_ticket ticket;
	for (uint32_t i = 0; i < KEYS_PUSHED; i++)
		keys[i] = i;
	for (uint32_t i = 0; i < KEYS_PUSHED * WIDTH; i++)
		add[i] = -value;
	const weir_push_item item = {.table = p->table, .keys = keys, .rows = KEYS_PUSHED, .values = add};
	at->from_ns = clock_ns(clock_system());
	weir_status status = weir_push(p->client, &id, &item, 1, NULL, NULL, NULL, &ticket, &p->err);
	if (!status)
		status = weir_wait(p->client, ticket, PATIENCE_MS, &p->err);
	at->to_ns = clock_ns(clock_system());
	p->sum += value;
	pthread_mutex_lock(&p->lock);
	p->count++;
	pthread_cond_signal(&p->pushed);
	pthread_mutex_unlock(&p->lock);
	nanosleep(&(struct timespec){.tv_nsec = PUSH_PAUSE_NS}, NULL);
	return status;
}

static bool goes_on(struct pusher *p)
{
	pthread_mutex_lock(&p->lock);
	const bool on = !p->stop && p->count < PUSHES_MAX;
	pthread_mutex_unlock(&p->lock);
	return on;
}

static weir_status push_units(struct pusher *p)
{
	weir_status status = WEIR_OK;
	while (!status && goes_on(p)) {
		weir_unit u = {0};
		status = weir_unit_lease(p->client, &u, PATIENCE_MS, &p->err);
		if (!status)
			status = weir_unit_begin(p->client, &u, UNIT_PUSHES, &p->err);
		uint32_t batch = 0;
		while (!status && goes_on(p) && batch < UNIT_PUSHES)
			status = push_one(p, &u, batch++);
		if (!status && batch == UNIT_PUSHES)
			status = weir_unit_commit(p->client, &u, &p->err);
	}
	return status;
}

static void *pusher_main(void *arg)
{
	struct pusher *p = arg;
	const weir_status status = push_units(p);
	pthread_mutex_lock(&p->lock);
	p->status = status;
	p->ended = true;
	pthread_cond_signal(&p->pushed);
	pthread_mutex_unlock(&p->lock);
	return NULL;
}

static void start_pushing(struct world *w)
{
	struct pusher *p = &w->pusher;
	p->client = cluster_trainer(&w->cluster, "pusher", PUSHES_MAX / UNIT_PUSHES + 1);
	p->table = cluster_table(p->client, "rows", WEIR_EMBEDDING, WIDTH, (weir_mode){WEIR_ASYNC});
	p->pushes = malloc(PUSHES_MAX * sizeof *p->pushes);
	assert_non_null(p->pushes);
	pthread_mutex_init(&p->lock, NULL);
	pthread_cond_init(&p->pushed, NULL);
	assert_int_equal(pthread_create(&p->id, NULL, pusher_main, p), 0);
}

void await_pushes(struct world *w, uint32_t count)
{
	struct pusher *p = &w->pusher;
	pthread_mutex_lock(&p->lock);
	const uint32_t enough = p->count + count;
	while (p->count < enough && !p->ended)
		pthread_cond_wait(&p->pushed, &p->lock);
	if (p->count < enough)
		fail_msg("%u pushes instead of %u: %s: %s", p->count, enough, weir_status_name(p->status), p->err.text);
	pthread_mutex_unlock(&p->lock);
}

/* Asserts that all pushes were answered and that every key has their sum, once. */
static void stop_pushing(struct world *w)
{
	struct pusher *p = &w->pusher;
	uint64_t keys[KEYS_PUSHED];
	float rows[KEYS_PUSHED * WIDTH];
	weir_ticket ticket;
	weir_error err = {0};
	pthread_mutex_lock(&p->lock);
	p->stop = true;
	pthread_mutex_unlock(&p->lock);
	pthread_join(p->id, NULL);
	assert_ok(p->status, &p->err);
	for (uint32_t i = 0; i < KEYS_PUSHED; i++)
		keys[i] = i;
	weir_pull_item pull = {.table = p->table, .keys = keys, .rows = KEYS_PUSHED, .values = rows};
	assert_ok(weir_pull(p->client, NULL, &pull, 1, NULL, NULL, &ticket, &err), &err);
	assert_ok(weir_wait(p->client, ticket, PATIENCE_MS, &err), &err);
	for (uint32_t i = 0; i < KEYS_PUSHED * WIDTH; i++)
		assert_true(rows[i] == p->sum);
	const struct audit a = cluster_audit(&w->cluster);
	assert_int_equal(a.twice, 0);
	assert_int_equal(a.applied, (uint64_t)PARTITIONS * p->count);
	assert_int_equal(a.workers_lost, 0);
	weir_abandon(p->client);
	pthread_cond_destroy(&p->pushed);
	pthread_mutex_destroy(&p->lock);
	free(p->pushes);
}

const struct layout *look(struct world *w)
{
	weir_error err = {0};
	CHECK_OK(layout_ask(w->asker, &w->layout, &err), err);
	return &w->layout;
}

static bool is_whole(const struct layout_partition *p)
{
	return p->primary != MEMBER_NONE && member_set_equal(&p->in_sync, &p->hosts);
}

static bool are_whole(const struct layout *l)
{
	bool whole = is_whole(&l->ledger);
	for (uint32_t p = 0; p < l->partitions_count; p++)
		whole &= is_whole(&l->partitions[p]);
	return whole;
}

void await_whole(struct world *w)
{
	AWAIT(are_whole(look(w)), "some partition has no primary, or not all its replicas");
}

struct world *open_world(uint32_t executors, const char *folder)
{
	struct world *w = calloc(1, sizeof *w);
	weir_error err = {0};
	assert_non_null(w);
	cluster_start(&w->cluster, &(struct cluster_options){.servers = SERVERS,
	                                                     .partitions = PARTITIONS,
	                                                     .executors = executors,
	                                                     .passes = 1,
	                                                     .replicas = REPLICAS,
	                                                     .folder = folder,
	                                                     .memory_budget_bytes = folder ? 256u << 20 : 0});
	CHECK_OK(layout_open(&w->asker, w->cluster.rpc, "memory:0", &err), err);
	start_pushing(w);
	await_whole(w);
	await_pushes(w, SOME_PUSHES);
	return w;
}

void close_world(struct world *w)
{
	stop_pushing(w);
	layout_close(w->asker);
	cluster_stop(&w->cluster);
	free(w);
}

void carry_out(struct world *w)
{
	weir_error err = {0};
	CHECK_OK(layout_carry_out(w->asker, &w->plan, QUIET_MS, NULL, NULL, &err), err);
}

void rebalance(struct world *w)
{
	weir_error err = {0};
	CHECK_OK(layout_ask_all(w->asker, &w->layout, QUIET_MS, NULL, NULL, &err), err);
	CHECK_OK(layout_plan_rebalance(&w->plan, &w->layout, &err), err);
	carry_out(w);
}

void move(struct world *w, uint32_t partition, uint32_t to)
{
	weir_error err = {0};
	CHECK_OK(layout_plan_move(&w->plan, look(w), partition, to, &err), err);
	carry_out(w);
}

uint32_t absent(const struct layout *l, uint32_t partition)
{
	uint32_t server = 0;
	while (member_set_has(&layout_get(l, partition)->hosts, (uint16_t)server))
		server++;
	return server;
}

struct ledger_look {
	struct server *server;
	bool is_here;
};

static void look_at_ledger(void *arg)
{
	struct ledger_look *x = arg;
	struct log *log = ledger_log_entries(x->server->ledger_log);
	x->is_here = log->ops->last(log) > 0;
}

/* Returns true if the server has any part of the ledger. */
static bool ledger_is_here(struct server *s)
{
	struct ledger_look x = {.server = s};
	on_loop(s->ledger_loop, look_at_ledger, &x);
	return x.is_here;
}

void await_ledger(struct server *s, bool is_here)
{
	AWAIT(ledger_is_here(s) == is_here, "%s has %s of the ledger", s->name, is_here ? "nothing" : "something");
}
