/* The ledger's replies over a journal on a faulty disk. A reply waits until everything it may
 * depend on is durable, so a crash forgets nothing that a worker was told. While the disk is full,
 * no request gets a reply and no lease expires. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "proto/frame/frame.h"
#include "server/ledger/ledger_log.h"
#include "server/log/journal.h"
#include "tests/cmocka_check.h"
#include "tests/folder.h"
#include "tests/manual_clock.h"
#include "tests/unit/faulty_disk.h"
#include "tests/unit/server/replication/task_queue.h"

enum { PARTITIONS = 2, UNITS = 50, LEASE_MS = 1000 };

struct world {
	struct manual_clock clock;
	int64_t now_ms;
	struct faulty_disk *disk;
	struct task_queue *loop;
	struct callback_executor run_on;
	struct journal *journal;
	struct ledger *ledger;
	struct ledger_log *log;
	struct log *entries;        /* owned by log */
	struct cold_writer *writer; /* NULL: no snapshots */
	uint64_t tail;              /* uncommitted entries that the next start finds and truncates */
	uint64_t epoch;
	uint32_t worker;
	uint64_t incarnation;
};

struct call { /* A request, and the state of its reply. */
	struct world *w;
	bool made, sent;
	weir_status status;
	uint32_t unit;
};

static uint8_t uuid[16] = "ledger log test";

static void durable_now(void *arg)
{
	ledger_log_durable(((struct world *)arg)->log);
}

static void on_durable(void *ctx, uint16_t channel, uint64_t durable)
{
	struct world *w = ctx;
	(void)channel, (void)durable;
	callback_executor_post(&w->run_on, durable_now, w);
}

static weir_status each(void *ctx, uint16_t channel, const struct log_entry *e, weir_error *err)
{
	assert_int_equal(channel, JOURNAL_LEDGER);
	return ledger_log_replay(((struct world *)ctx)->log, e, err);
}

static weir_status each_cut(void *ctx, uint16_t channel, const struct journal_cut *cut, weir_error *err)
{
	assert_int_equal(channel, JOURNAL_LEDGER);
	return ledger_log_replay_cut(((struct world *)ctx)->log, cut, err);
}

static void start(struct world *w)
{
	static const char *const servers[] = {"memory:0"};
	static const uint32_t places[PARTITIONS];
	struct ledger_options o = {.clock = &w->clock.base,
	                           .entropy = entropy_system(),
	                           .generation = 1,
	                           .lease_ms = LEASE_MS,
	                           .passes = 2,
	                           .partitions = PARTITIONS,
	                           .servers_count = 1,
	                           .servers = servers,
	                           .partition_server = places};
	struct journal_options j = {
	    .disk = faulty_disk_interface(w->disk), .directory = "journal", .holder = "test", .segment_bytes = 64 << 10};
	struct journal_channel c = {.channel = JOURNAL_LEDGER, .first = 1};
	weir_error err = {0};
	memcpy(o.uuid, uuid, sizeof uuid);
	w->loop = task_queue_create();
	w->run_on = task_queue_executor(w->loop);
	if (journal_open(&w->journal, &j, &err) || ledger_create(&w->ledger, &o, &err))
		fail_msg("%s", err.text);
	w->entries = log_disk_create(w->journal, JOURNAL_LEDGER, 1);
	w->log = ledger_log_create(&(struct ledger_log_options){.ledger = w->ledger,
	                                                        .log = w->entries,
	                                                        .epoch = ++w->epoch,
	                                                        .generation = 1,
	                                                        .clock = &w->clock.base,
	                                                        .writer = w->writer,
	                                                        .run_on = w->run_on},
	                           &err);
	if (journal_replay(w->journal, &c, 1, &(struct journal_reader){.entry = each, .cut = each_cut, .ctx = w}, &err))
		fail_msg("%s", err.text);
	journal_watch(w->journal, JOURNAL_LEDGER, on_durable, w);
	assert_int_equal(ledger_log_applied(w->log) + w->tail, c.last);
	assert_int_equal(w->entries->ops->last(w->entries), c.last);
	CHECK_OK(w->entries->ops->truncate_above(w->entries, ledger_log_applied(w->log), &err), err);
	w->tail = 0;
	ledger_log_recovered(w->log);
}

static void note_flushed(void *arg)
{
	*(bool *)arg = true;
}

static void drop(void *arg)
{
	((struct call *)arg)->sent = false;
}

static void stop(struct world *w)
{
	ledger_log_abandon(w->log, drop);
	ledger_log_close(w->log);
	(void)journal_close(w->journal, NULL);
	task_queue_destroy(w->loop);
	ledger_log_destroy(w->log);
	ledger_destroy(w->ledger);
}

static void world_open(struct world *w)
{
	*w = (struct world){.clock = manual_clock_ms(&w->now_ms), .now_ms = 1000, .disk = faulty_disk_create()};
	start(w);
}

static void world_close(struct world *w)
{
	stop(w);
	faulty_disk_destroy(w->disk);
}

/* --- Requests, as ledger_rpc.c makes them */

static void send_now(void *arg)
{
	struct call *c = arg;
	c->sent = true;
}

static void on_join(void *arg, const ProtobufCMessage *m)
{
	struct call *c = arg;
	const Weir__V1__JoinReply *r = (const Weir__V1__JoinReply *)m;
	c->made = true;
	c->status = (weir_status)r->status->code;
	c->w->worker = r->worker;
	c->w->incarnation = r->incarnation;
	ledger_log_reply(c->w->log, send_now, c);
}

static void on_lease(void *arg, const ProtobufCMessage *m)
{
	struct call *c = arg;
	const Weir__V1__LeaseReply *r = (const Weir__V1__LeaseReply *)m;
	c->made = true;
	c->status = (weir_status)r->status->code;
	c->unit = r->unit ? r->unit->unit : UINT32_MAX;
	ledger_log_reply(c->w->log, send_now, c);
}

static void join(struct world *w, struct call *c)
{
	Weir__V1__JoinRequest q = WEIR__V1__JOIN_REQUEST__INIT;
	Weir__V1__Dataset d = WEIR__V1__DATASET__INIT;
	*c = (struct call){.w = w};
	d.units = UNITS;
	q.wire_version = FRAME_VERSION;
	q.name = (char *)(uintptr_t) "worker-0";
	q.dataset = &d;
	ledger_join(w->ledger, &q, NULL, on_join, c);
	ledger_log_commit(w->log);
}

static void lease(struct world *w, struct call *c, uint64_t sequence)
{
	Weir__V1__LeaseRequest q = WEIR__V1__LEASE_REQUEST__INIT;
	Weir__V1__JobId job = WEIR__V1__JOB_ID__INIT;
	*c = (struct call){.w = w};
	job.uuid = (ProtobufCBinaryData){.len = sizeof uuid, .data = uuid};
	job.generation = 1;
	q.job = &job;
	q.worker = w->worker;
	q.incarnation = w->incarnation;
	q.sequence = sequence;
	ledger_lease(w->ledger, &q, on_lease, c);
	ledger_log_commit(w->log);
}

static void await(struct world *w, const struct call *c)
{
	while (!c->sent)
		(void)task_queue_run(w->loop, true);
}

/* --- Tests */

static void a_reply_waits_for_the_fsync_of_what_it_says(void **state)
{
	(void)state;
	struct world w;
	struct call joined, first, second;
	world_open(&w);
	join(&w, &joined); /* creates the journal's first segment */
	await(&w, &joined);
	faulty_disk_hold_syncs(w.disk, true);
	lease(&w, &first, 1);
	faulty_disk_await_held_sync(w.disk);
	lease(&w, &second, 2);
	(void)task_queue_run(w.loop, false);
	assert_true(first.made && second.made && first.unit != second.unit);
	assert_false(first.sent || second.sent);
	faulty_disk_hold_syncs(w.disk, false);
	await(&w, &second);
	assert_true(first.sent);
	world_close(&w);
}

static void a_request_that_changes_nothing_waits_for_what_was_before(void **state)
{
	(void)state;
	struct world w;
	struct call joined, leased, repeated;
	world_open(&w);
	join(&w, &joined);
	await(&w, &joined);
	faulty_disk_hold_syncs(w.disk, true);
	lease(&w, &leased, 1);
	faulty_disk_await_held_sync(w.disk);
	lease(&w, &repeated, 1); /* gets the same unit */
	assert_int_equal(repeated.unit, leased.unit);
	(void)task_queue_run(w.loop, false);
	assert_false(leased.sent || repeated.sent);
	faulty_disk_hold_syncs(w.disk, false);
	await(&w, &repeated);
	assert_true(leased.sent);
	world_close(&w);
}

static void every_reply_survives_every_crash(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 40; seed++) {
		struct world w;
		struct call joined, calls[3];
		world_open(&w);
		join(&w, &joined);
		await(&w, &joined);
		uint32_t said = UINT32_MAX;
		for (uint32_t i = 0; i < 3; i++) {
			lease(&w, &calls[i], i + 1);
			if (seed % 3 > i)
				await(&w, &calls[i]);
		}
		for (uint32_t i = 0; i < 3; i++)
			said = calls[i].sent ? calls[i].unit : said;
		faulty_disk_crash(w.disk, seed % 2 ? CRASH_UNSYNCED : CRASH_RANDOM, seed);
		stop(&w);
		start(&w);
		struct call next;
		/* The worker's incarnation is known, and all its units are still leased to it. */
		lease(&w, &next, 9);
		assert_int_equal(next.status, WEIR_OK);
		assert_true(said == UINT32_MAX || next.unit > said);
		await(&w, &next);
		world_close(&w);
	}
}

/* Recovery does not even parse entries that may be truncated. */
static void uncommitted_entries_are_not_merged(void **state)
{
	(void)state;
	struct world w;
	struct call joined, leased, next;
	weir_error err = {0};
	world_open(&w);
	join(&w, &joined);
	lease(&w, &leased, 1);
	await(&w, &leased);
	const uint64_t last = w.entries->ops->last(w.entries);
	struct message *m = message_copy("no state", 8);
	struct log_entry e = {
	    .index = last + 1, .committed = last, .record = {.kind = RECORD_LEDGER}, .message = m, .body = cursor_at(m)};
	CHECK_OK(w.entries->ops->append(w.entries, &e, &err), err);
	message_release(m);
	faulty_disk_crash(w.disk, CRASH_PROCESS, 0);
	stop(&w);
	w.tail = 1;
	start(&w);
	lease(&w, &next, 2); /* entries with the truncated entry's index, behind the cut */
	await(&w, &next);
	assert_int_equal(next.status, WEIR_OK);
	assert_true(w.entries->ops->last(w.entries) > last);
	faulty_disk_crash(w.disk, CRASH_UNSYNCED, 0);
	stop(&w);
	start(&w);
	world_close(&w);
}

/* by_request: a request finds the free space before a tick does. */
static void fill_and_make_room(bool by_request)
{
	struct world w;
	struct call joined, leased, other;
	world_open(&w);
	join(&w, &joined);
	await(&w, &joined);
	faulty_disk_full_at(w.disk, faulty_disk_steps(w.disk) + 1);
	/* The reserved space may still be written. */
	for (uint64_t i = 1; !ledger_log_is_blocked(w.log); i++)
		lease(&w, &leased, i);
	lease(&w, &other, 1000);
	assert_true(other.made && !other.sent && !leased.sent);
	w.now_ms += 10 * LEASE_MS;
	ledger_log_tick(w.log, w.now_ms); /* the server does not tick the blocked ledger */
	assert_true(ledger_log_is_blocked(w.log));
	faulty_disk_make_room(w.disk);
	if (by_request)
		ledger_log_commit(w.log); /* a request that concerns no worker */
	else
		ledger_log_tick(w.log, w.now_ms);
	assert_false(ledger_log_is_blocked(w.log));
	await(&w, &other);
	assert_true(leased.sent);
	ledger_tick(w.ledger);
	ledger_log_commit(w.log);
	lease(&w, &other, 1001);
	assert_int_equal(other.status, WEIR_OK); /* leases got a whole term again */
	await(&w, &other);
	world_close(&w);
}

static void a_full_disk_holds_up_replies_and_expiry(void **state)
{
	(void)state;
	fill_and_make_room(false);
	fill_and_make_room(true);
}

/* In a busy job some of the log is nearly always not durable. A snapshot waits only until its own
 * entries are. */
static void a_snapshot_of_a_busy_ledger_waits_for_its_own_entries_only(void **state)
{
	(void)state;
	struct world w = {.clock = manual_clock_ms(&w.now_ms), .now_ms = 1000, .disk = faulty_disk_create()};
	struct call joined, first, second;
	struct cold *cold;
	char folder[FOLDER_BYTES];
	uint8_t *snapshot;
	size_t bytes;
	bool flushed = false;
	weir_error err = {0};
	folder_create(folder);
	CHECK_OK(cold_open(&cold, &(struct cold_options){.path = folder, .threads = 1}, &err), err);
	w.writer = cold_writer_create(&(struct cold_writer_options){.cold = cold}, &err);
	assert_non_null(w.writer);
	start(&w);
	join(&w, &joined);
	await(&w, &joined);
	faulty_disk_hold_syncs(w.disk, true);
	lease(&w, &first, 1);
	faulty_disk_await_held_sync(w.disk);
	assert_true(ledger_log_flush(w.log, note_flushed, &flushed));
	assert_false(ledger_log_flush(w.log, NULL, NULL)); /* one at a time */
	lease(&w, &second, 2);                             /* not in the snapshot */
	(void)task_queue_run(w.loop, false);
	assert_int_equal(cold_get_header(cold, JOURNAL_LEDGER, &snapshot, &bytes, &err), WEIR_E_NOT_FOUND);
	faulty_disk_hold_syncs(w.disk, false);
	while (!flushed)
		(void)task_queue_run(w.loop, true);
	CHECK_OK(cold_get_header(cold, JOURNAL_LEDGER, &snapshot, &bytes, &err), err);
	assert_true(bytes > 0);
	assert_false(ledger_log_is_flushed(w.log));
	await(&w, &second);
	free(snapshot);
	ledger_log_close(w.log);
	cold_writer_destroy(w.writer);
	world_close(&w);
	cold_close(cold);
	folder_remove(folder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_reply_waits_for_the_fsync_of_what_it_says),
	    cmocka_unit_test(a_request_that_changes_nothing_waits_for_what_was_before),
	    cmocka_unit_test(every_reply_survives_every_crash),
	    cmocka_unit_test(uncommitted_entries_are_not_merged),
	    cmocka_unit_test(a_full_disk_holds_up_replies_and_expiry),
	    cmocka_unit_test(a_snapshot_of_a_busy_ledger_waits_for_its_own_entries_only),
	};
	return cmocka_run_group_tests_name("ledger_log", tests, NULL, NULL);
}
