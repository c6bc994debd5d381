#include "tests/unit/proto/coord_fixture.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/base/deadline.h"
#include "proto/coord/coord_etcd.h"
#include "tests/cmocka_check.h"
#include "tests/unit/server/replication/task_queue.h"

#define SIMULATED_STEP_MS 5
#define NS_PER_MS         1000000ll

/* --- The world */

static int64_t simulated_ns(const struct clock *clock)
{
	return ((const struct world *)(const void *)((const char *)clock - offsetof(struct world, clock)))->now_ns;
}

void world_open(struct world *w, bool etcd)
{
	static const struct clock_ops simulated = {.monotonic_ns = simulated_ns, .wall_ns = simulated_ns};
	memset(w, 0, sizeof *w);
	w->etcd = etcd;
	pthread_mutex_init(&w->lock, NULL);
	deadline_cond_init(&w->changed);
	if (etcd) {
		etcd_process_prepare(&w->process);
		etcd_process_start(&w->process);
		w->rpc = rpc_grpc_create(NULL);
		return;
	}
	w->clock.ops = &simulated;
	w->now_ns = 1;
	w->memory = coord_memory_create(&w->clock);
}

void world_close(struct world *w)
{
	for (uint32_t i = 0; i < w->sessions_count; i++)
		session_close(&w->sessions[i]);
	if (w->etcd) {
		rpc_destroy(w->rpc);
		etcd_process_end(&w->process);
	} else {
		coord_memory_destroy(w->memory);
	}
	pthread_cond_destroy(&w->changed);
	pthread_mutex_destroy(&w->lock);
}

void world_down(struct world *w)
{
	if (w->etcd)
		etcd_process_kill(&w->process);
	else
		coord_memory_down(w->memory, true);
}

void world_up(struct world *w)
{
	if (w->etcd)
		etcd_process_start(&w->process);
	else
		coord_memory_down(w->memory, false);
}

void world_silent(struct world *w, bool silent)
{
	if (w->etcd)
		etcd_process_stop(&w->process, silent);
	else
		coord_memory_down(w->memory, silent);
}

void world_compact(struct world *w, uint64_t revision)
{
	char body[64];
	snprintf(body, sizeof body, "{\"revision\":\"%llu\"}", (unsigned long long)revision);
	if (w->etcd)
		etcd_process_post(&w->process, "/v3/kv/compaction", body);
	else
		coord_memory_compact(w->memory, revision);
}

int64_t world_now_ns(const struct world *w)
{
	return w->etcd ? clock_ns(clock_system()) : w->now_ns;
}

/* In memory: runs posted tasks, and advances time when no task is left. */
static void simulate(struct world *w)
{
	unsigned ran = 0;
	for (uint32_t i = 0; i < w->sessions_count; i++)
		if (w->sessions[i].tasks && !w->sessions[i].stalled)
			ran += task_queue_run(w->sessions[i].tasks, false);
	if (ran)
		return;
	w->now_ns += SIMULATED_STEP_MS * NS_PER_MS;
	coord_memory_run(w->memory);
}

void world_wait(struct world *w, bool (*condition)(void *arg), void *arg, const char *what)
{
	int64_t end_ns = world_now_ns(w) + WORLD_PATIENCE_MS * NS_PER_MS;
	pthread_mutex_lock(&w->lock);
	while (!condition(arg) && world_now_ns(w) < end_ns) {
		if (w->etcd) {
			(void)deadline_wait(&w->changed, &w->lock, end_ns);
			continue;
		}
		pthread_mutex_unlock(&w->lock);
		simulate(w);
		pthread_mutex_lock(&w->lock);
	}
	bool held = condition(arg);
	pthread_mutex_unlock(&w->lock);
	if (!held && w->etcd)
		etcd_process_print_log(&w->process);
	if (!held)
		fail_msg("waited %d ms in vain for: %s", WORLD_PATIENCE_MS, what);
}

/* --- Sessions */

static void on_state(void *arg, enum coord_state state, const char *text)
{
	struct session *s = arg;
	pthread_mutex_lock(&s->world->lock);
	assert_int_not_equal(state, s->state);
	s->state = state;
	s->states++;
	snprintf(s->text, sizeof s->text, "%s", text);
	pthread_cond_broadcast(&s->world->changed);
	pthread_mutex_unlock(&s->world->lock);
}

static void on_lease_lost(void *arg, int64_t held_until_ns)
{
	struct session *s = arg;
	pthread_mutex_lock(&s->world->lock);
	s->losses++;
	s->held_until_ns = held_until_ns;
	pthread_cond_broadcast(&s->world->changed);
	pthread_mutex_unlock(&s->world->lock);
}

struct session *session_open(struct world *w, uint32_t lease_ms)
{
	struct session *s = &w->sessions[w->sessions_count++];
	struct coord_options options = {.lease_ms = lease_ms, .handler = {.state = on_state, .lease_lost = on_lease_lost}, .arg = s};
	weir_error err = {0};
	*s = (struct session){.world = w};
	if (w->etcd) {
		char url[640];
		snprintf(url, sizeof url, COORD_ETCD_SCHEME "%s", *w->endpoints ? w->endpoints : w->process.address);
		s->loop = rpc_loop_create(w->rpc, "coord", &err);
		assert_non_null(s->loop);
		CHECK_OK(coord_etcd_open(&s->coord, w->rpc, s->loop, url, &options, &err), err);
		return s;
	}
	s->tasks = task_queue_create();
	struct callback_executor run_on = task_queue_executor(s->tasks);
	CHECK_OK(coord_memory_open(&s->coord, w->memory, &run_on, &options, &err), err);
	return s;
}

struct state_wanted {
	struct session *session;
	enum coord_state state;
};

static bool state_is(void *arg)
{
	const struct state_wanted *wanted = arg;
	return wanted->session->state == wanted->state;
}

void session_wait_state(struct session *s, enum coord_state state)
{
	static const char *const names[] = {"opening", "connected", "away"};
	world_wait(s->world, state_is, &(struct state_wanted){s, state}, names[state]);
}

void session_close(struct session *s)
{
	coord_close(s->coord);
	s->coord = NULL;
	if (s->loop)
		rpc_loop_destroy(s->loop);
	if (s->tasks) {
		task_queue_run(s->tasks, false);
		task_queue_destroy(s->tasks);
	}
	s->loop = NULL;
	s->tasks = NULL;
}

static void stand_still(void *arg)
{
	struct session *s = arg;
	pthread_mutex_lock(&s->world->lock);
	s->still = true;
	pthread_cond_broadcast(&s->world->changed);
	while (s->stalled)
		pthread_cond_wait(&s->world->changed, &s->world->lock);
	s->still = false;
	pthread_mutex_unlock(&s->world->lock);
}

static bool is_still(void *arg)
{
	return ((struct session *)arg)->still;
}

void session_stall(struct session *s, bool stalled)
{
	pthread_mutex_lock(&s->world->lock);
	s->stalled = stalled;
	pthread_cond_broadcast(&s->world->changed);
	pthread_mutex_unlock(&s->world->lock);
	if (s->loop && stalled) {
		rpc_loop_post(s->loop, stand_still, s);
		world_wait(s->world, is_still, s, "a thread to stand still");
	}
}

void session_part(struct session *s)
{
	if (!s->world->etcd) {
		coord_memory_cut(s->coord, true);
		return;
	}
	session_stall(s, true);
	world_down(s->world);
	world_up(s->world);
}

void session_rejoin(struct session *s)
{
	if (s->world->etcd)
		session_stall(s, false);
	else
		coord_memory_cut(s->coord, false);
}

struct errand {
	struct world *world;
	void (*fn)(void *arg);
	void *arg;
	bool done;
};

static void errand_run(void *arg)
{
	struct errand *e = arg;
	e->fn(e->arg);
	pthread_mutex_lock(&e->world->lock);
	e->done = true;
	pthread_cond_broadcast(&e->world->changed);
	pthread_mutex_unlock(&e->world->lock);
}

static bool errand_done(void *arg)
{
	return ((struct errand *)arg)->done;
}

void on_session(struct session *s, void (*fn)(void *arg), void *arg)
{
	struct errand e = {.world = s->world, .fn = fn, .arg = arg};
	if (s->loop) {
		rpc_loop_post(s->loop, errand_run, &e);
		world_wait(s->world, errand_done, &e, "an errand on a session's thread");
	} else {
		fn(arg);
	}
}

/* --- Calls */

static void told_copy(struct told *to, const struct coord_record *r)
{
	snprintf(to->key, sizeof to->key, "%s", r->key);
	if (r->value)
		snprintf(to->value, sizeof to->value, "%.*s", (int)r->value_bytes, (const char *)r->value);
	else
		snprintf(to->value, sizeof to->value, "(deleted)");
	to->value_bytes = r->value_bytes;
	to->mod_revision = r->mod_revision;
	to->lease = r->lease;
}

static void on_answer(void *arg, const struct coord_answer *answer)
{
	struct answer *a = arg;
	pthread_mutex_lock(&a->session->world->lock);
	a->done++;
	a->status = answer->status;
	snprintf(a->text, sizeof a->text, "%s", answer->text);
	a->applied = answer->applied;
	a->revision = answer->revision;
	for (uint32_t i = 0; i < answer->count && i < TOLD_MAX; i++)
		told_copy(&a->records[i], &answer->records[i]);
	a->count = answer->count;
	pthread_cond_broadcast(&a->session->world->changed);
	pthread_mutex_unlock(&a->session->world->lock);
}

struct question {
	struct answer *answer;
	const char *name;
	const struct coord_txn *txn;
	uint32_t timeout_ms;
};

static void ask(void *arg)
{
	struct question *q = arg;
	struct answer *a = q->answer;
	struct coord *c = a->session->coord;
	weir_status status = q->txn ? coord_txn(c, q->txn, q->timeout_ms, on_answer, a, &a->refused)
	                            : coord_read(c, q->name, q->timeout_ms, on_answer, a, &a->refused);
	assert_int_equal(status, a->refused.status);
	if (status) {
		a->done++;
		a->status = status;
	}
}

void read_start(struct session *s, const char *name, uint32_t timeout_ms, struct answer *a)
{
	memset(a, 0, sizeof *a);
	a->session = s;
	on_session(s, ask, &(struct question){.answer = a, .name = name, .timeout_ms = timeout_ms});
}

void txn_start(struct session *s, const struct coord_txn *txn, uint32_t timeout_ms, struct answer *a)
{
	memset(a, 0, sizeof *a);
	a->session = s;
	on_session(s, ask, &(struct question){.answer = a, .txn = txn, .timeout_ms = timeout_ms});
}

static bool answer_done(void *arg)
{
	return ((struct answer *)arg)->done > 0;
}

void answer_wait(struct answer *a)
{
	world_wait(a->session->world, answer_done, a, "an answer");
}

void read_now(struct session *s, const char *name, struct answer *a)
{
	read_start(s, name, WORLD_PATIENCE_MS / 2, a);
	answer_wait(a);
}

void txn_now(struct session *s, const struct coord_txn *txn, struct answer *a)
{
	txn_start(s, txn, WORLD_PATIENCE_MS / 2, a);
	answer_wait(a);
}

uint64_t put_text(struct session *s, const char *key, const char *value, uint64_t revision, bool leased, struct answer *a)
{
	struct coord_guard guard = {key, revision};
	struct coord_change change = {.key = key, .value = value, .value_bytes = value ? strlen(value) : 0, .leased = leased};
	struct coord_txn txn = {.guards = &guard, .guards_count = revision != ANY, .changes = &change, .changes_count = 1};
	txn_now(s, &txn, a);
	return a->status == WEIR_OK && a->applied ? a->revision : 0;
}

/* --- Watches */

static void on_changed(void *arg, const struct coord_record *records, uint32_t count)
{
	struct watched *w = arg;
	pthread_mutex_lock(&w->session->world->lock);
	for (uint32_t i = 0; i < count && w->count < TOLD_MAX; i++)
		told_copy(&w->events[w->count++], &records[i]);
	w->calls++;
	bool stop = w->stop_at_once;
	pthread_cond_broadcast(&w->session->world->changed);
	pthread_mutex_unlock(&w->session->world->lock);
	if (stop) {
		coord_watch_stop(w->watch);
		w->watch = NULL;
	}
}

static void on_missed(void *arg)
{
	struct watched *w = arg;
	pthread_mutex_lock(&w->session->world->lock);
	w->missed++;
	pthread_cond_broadcast(&w->session->world->changed);
	pthread_mutex_unlock(&w->session->world->lock);
}

struct watch_order {
	struct watched *watched;
	const char *name;
	uint64_t revision;
};

static void start_watch(void *arg)
{
	static const struct coord_watch_handler handler = {.changed = on_changed, .missed = on_missed};
	struct watch_order *o = arg;
	o->watched->watch = coord_watch_start(o->watched->session->coord, o->name, o->revision, &handler, o->watched);
	assert_non_null(o->watched->watch);
}

void watch_begin(struct session *s, const char *name, uint64_t revision, struct watched *w)
{
	bool stop_at_once = w->stop_at_once;
	memset(w, 0, sizeof *w);
	w->session = s;
	w->stop_at_once = stop_at_once;
	on_session(s, start_watch, &(struct watch_order){w, name, revision});
}

static void stop_watch(void *arg)
{
	coord_watch_stop(((struct watched *)arg)->watch);
	((struct watched *)arg)->watch = NULL;
}

void watch_end(struct watched *w)
{
	on_session(w->session, stop_watch, w);
}

struct events_wanted {
	const struct watched *watched;
	uint32_t count;
};

static bool events_there(void *arg)
{
	const struct events_wanted *wanted = arg;
	return wanted->watched->count >= wanted->count;
}

void watched_wait(struct watched *w, uint32_t events)
{
	world_wait(w->session->world, events_there, &(struct events_wanted){w, events}, "events of a watch");
}

static bool missed(void *arg)
{
	return ((struct watched *)arg)->missed > 0;
}

void watched_wait_missed(struct watched *w)
{
	world_wait(w->session->world, missed, w, "a watch to miss something");
}
