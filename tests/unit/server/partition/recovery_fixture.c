#include "tests/unit/server/partition/recovery_fixture.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "proto/wire/wire.h"
#include "server/log/journal_format.h"
#include "server/partition/partition_state.h"
#include "server/records/epochs.h"
#include "tests/unit/server/random_records.h"

enum { CHANCE_ROWS = COUNTED_ROWS + 1, COUNTED_SYNC_ROWS, TABLES_END };

struct ticket { /* A record without a reply yet. */
	struct world *w;
	struct built built;
	bool *replied; /* NULL: no code waits for it */
};

uint64_t appended(const struct world *w)
{
	return w->n.log->ops->last(w->n.log);
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

void forget_above(struct world *w, uint64_t index)
{
	for (uint64_t i = index + 1; i < ENTRIES_MAX; i++) {
		if (w->kept[i].built.frame)
			records_free(&w->kept[i].built);
		w->kept[i] = (struct kept){0};
	}
}

void begin(struct world *w)
{
	partition_begin(w->n.p, w->epoch);
	partition_serve(w->n.p);
	w->kept[appended(w)] = (struct kept){.epoch = w->epoch, .stamp_ns = w->now_ns};
	if (w->holds)
		commit_all(w);
}

void cut_above(struct world *w, uint64_t index)
{
	weir_error err = {0};
	CHECK_OK(partition_truncate(w->n.p, index, &err), err);
	CHECK_OK(journal_wait(w->n.journal, &err), err);
	assert_int_equal(appended(w), index);
	forget_above(w, index);
}

/* Another primary has all committed entries, but not all of the rest. */
static void cut_some(struct world *w)
{
	const uint64_t last = appended(w), least = w->committed < last ? w->committed : last;
	if (least == last || random_below(&w->random, 2))
		return;
	cut_above(w, least + random_below(&w->random, (uint32_t)(last - least)));
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

void start(struct world *w)
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
	struct record r = push_record(random_below(&w->random, 6), 1 + random_below(&w->random, 3), random_below(&w->random, 4),
	                              random_below(&w->random, 3), sync);
	r.kind = kind;
	if (kind == RECORD_PUSH)
		/* The place in the training. It does not depend on the position in the log. */
		r.status = 1 + random_below(&w->random, 40);
	return r;
}

void push_rows(struct world *w, uint16_t table, uint8_t kind)
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

void step(struct world *w)
{
	w->now_ns += 300000000;
	if (w->holds && random_below(&w->random, 4) == 0)
		commit(w, partition_applied(w->n.p) + random_below(&w->random, (uint32_t)(appended(w) - partition_applied(w->n.p)) + 1));
	switch (random_below(&w->random, 17)) {
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
		push_dense(w, random_below(&w->random, 2) ? SYNC_DENSE : ASYNC_DENSE);
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
		evict(w, (uint16_t)(COUNTED_ROWS + random_below(&w->random, 3)));
		break;
	default:
		(void)task_queue_run(w->loop, false);
	}
}

void crash_by(struct world *w, enum faulty_crash how)
{
	node_stop(&w->n, how, prng_u64(&w->random));
}

Weir__V1__PartitionState *unpack_state(const struct partition *p)
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
	wire_destroy(&s->base);
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

void assert_equal_to_twin(struct world *w)
{
	struct partition *twin = node_twin(&w->n, w->kept, partition_applied(w->n.p), &w->now_ns);
	assert_equal_messages(state_of(w, w->n.p), state_of(w, twin));
	assert_equal_rows(w, twin);
	partition_destroy(twin);
}

struct world *create(uint64_t seed, struct node_options o)
{
	struct world *w = malloc(sizeof *w);
	*w = (struct world){.clock = manual_clock_ns(&w->now_ns), .now_ns = 1000000000};
	prng_seed(&w->random, seed);
	w->loop = task_queue_create();
	o.pool_bytes = POOL_BYTES;
	o.add_tables = add_tables;
	o.tables_end = TABLES_END;
	node_init(&w->n, w->loop, &w->clock.base, &o);
	return w;
}

void close_world(struct world *w)
{
	crash_by(w, CRASH_PROCESS);
	forget_above(w, 0);
	node_free(&w->n);
	task_queue_destroy(w->loop);
	free(w);
}

/* --- Uncommitted entries in a replica's log */

static void on_flushed(void *arg)
{
	*(bool *)arg = true;
}

void flush(struct world *w)
{
	bool flushed = false;
	assert_true(partition_flush(w->n.p, on_flushed, &flushed));
	while (!flushed)
		(void)task_queue_run(w->loop, true);
}

struct world *open_world(bool follows)
{
	struct world *w = create(1, (struct node_options){.lazy = false});
	w->follows = follows;
	start(w);
	if (!follows)
		begin(w);
	return w;
}

void append_entry(struct world *w, uint64_t committed, uint64_t key)
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

void die_and_start(struct world *w, uint64_t applied, uint64_t tail)
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
