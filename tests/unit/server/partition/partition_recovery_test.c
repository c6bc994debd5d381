/* A partition with its log in a journal on a disk that loses unsynced writes, and its rows in
 * RocksDB under a small memory budget. Random records, flushes and crashes follow from a seed.
 * After every recovery it equals, bit for bit, a partition in memory that applied the surviving
 * entries, and every entry that was reported stable survives. Some tables admit keys by count or
 * chance, and evict rows. In half of the runs entries are committed late, a few at a time, and a
 * crash may be followed by a truncation of uncommitted entries. The effect is still that of the
 * other partition, where each entry is committed at once. */
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/wire/wire.h"
#include "server/log/journal_format.h"
#include "server/partition/partition_state.h"
#include "server/records/epochs.h"
#include "server/snapshot/snapshot_receive.h"
#include "server/store/cold.h"
#include "state.pb-c.h"
#include "tests/cmocka_check.h"
#include "tests/unit/server/node.h"
#include "tests/unit/server/random_records.h"

enum { CHANCE_ROWS = COUNTED_ROWS + 1, COUNTED_SYNC_ROWS, TABLES_END };
enum {
	ROUNDS = 4,
	STEPS_MAX = 60,
	KEYS = 400,
	ENTRIES_MAX = ROUNDS * (STEPS_MAX + 4) + 2,
	SEEDS = 8,
	POOL_BYTES = (1 << 20) + (64 << 10)
};

struct world {
	struct prng random;
	struct clock clock;
	int64_t now_ns;
	struct task_queue *loop;
	struct node n;
	bool ack_disk;
	bool holds;     /* entries are committed late */
	bool follows;   /* another server is primary: no epoch begins here */
	uint32_t cuts;  /* starts that truncated entries */
	uint32_t waits; /* commits that had to fetch rows from RocksDB */
	uint64_t epoch;
	uint64_t committed;            /* the highest index reported to the partition */
	uint64_t survived;             /* the last index that the newest start kept */
	struct kept kept[ENTRIES_MAX]; /* by log index */
	uint64_t told_stable, told_for_good;
	uint64_t acknowledged, acknowledged_epoch; /* to an imaginary client, as in RESUME */
	uint32_t recoveries_with_loss;
};

struct ticket { /* A record without a reply yet. */
	struct world *w;
	struct built built;
	bool *replied; /* NULL: no code waits for it */
};

static int64_t now_ns(const struct clock *c)
{
	return ((const struct world *)((const char *)c - offsetof(struct world, clock)))->now_ns;
}
static const struct clock_ops clock_ops = {.monotonic_ns = now_ns, .wall_ns = now_ns};

/* --- Commits */

static uint64_t appended(const struct world *w)
{
	return w->n.log->ops->last(w->n.log);
}

static void on_failed(void *arg, const weir_error *err)
{
	(void)arg, (void)err; /* a crash under way */
}

static void on_appended(void *arg, uint64_t index)
{
	(void)arg, (void)index;
}

static void commit(struct world *w, uint64_t index)
{
	w->committed = index > w->committed ? index : w->committed;
	partition_commit_to(w->n.p, index);
	w->waits += partition_applied(w->n.p) < index;
}

static void commit_all(struct world *w)
{
	commit(w, appended(w));
	while (partition_applied(w->n.p) < appended(w))
		(void)task_queue_run(w->loop, true);
}

/* --- Entries */

static void forget_above(struct world *w, uint64_t index)
{
	for (uint64_t i = index + 1; i < ENTRIES_MAX; i++) {
		if (w->kept[i].built.frame)
			records_free(&w->kept[i].built);
		w->kept[i] = (struct kept){0};
	}
}

static void begin(struct world *w)
{
	partition_begin(w->n.p, w->epoch);
	partition_serve(w->n.p);
	w->kept[appended(w)] = (struct kept){.epoch = w->epoch, .stamp_ns = w->now_ns};
	if (w->holds)
		commit_all(w);
}

/* Waits until the cut is durable: a crash that loses the cut brings the entries back. */
static void cut_above(struct world *w, uint64_t index)
{
	weir_error err = {0};
	CHECK_OK(partition_truncate(w->n.p, index, &err), err);
	CHECK_OK(journal_wait(w->n.journal, &err), err);
	assert_int_equal(appended(w), index);
	forget_above(w, index);
}

static uint32_t below(struct world *w, uint32_t n)
{
	return (uint32_t)prng_below(&w->random, n);
}

/* Another primary has all committed entries, but not all of the rest. */
static void cut_some(struct world *w)
{
	const uint64_t last = appended(w), least = w->committed < last ? w->committed : last;
	if (least == last || below(w, 2))
		return;
	cut_above(w, least + below(w, (uint32_t)(last - least)));
	w->cuts++;
}

/* --- Start */

static void add_tables(struct partition *p)
{
	static const weir_init_segment zero = {.elements = ROW_WIDTH, .kind = WEIR_INIT_ZERO};
	weir_table_spec spec = {.width = ROW_WIDTH,
	                        .optimizer = {.kind = WEIR_OPT_ADAGRAD, .lr = 1, .eps = 1e-6f},
	                        .admission = {.kind = WEIR_ADMIT_COUNT, .count = 3},
	                        .eviction = {.ttl_s = 6},
	                        .segments_count = 1,
	                        .segments = &zero};
	fixture_add_tables(&(struct fixture){.p = p}, &(struct fixture_options){.optimizer = WEIR_OPT_ADAGRAD});
	spec.optimizer.schedule = (weir_schedule){.kind = WEIR_SCHEDULE_STEP, .period = 2, .gamma = 0.9f};
	strcpy(spec.name, "counted");
	assert_int_equal(partition_add_table(p, COUNTED_ROWS, &spec, NULL), WEIR_OK);
	strcpy(spec.name, "counted_sync");
	spec.mode.kind = WEIR_SYNC;
	spec.admission.count = 2;
	assert_int_equal(partition_add_table(p, COUNTED_SYNC_ROWS, &spec, NULL), WEIR_OK);
	strcpy(spec.name, "chance");
	spec.mode.kind = WEIR_ASYNC;
	spec.admission = (weir_admission){.kind = WEIR_ADMIT_PROBABILITY, .probability = 0.3f};
	spec.eviction = (weir_eviction){.min_score = 2, .half_life_s = 2};
	assert_int_equal(partition_add_table(p, CHANCE_ROWS, &spec, NULL), WEIR_OK);
}

static void start(struct world *w)
{
	w->epoch++;
	node_start(&w->n);
	assert_int_equal(appended(w), w->n.last);
	if (w->holds)
		cut_some(w);
	w->survived = appended(w);
	forget_above(w, w->survived);
	if (w->holds) /* as the primary of the next epoch reports */
		commit_all(w);
	w->committed = partition_applied(w->n.p);
}

/* --- Records */

static void on_reply(void *arg, const struct partition_reply *reply)
{
	struct ticket *t = arg;
	struct world *w = t->w;
	if (reply->status != WEIR_E_UNAVAILABLE) {
		const struct record *r = &t->built.record;
		bool may_be_lost = (r->kind == RECORD_PUSH && r->push.step == 0 && !w->ack_disk) || r->kind == RECORD_RETIRE;
		bool speaks_of_entries = reply->status == WEIR_OK || reply->status == WEIR_E_DUPLICATE;
		w->acknowledged = reply->applied;
		w->acknowledged_epoch = reply->epoch;
		w->told_stable = reply->stable > w->told_stable ? reply->stable : w->told_stable;
		if (speaks_of_entries && !may_be_lost && reply->applied > w->told_for_good)
			w->told_for_good = reply->applied;
	}
	if (t->replied)
		*t->replied = true;
	records_free(&t->built);
	free(t);
}

/* Waits until the record is an entry or has its reply, so the test knows which entry belongs to
 * it. */
static void submit(struct world *w, struct built built)
{
	struct partition *p = w->n.p;
	const uint64_t before = appended(w);
	bool replied = false;
	struct ticket *t = malloc(sizeof *t);
	struct kept kept = {.built = built, .stamp_ns = w->now_ns};
	message_retain(built.frame);
	*t = (struct ticket){.w = w, .built = built, .replied = &replied};
	partition_submit(p, &t->built.record, &t->built.body, t->built.frame, on_reply, t);
	if (!replied && appended(w) == before)
		commit(w, before); /* the record may wait for any of them */
	while (!replied && appended(w) == before)
		(void)task_queue_run(w->loop, true);
	if (!replied)
		t->replied = NULL;
	if (appended(w) == before) {
		records_free(&kept.built);
		return;
	}
	assert_int_equal(appended(w), before + 1);
	w->kept[before + 1] = kept;
}

static struct record next_record(struct world *w, uint8_t kind, bool sync)
{
	struct record r = push_record(below(w, 6), 1 + below(w, 3), below(w, 4), below(w, 3), sync);
	r.kind = kind;
	if (kind == RECORD_PUSH)
		/* The place in the training. It does not depend on the position in the log. */
		r.status = 1 + below(w, 40);
	return r;
}

static void push_rows(struct world *w, uint16_t table, uint8_t kind)
{
	const struct record r = next_record(w, kind, table == SYNC_ROWS || table == COUNTED_SYNC_ROWS);
	submit(w, random_rows(&w->random, &r, table, 24, KEYS));
}

static void push_dense(struct world *w, uint16_t table)
{
	const struct record r = next_record(w, RECORD_PUSH, table == SYNC_DENSE);
	submit(w, random_dense(&w->random, &r, table));
}

/* Commits first: an uncommitted record could make the eviction an entry without effect. */
static void evict(struct world *w, uint16_t table)
{
	commit_all(w);
	submit(w, random_eviction(&w->random, table, KEYS));
}

static void step(struct world *w)
{
	w->now_ns += 300000000;
	if (w->holds && below(w, 4) == 0)
		commit(w, partition_applied(w->n.p) + below(w, (uint32_t)(appended(w) - partition_applied(w->n.p)) + 1));
	switch (below(w, 17)) {
	case 0:
	case 1:
	case 2:
		push_rows(w, ASYNC_ROWS, RECORD_PUSH);
		break;
	case 3:
	case 4:
		push_rows(w, SYNC_ROWS, RECORD_PUSH);
		break;
	case 5:
		push_dense(w, below(w, 2) ? SYNC_DENSE : ASYNC_DENSE);
		break;
	case 6:
		submit(w, random_close(&w->random, partition_steps_closed(w->n.p) + 1));
		break;
	case 7:
		submit(w, random_unit_change(&w->random));
		break;
	case 8:
		push_rows(w, ASYNC_ROWS, RECORD_ASSIGN);
		break;
	case 9:
		(void)partition_flush(w->n.p, NULL, NULL);
		break;
	case 10:
		journal_sync(w->n.journal);
		break;
	case 11:
	case 12:
		push_rows(w, COUNTED_ROWS, RECORD_PUSH);
		break;
	case 13:
		push_rows(w, CHANCE_ROWS, RECORD_PUSH);
		break;
	case 14:
		push_rows(w, COUNTED_SYNC_ROWS, RECORD_PUSH);
		break;
	case 15:
		evict(w, (uint16_t)(COUNTED_ROWS + below(w, 3)));
		break;
	default:
		(void)task_queue_run(w->loop, false);
	}
}

/* --- Crash and comparison */

static void crash_by(struct world *w, enum faulty_crash how)
{
	node_stop(&w->n, how, prng_u64(&w->random));
}

/* Appends entries that survive the crash and are not known to be committed. */
static void leave_tail(struct world *w)
{
	weir_error err = {0};
	for (uint32_t i = below(w, 4); i > 0; i--)
		push_rows(w, ASYNC_ROWS, RECORD_ASSIGN);
	CHECK_OK(journal_wait(w->n.journal, &err), err);
}

static void crash(struct world *w)
{
	static const enum faulty_crash how[] = {CRASH_PROCESS, CRASH_UNSYNCED, CRASH_RANDOM, CRASH_RANDOM};
	crash_by(w, how[below(w, 4)]);
}

static Weir__V1__PartitionState *unpack_state(const struct partition *p)
{
	struct message *m = partition_state_export(p);
	ProtobufCMessage *unpacked;
	assert_non_null(m);
	assert_int_equal(wire_unpack_state(&weir__v1__partition_state__descriptor, m->spans[0].data, m->bytes, &unpacked, NULL),
	                 WEIR_OK);
	message_release(m);
	return (Weir__V1__PartitionState *)unpacked;
}

/* The state of a partition without its rows, and, with `follows`, without its epochs. */
static struct message *state_of(const struct world *w, const struct partition *p)
{
	if (!w->follows)
		return partition_state_export(p);
	Weir__V1__PartitionState *s = unpack_state(p);
	const size_t epochs = s->n_epochs;
	s->n_epochs = 0;
	struct message *m = wire_pack(&s->base);
	s->n_epochs = epochs;
	wire_free(&s->base);
	return m;
}

/* Fetches a row as a pull does. Evictions and fetches post to the loop. */
static void fetch(struct world *w, struct store_table *t, uint64_t key)
{
	do
		assert_int_equal(store_want(t, &key, 1), WEIR_OK);
	while (store_fetch(partition_store(w->n.p)) > 0 && task_queue_run(w->loop, true) > 0);
}

static void assert_equal_rows(struct world *w, struct partition *twin)
{
	struct partition *recovered = w->n.p;
	for (uint32_t id = ASYNC_ROWS; id < TABLES_END; id++) {
		struct store_table *t = store_table(partition_store(recovered), id);
		bool dense = store_table_spec(t)->kind == WEIR_DENSE;
		for (uint64_t key = 0; key < (dense ? 1 : KEYS); key++) {
			if (!dense)
				fetch(w, t, key);
			assert_equal_row(recovered, twin, id, key);
		}
	}
}

static void assert_equal_to_twin(struct world *w)
{
	struct partition *twin = node_twin(&w->n, w->kept, partition_applied(w->n.p), &w->now_ns);
	assert_equal_messages(state_of(w, w->n.p), state_of(w, twin));
	assert_equal_rows(w, twin);
	partition_destroy(twin);
}

/* Checks the reply to a client that resumes at w->acknowledged. */
static void assert_resume_is_right(struct world *w, uint64_t last_before)
{
	const bool lost = w->acknowledged > w->survived;
	struct record r = {.kind = RECORD_RESUME, .resume = {w->acknowledged, w->acknowledged_epoch}};
	struct built b = records_build(&r, NULL, 0);
	struct fixture f = {.p = w->n.p};
	weir_status status = fixture_submit(&f, &b);
	assert_int_equal(status, lost ? WEIR_E_STALE : WEIR_OK);
	assert_int_equal(f.reply.epoch, w->epoch);
	records_free(&b);
	if (lost) /* the client starts anew */
		w->acknowledged = w->acknowledged_epoch = 0;
	w->recoveries_with_loss += w->survived < last_before;
}

static struct world *create(uint64_t seed, struct node_options o)
{
	struct world *w = malloc(sizeof *w);
	*w = (struct world){.clock = {&clock_ops}, .now_ns = 1000000000};
	prng_seed(&w->random, seed);
	w->loop = task_queue_create();
	o.pool_bytes = POOL_BYTES;
	o.add_tables = add_tables;
	o.tables_end = TABLES_END;
	node_init(&w->n, w->loop, &w->clock, &o);
	return w;
}

static void close_world(struct world *w)
{
	crash_by(w, CRASH_PROCESS);
	forget_above(w, 0);
	node_free(&w->n);
	task_queue_destroy(w->loop);
	free(w);
}

static struct world *run(uint64_t seed)
{
	static const struct partition_host_ops host = {.failed = on_failed, .appended = on_appended};
	const bool ack_disk = seed % 2, holds = seed > SEEDS / 2;
	struct world *w =
	    create(seed, (struct node_options){.lazy = seed / 2 % 2,
	                                       .partition = {.ack = ack_disk ? PARTITION_ACK_DISK : PARTITION_ACK_REPLICAS,
	                                                     .host = {holds ? &host : NULL, NULL},
	                                                     .replicated = holds}});
	w->ack_disk = ack_disk;
	w->holds = holds;
	start(w);
	begin(w);
	for (uint32_t round = 0; round < ROUNDS; round++) {
		for (uint32_t i = 0, n = below(w, STEPS_MAX); i < n; i++)
			step(w);
		if (w->holds)
			leave_tail(w);
		const uint64_t last = appended(w);
		crash(w);
		start(w);
		assert_true(w->survived <= last && w->survived >= w->told_stable && w->survived >= w->told_for_good);
		assert_equal_to_twin(w);
		begin(w);
		assert_resume_is_right(w, last);
	}
	return w;
}

static void what_survives_a_crash_is_exact(void **state)
{
	(void)state;
	uint32_t losses = 0, waits = 0, cuts = 0;
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		struct world *w = run(seed);
		losses += w->recoveries_with_loss;
		waits += w->waits;
		cuts += w->cuts;
		close_world(w);
	}
	assert_in_range(losses, SEEDS / 2, UINT32_MAX);
	assert_in_range(waits, SEEDS / 2, UINT32_MAX);
	assert_in_range(cuts, SEEDS / 4, UINT32_MAX);
}

/* --- Uncommitted entries in a replica's log */

static void on_flushed(void *arg)
{
	*(bool *)arg = true;
}

static void flush(struct world *w)
{
	bool flushed = false;
	assert_true(partition_flush(w->n.p, on_flushed, &flushed));
	while (!flushed)
		(void)task_queue_run(w->loop, true);
}

static struct world *open_world(bool follows)
{
	struct world *w = create(1, (struct node_options){.lazy = false});
	w->follows = follows;
	start(w);
	if (!follows)
		begin(w);
	return w;
}

/* Appends a push as another replica's primary sends it. */
static void append_entry(struct world *w, uint64_t committed, uint64_t key)
{
	static const float rate = 1;
	const uint64_t index = w->n.log->ops->last(w->n.log) + 1;
	struct one_row x;
	struct rows rows = one_row(&x, ASYNC_ROWS, key, (float)index);
	struct record r = push_record(100, 1, (uint32_t)index, 0, 0);
	struct built b = records_build(&r, &rows, 1);
	struct log_entry e = {.epoch = w->epoch,
	                      .index = index,
	                      .committed = committed,
	                      .generation = RECORDS_GENERATION,
	                      .stamp_ms = w->now_ns / 1000000,
	                      .rates_count = 1,
	                      .rates = &rate,
	                      .record = b.record,
	                      .message = b.frame,
	                      .body = b.body};
	weir_error err = {0};
	CHECK_OK(w->n.log->ops->append(w->n.log, &e, &err), err);
	w->kept[index] = (struct kept){.built = b, .stamp_ns = w->now_ns};
}

static void die_and_start(struct world *w, uint64_t applied, uint64_t tail)
{
	crash_by(w, CRASH_PROCESS);
	w->n.tail = tail;
	start(w);
	assert_int_equal(partition_applied(w->n.p), applied);
	for (uint64_t i = applied + 1; i <= applied + tail; i++) {
		const struct log_entry *e = w->n.log->ops->get(w->n.log, i);
		assert_non_null(e);
		assert_true(e->index == i && e->record.batch == (uint32_t)i);
	}
	assert_equal_to_twin(w);
}

static void what_is_not_committed_is_kept_and_not_applied(void **state)
{
	(void)state;
	struct world *w = open_world(true);
	for (uint64_t i = 1; i <= 10; i++)
		append_entry(w, i, i);
	die_and_start(w, 10, 0); /* with 10 known to be committed, as in a single copy */
	for (uint64_t i = 11; i <= 15; i++)
		append_entry(w, 10, 1);
	die_and_start(w, 10, 5);
	append_entry(w, 12, 2);
	die_and_start(w, 12, 4); /* entry 16 carries commit 12 */
	cut_above(w, 13);
	die_and_start(w, 12, 1);
	append_entry(w, 13, 3);
	append_entry(w, 13, 4);
	die_and_start(w, 13, 2); /* entries 14 and 15 are new */
	append_entry(w, 16, 5);
	append_entry(w, 0, 6);
	die_and_start(w, 16, 1);

	flush(w);
	die_and_start(w, 16, 1); /* the header alone shows it */
	cut_above(w, 16);
	begin(w); /* in place of the truncated entries */
	push_rows(w, ASYNC_ROWS, RECORD_PUSH);
	die_and_start(w, 18, 0);
	close_world(w);
}

static uint32_t stored_below(struct world *w, uint32_t table)
{
	struct cold_scan *scan;
	struct cold_row row;
	uint32_t n = 0;
	assert_int_equal(cold_scan_create(&scan, w->n.cold, NULL, 0, table, NULL), WEIR_OK);
	while (cold_scan_next(scan, &row, NULL) == WEIR_OK)
		n++;
	cold_scan_destroy(scan);
	return n;
}

/* --- Epochs */

static void check_epochs(const struct world *w, const struct epoch_start *starts, size_t count)
{
	Weir__V1__PartitionState *s = unpack_state(w->n.p);
	assert_int_equal(s->n_epochs, count);
	for (size_t i = 0; i < count; i++) {
		assert_int_equal(s->epochs[i]->epoch, starts[i].epoch);
		assert_int_equal(s->epochs[i]->first, starts[i].first);
	}
	wire_free(&s->base);
}
/* {epoch, first entry}... */
#define assert_epochs(w, ...)                                  \
	check_epochs(w, (const struct epoch_start[]){__VA_ARGS__}, \
	             sizeof((const struct epoch_start[]){__VA_ARGS__}) / sizeof(struct epoch_start))

static void restart(struct world *w, enum faulty_crash how)
{
	crash_by(w, how);
	start(w);
	assert_equal_to_twin(w);
	begin(w);
}

static void where_epochs_began_is_what_the_log_says(void **state)
{
	(void)state;
	struct world *w = open_world(false);
	assert_epochs(w, {1, 1});
	for (uint32_t i = 0; i < 3; i++)
		push_rows(w, ASYNC_ROWS, RECORD_ASSIGN);
	restart(w, CRASH_PROCESS);
	assert_epochs(w, {1, 1}, {2, 5});
	flush(w);
	restart(w, CRASH_PROCESS);
	assert_int_equal(w->n.replayed, 0); /* the header alone shows it */
	assert_epochs(w, {1, 1}, {2, 5}, {3, 6});
	restart(w, CRASH_UNSYNCED); /* epoch 3 has never begun */
	assert_epochs(w, {1, 1}, {2, 5}, {4, 6});
	push_rows(w, ASYNC_ROWS, RECORD_ASSIGN);
	weir_error err = {0};
	CHECK_OK(journal_wait(w->n.journal, &err), err);
	restart(w, CRASH_UNSYNCED);
	assert_epochs(w, {1, 1}, {2, 5}, {4, 6}, {5, 8});
	close_world(w);
}

/* Every start creates a segment. */
static void cut_newest_segment(struct world *w, uint64_t bytes)
{
	struct disk *disk = faulty_disk_interface(w->n.disk);
	struct disk_file *file;
	weir_error err = {0};
	char path[64];
	snprintf(path, sizeof path, "journal/%08" PRIu64 ".wal", w->epoch);
	CHECK_OK(disk->ops->open(disk, path, false, &file, &err), err);
	CHECK_OK(disk->ops->truncate(file, bytes, &err), err);
	disk->ops->close(file);
}

static void an_epoch_whose_first_entry_is_torn_has_not_begun(void **state)
{
	(void)state;
	const uint32_t bytes = JOURNAL_ENTRY_HEADER_BYTES + RECORD_HEADER_BYTES;
	struct world *w = open_world(false);
	push_rows(w, ASYNC_ROWS, RECORD_ASSIGN);
	restart(w, CRASH_PROCESS);
	for (uint32_t kept = 0; kept < bytes; kept += 8) {
		crash_by(w, CRASH_PROCESS);
		cut_newest_segment(w, JOURNAL_SEGMENT_HEADER_BYTES + kept);
		start(w);
		assert_int_equal(w->survived, 2);
		assert_equal_to_twin(w);
		begin(w);
		assert_epochs(w, {1, 1}, {w->epoch, 3});
	}
	close_world(w);
}

/* Older servers wrote no entry for the start of an epoch. */
static void an_epoch_that_has_no_first_entry_begins_with_the_first_that_is_of_it(void **state)
{
	(void)state;
	struct world *w = open_world(true);
	for (uint64_t i = 1; i <= 3; i++)
		append_entry(w, i, i);
	die_and_start(w, 3, 0);
	die_and_start(w, 3, 0); /* the start wrote nothing */
	append_entry(w, 4, 4);
	append_entry(w, 5, 5);
	die_and_start(w, 5, 0);
	assert_epochs(w, {1, 1}, {3, 4});
	begin(w);
	assert_epochs(w, {1, 1}, {3, 4}, {4, 6});
	flush(w);
	die_and_start(w, 6, 0);
	assert_epochs(w, {1, 1}, {3, 4}, {4, 6});
	close_world(w);
}

/* --- After an unfinished snapshot: the partition starts anew, the journal still has its old log */

static void leave_unfinished(struct world *w)
{
	struct cold *cold;
	size_t bytes;
	const void *header = snapshot_unfinished(&bytes);
	weir_error err = {0};
	crash_by(w, CRASH_PROCESS);
	CHECK_OK(cold_open(&cold, &(struct cold_options){.path = w->n.folder}, &err), err);
	CHECK_OK(cold_empty_partition(cold, 0, header, bytes, &err), err);
	CHECK_OK(cold_flush(cold, &err), err);
	cold_close(cold);
	forget_above(w, 0);
}

static void what_a_log_was_before_it_began_anew_is_not_replayed(void **state)
{
	(void)state;
	struct world *w = open_world(false);
	for (uint32_t i = 0; i < 4; i++)
		push_rows(w, ASYNC_ROWS, RECORD_ASSIGN);
	leave_unfinished(w);
	w->epoch++;
	/* Entries 3 to 5 of the former log are in segments that may go. */
	faulty_disk_keep_removed(w->n.disk);
	node_start(&w->n);
	assert_true(w->n.was_unfinished && appended(w) == 0);
	begin(w);
	push_rows(w, ASYNC_ROWS, RECORD_ASSIGN);
	flush(w);
	restart(w, CRASH_PROCESS);
	assert_int_equal(w->survived, 2);
	assert_int_equal(w->n.replayed, 3);
	assert_epochs(w, {2, 1}, {3, 3});
	close_world(w);
}

/* The first entries have the same indices, and no flush covers them. */
static void nor_is_it_where_nothing_is_flushed(void **state)
{
	(void)state;
	struct world *w = open_world(false);
	for (uint32_t i = 0; i < 4; i++)
		push_rows(w, ASYNC_ROWS, RECORD_ASSIGN);
	leave_unfinished(w);
	w->epoch++;
	faulty_disk_keep_removed(w->n.disk);
	node_start(&w->n);
	begin(w);
	push_rows(w, ASYNC_ROWS, RECORD_ASSIGN);
	restart(w, CRASH_PROCESS);
	assert_int_equal(w->survived, 2);
	assert_int_equal(w->n.replayed, 2);
	assert_epochs(w, {2, 1}, {3, 3});
	close_world(w);
}

/* Expired rows are found in RocksDB, too. */
static void rows_below_memory_go_too(void **state)
{
	(void)state;
	struct world *w = open_world(false);
	for (uint32_t i = 0; i < 40; i++) {
		push_rows(w, COUNTED_ROWS, RECORD_PUSH);
		push_rows(w, ASYNC_ROWS, RECORD_PUSH);
	}
	flush(w);
	const uint32_t others = stored_below(w, ASYNC_ROWS);
	assert_true(stored_below(w, COUNTED_ROWS) > 0 && others > 0);
	crash(w);
	w->n.options.lazy = true;
	w->now_ns += 6000000000;
	start(w);
	begin(w);
	assert_int_equal(store_table_rows(store_table(partition_store(w->n.p), COUNTED_ROWS)), 0);
	for (int64_t ms = 1; stored_below(w, COUNTED_ROWS) > 0; ms++) {
		partition_tick(w->n.p, ms * 1000);
		journal_sync(w->n.journal);
		(void)task_queue_run(w->loop, false);
	}
	assert_int_equal(stored_below(w, ASYNC_ROWS), others);
	const struct partition_table_counters *c = partition_table_get_counters(w->n.p, COUNTED_ROWS);
	assert_true(c->evicted > 0);
	close_world(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(what_survives_a_crash_is_exact),
	                                   cmocka_unit_test(what_is_not_committed_is_kept_and_not_applied),
	                                   cmocka_unit_test(where_epochs_began_is_what_the_log_says),
	                                   cmocka_unit_test(an_epoch_whose_first_entry_is_torn_has_not_begun),
	                                   cmocka_unit_test(an_epoch_that_has_no_first_entry_begins_with_the_first_that_is_of_it),
	                                   cmocka_unit_test(what_a_log_was_before_it_began_anew_is_not_replayed),
	                                   cmocka_unit_test(nor_is_it_where_nothing_is_flushed),
	                                   cmocka_unit_test(rows_below_memory_go_too)};
	return cmocka_run_group_tests_name("partition_recovery", tests, NULL, NULL);
}
