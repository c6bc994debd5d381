/* The faults of coord_memory.h at exact times, and sessions on their own threads. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/cmocka_check.h"
#include "tests/unit/proto/coord_fixture.h"
#include "tests/unit/server/replication/task_queue.h"

#define LEASE_MS 3000
#define MS       1000000ll

static void run(struct world *w)
{
	coord_memory_run(w->memory);
	for (unsigned ran = 1; ran;) {
		ran = 0;
		for (uint32_t i = 0; i < w->sessions_count; i++)
			if (w->sessions[i].tasks)
				ran += task_queue_run(w->sessions[i].tasks, false);
	}
}

/* Advances time as a simulator does, from one due event to the next. */
static void pass(struct world *w, int64_t ms)
{
	int64_t end = w->now_ns + ms * MS;
	run(w);
	for (int64_t due; (due = coord_memory_due_ns(w->memory)) <= end;) {
		assert_true(due > w->now_ns); /* no due event is left */
		w->now_ns = due;
		run(w);
	}
	w->now_ns = end;
}

static void open_two(struct world *w)
{
	world_open(w, false);
	session_open(w, LEASE_MS);
	session_open(w, LEASE_MS);
	pass(w, 0);
	assert_int_equal(w->sessions[1].state, COORD_CONNECTED);
}

static void put_start(struct session *s, const char *value, bool leased, uint32_t timeout_ms, struct answer *a)
{
	struct coord_change change = {.key = "/t/k", .value = value, .value_bytes = strlen(value), .leased = leased};
	txn_start(s, &(struct coord_txn){.changes = &change, .changes_count = 1}, timeout_ms, a);
}

static void answers_and_events_come_after_the_delay(void **state)
{
	(void)state;
	struct world w;
	static struct answer slow, quick;
	static struct watched watched;
	open_two(&w);
	watch_begin(&w.sessions[0], "/t/", 2, &watched);
	coord_memory_delay(w.sessions[0].coord, 50);
	put_start(&w.sessions[0], "slow", false, 1000, &slow);
	pass(&w, 0);
	read_start(&w.sessions[1], "/t/k", 1000, &quick);
	pass(&w, 0);
	assert_int_equal(quick.count, 1); /* applied at the time of the call */
	pass(&w, 49);
	assert_int_equal(slow.done + watched.count, 0);
	pass(&w, 1);
	assert_int_equal(slow.done, 1);
	assert_int_equal(watched.count, 1);
	world_close(&w);
}

static void an_answer_may_be_lost_and_the_transaction_applied(void **state)
{
	(void)state;
	struct world w;
	static struct answer cut, late, seen;
	open_two(&w);
	struct session *s = &w.sessions[0];
	coord_memory_delay(s->coord, 50);
	put_start(s, "late", false, 20, &late);
	pass(&w, 20);
	assert_int_equal(late.status, WEIR_E_TIMEOUT);
	read_now(&w.sessions[1], "/t/k", &seen);
	assert_string_equal(seen.records[0].value, "late");
	put_start(s, "cut", false, 1000, &cut);
	pass(&w, 10);
	coord_memory_cut(s->coord, true);
	pass(&w, 40);
	assert_int_equal(cut.status, WEIR_E_UNAVAILABLE);
	assert_int_equal(s->state, COORD_AWAY);
	read_now(&w.sessions[1], "/t/k", &seen);
	assert_string_equal(seen.records[0].value, "cut");
	world_close(&w);
}

static void a_cut_session_loses_its_lease_and_learns_it_later(void **state)
{
	(void)state;
	struct world w;
	static struct answer mine, waiting;
	static struct watched seen;
	open_two(&w);
	struct session *s = &w.sessions[0];
	watch_begin(&w.sessions[1], "/t/", 2, &seen);
	put_start(s, "v", true, 1000, &mine);
	pass(&w, LEASE_MS / 3); /* renewed just now */
	int64_t renewed = w.now_ns;
	coord_memory_cut(s->coord, true);
	pass(&w, LEASE_MS - 1);
	assert_int_equal(seen.count, 1);
	pass(&w, 1);
	assert_int_equal(seen.count, 2);
	assert_string_equal(seen.events[1].value, "(deleted)");
	read_start(s, "/t/k", 10000, &waiting);
	pass(&w, 5000);
	assert_int_equal(s->losses + waiting.done, 0);
	coord_memory_cut(s->coord, false);
	pass(&w, 0);
	assert_int_equal(s->losses, 1);
	assert_true(s->held_until_ns == renewed + LEASE_MS * MS);
	assert_int_equal(waiting.status, WEIR_E_STALE);
	world_close(&w);
	assert_int_equal(s->losses, 1);
}

static void leases_stand_still_while_the_store_is_down(void **state)
{
	(void)state;
	struct world w;
	static struct answer a;
	open_two(&w);
	put_start(&w.sessions[0], "v", true, 1000, &a);
	pass(&w, 0);
	world_down(&w);
	pass(&w, 10 * LEASE_MS);
	assert_int_equal(w.sessions[0].state, COORD_AWAY);
	world_up(&w);
	pass(&w, 10 * LEASE_MS);
	assert_int_equal(w.sessions[0].losses, 0);
	read_now(&w.sessions[1], "/t/k", &a);
	assert_int_equal(a.count, 1);
	world_close(&w);
}

static void a_frozen_session_hears_late_and_reads_the_present(void **state)
{
	(void)state;
	struct world w;
	static struct answer a, b;
	static struct watched watched;
	open_two(&w);
	watch_begin(&w.sessions[0], "/t/", 2, &watched);
	coord_memory_freeze(w.sessions[0].coord, true);
	put_start(&w.sessions[1], "1", false, 1000, &a);
	put_start(&w.sessions[1], "2", false, 1000, &b);
	pass(&w, 2 * LEASE_MS);
	assert_int_equal(watched.count, 0);
	read_now(&w.sessions[0], "/t/k", &a);
	assert_string_equal(a.records[0].value, "2");
	coord_memory_freeze(w.sessions[0].coord, false);
	pass(&w, 0);
	assert_int_equal(watched.count, 2);
	assert_int_equal(w.sessions[0].losses, 0);
	world_close(&w);
}

static void a_crashed_session_says_nothing_and_its_lease_runs_out(void **state)
{
	(void)state;
	struct world w;
	static struct answer mine, never;
	static struct watched seen, gone;
	open_two(&w);
	struct session *s = &w.sessions[0];
	put_start(s, "v", true, 1000, &mine);
	pass(&w, 0);
	watch_begin(&w.sessions[1], "/t/", mine.revision + 1, &seen);
	watch_begin(s, "/t/", mine.revision + 1, &gone);
	read_start(s, "/t/", 1000, &never);
	coord_memory_crash(s->coord);
	s->coord = NULL;
	pass(&w, LEASE_MS - 1);
	assert_int_equal(seen.count, 0);
	pass(&w, 1);
	assert_int_equal(seen.count, 1);
	assert_int_equal(never.done + gone.count + s->losses, 0);
	world_close(&w);
}

static void a_lease_is_lost_on_command(void **state)
{
	(void)state;
	struct world w;
	static struct answer a;
	open_two(&w);
	put_start(&w.sessions[0], "v", true, 1000, &a);
	pass(&w, 0);
	coord_memory_expire(w.sessions[0].coord);
	pass(&w, 0);
	assert_int_equal(w.sessions[0].losses, 1);
	assert_int_equal(w.sessions[1].losses, 0);
	read_now(&w.sessions[1], "/t/k", &a);
	assert_int_equal(a.count, 0);
	world_close(&w);
}

/* --- Threads: each increments one counter by compare and swap, and watches it. */

enum { THREADS = 4, RAISES = 100 };

struct raiser {
	struct rpc_loop *loop;
	struct coord *coord;
	struct coord_watch *watch;
	char text[16];
	int raised, last_seen;
	atomic_bool done, saw_all;
};

static void raiser_read(struct raiser *r);

static void raiser_swapped(void *arg, const struct coord_answer *answer)
{
	struct raiser *r = arg;
	assert_int_equal(answer->status, WEIR_OK);
	r->raised += answer->applied;
	if (r->raised == RAISES)
		atomic_store(&r->done, true);
	else
		raiser_read(r);
}

static void raiser_swap(void *arg, const struct coord_answer *answer)
{
	struct raiser *r = arg;
	weir_error err = {0};
	assert_int_equal(answer->status, WEIR_OK);
	int value = answer->count ? atoi(answer->records[0].value) : 0;
	snprintf(r->text, sizeof r->text, "%d", value + 1);
	struct coord_guard guard = {"/t/counter", answer->count ? answer->records[0].mod_revision : 0};
	struct coord_change change = {.key = "/t/counter", .value = r->text, .value_bytes = strlen(r->text) + 1};
	struct coord_txn txn = {.guards = &guard, .guards_count = 1, .changes = &change, .changes_count = 1};
	CHECK_OK(coord_txn(r->coord, &txn, 60000, raiser_swapped, r, &err), err);
}

static void raiser_read(struct raiser *r)
{
	weir_error err = {0};
	CHECK_OK(coord_read(r->coord, "/t/counter", 60000, raiser_swap, r, &err), err);
}

static void raiser_saw(void *arg, const struct coord_record *records, uint32_t count)
{
	struct raiser *r = arg;
	for (uint32_t i = 0; i < count; i++)
		assert_int_equal(atoi(records[i].value), ++r->last_seen);
	if (r->last_seen == THREADS * RAISES)
		atomic_store(&r->saw_all, true);
}

static void raiser_state(void *arg, enum coord_state state, const char *text)
{
	(void)arg, (void)text;
	assert_int_equal(state, COORD_CONNECTED);
}

static void raiser_begin(void *arg)
{
	static const struct coord_watch_handler handler = {.changed = raiser_saw};
	struct raiser *r = arg;
	r->watch = coord_watch_start(r->coord, "/t/", 2, &handler, r);
	raiser_read(r);
}

static void raiser_close(void *arg)
{
	coord_close(((struct raiser *)arg)->coord);
}

static void sessions_on_many_threads_agree(void **state)
{
	(void)state;
	struct rpc *rpc = rpc_memory_create(NULL);
	struct coord_memory *m = coord_memory_create(clock_system());
	static struct raiser raisers[THREADS];
	weir_error err = {0};
	for (int i = 0; i < THREADS; i++) {
		struct raiser *r = &raisers[i];
		struct coord_options options = {.lease_ms = 600000, .handler = {.state = raiser_state}, .arg = r};
		struct callback_executor run_on;
		r->loop = rpc_loop_create(rpc, "raiser", &err);
		assert_non_null(r->loop);
		run_on = rpc_loop_executor(r->loop);
		CHECK_OK(coord_memory_open(&r->coord, m, &run_on, &options, &err), err);
	}
	for (int i = 0; i < THREADS; i++)
		rpc_loop_post(raisers[i].loop, raiser_begin, &raisers[i]);
	for (int i = 0; i < THREADS; i++)
		while (!atomic_load(&raisers[i].done) || !atomic_load(&raisers[i].saw_all))
			coord_memory_run(m);
	for (int i = 0; i < THREADS; i++) {
		rpc_loop_post(raisers[i].loop, raiser_close, &raisers[i]);
		rpc_loop_destroy(raisers[i].loop);
	}
	assert_int_equal(coord_memory_revision(m), 1 + THREADS * RAISES);
	coord_memory_destroy(m);
	rpc_destroy(rpc);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(answers_and_events_come_after_the_delay),
	    cmocka_unit_test(an_answer_may_be_lost_and_the_transaction_applied),
	    cmocka_unit_test(a_cut_session_loses_its_lease_and_learns_it_later),
	    cmocka_unit_test(leases_stand_still_while_the_store_is_down),
	    cmocka_unit_test(a_frozen_session_hears_late_and_reads_the_present),
	    cmocka_unit_test(a_crashed_session_says_nothing_and_its_lease_runs_out),
	    cmocka_unit_test(a_lease_is_lost_on_command),
	    cmocka_unit_test(sessions_on_many_threads_agree),
	};
	return cmocka_run_group_tests_name("coord_memory_faults", tests, NULL, NULL);
}
