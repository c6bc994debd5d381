#include "tests/unit/server/snapshot/snapshot_fixture.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/limits.h"
#include "server/partition/partition_state.h"
#include "tests/cmocka_check.h"
#include "tests/unit/server/random_records.h"

/* --- Load on the primary */

struct ticket { /* A record without a reply yet. */
	struct built built;
	bool *replied; /* NULL: no code waits for it */
};

static void on_reply(void *arg, const struct partition_reply *reply)
{
	struct ticket *t = arg;
	(void)reply;
	if (t->replied)
		*t->replied = true;
	records_free(&t->built);
	free(t);
}

/* Waits until the record is an entry, or has its reply. */
static void submit(struct world *w, struct built built)
{
	struct partition *p = w->a.p;
	struct log *log = w->a.log;
	const uint64_t before = log->ops->last(log);
	bool replied = false;
	struct ticket *t = malloc(sizeof *t);
	struct kept kept = {.built = built, .stamp_ns = w->now_ns};
	message_retain(built.frame);
	*t = (struct ticket){.built = built, .replied = &replied};
	partition_submit(p, &t->built.record, &t->built.body, t->built.frame, on_reply, t);
	while (!replied && log->ops->last(log) == before)
		(void)task_queue_run(w->loop, true);
	if (!replied)
		t->replied = NULL;
	if (log->ops->last(log) == before) {
		records_free(&kept.built);
		return;
	}
	assert_true(before + 1 < ENTRIES_MAX);
	assert_int_equal(partition_applied(p), before + 1);
	w->kept[before + 1] = kept;
}

static struct record next_push(struct world *w, bool sync)
{
	return push_record(random_below(&w->random, 6), 1 + random_below(&w->random, 3), random_below(&w->random, 4),
	                   random_below(&w->random, 60), sync);
}

void push_rows(struct world *w, uint16_t table)
{
	const struct record r = next_push(w, table == SYNC_ROWS);
	submit(w, random_rows(&w->random, &r, table, 24, KEYS));
}

static void push_dense(struct world *w, uint16_t table)
{
	const struct record r = next_push(w, table == SYNC_DENSE);
	submit(w, random_dense(&w->random, &r, table));
}

static void push_wide(struct world *w)
{
	const struct record r = next_push(w, false);
	submit(w, node_wide_push(&r, random_below(&w->random, WIDE_CHUNKS)));
}

static void step(struct world *w)
{
	w->now_ns += 300000000;
	switch (random_below(&w->random, 13)) {
	case 0:
	case 1:
	case 2:
		push_rows(w, ASYNC_ROWS);
		break;
	case 3:
	case 4:
		push_rows(w, SYNC_ROWS);
		break;
	case 5:
		push_dense(w, random_below(&w->random, 2) ? SYNC_DENSE : ASYNC_DENSE);
		break;
	case 6:
		submit(w, random_close(&w->random, partition_steps_closed(w->a.p) + 1));
		break;
	case 7:
		submit(w, random_unit_change(&w->random));
		break;
	case 8:
	case 9:
		push_rows(w, COUNTED_ROWS);
		break;
	case 10:
		submit(w, random_eviction(&w->random, COUNTED_ROWS, KEYS));
		break;
	case 11:
		if (random_below(&w->random, 3) == 0)
			push_wide(w);
		break;
	default:
		if (random_below(&w->random, 4) == 0)
			(void)partition_flush(w->a.p, NULL, NULL);
		if (w->a.journal)
			journal_sync(w->a.journal);
		(void)task_queue_run(w->loop, false);
	}
}

void steps(struct world *w, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		step(w);
}

void load(struct world *w)
{
	if (w->a.log->ops->last(w->a.log) < ENTRIES_MAX / 2 && random_below(&w->random, 2))
		step(w);
}

/* --- Equality */

static void on_pull_ready(void *arg, weir_status status)
{
	assert_int_equal(status, WEIR_OK);
	*(bool *)arg = true;
}

/* Waits until the row is in memory, or is not stored. */
static void fetch_row(struct world *w, struct partition *p, uint16_t table, uint64_t key)
{
	struct rows rows = {.table = table, .width = ROW_WIDTH, .count = 1, .keys = &key};
	struct built b = records_build(&(struct record){.kind = RECORD_PULL}, &rows, 1);
	bool ready = false;
	if (!partition_pull_ready(p, &b.record, &b.body, INT64_MAX, on_pull_ready, &ready))
		while (!ready)
			(void)task_queue_run(w->loop, true);
	records_free(&b);
}

static void assert_equal_rows(struct world *w, struct partition *p, struct partition *twin)
{
	for (uint16_t id = ASYNC_ROWS; id < NODE_TABLES_END; id++) {
		const struct store_table *t = store_table(partition_store(p), id);
		const bool dense = store_table_spec(t)->kind == WEIR_DENSE;
		for (uint64_t key = 0; key < (dense ? store_chunks(t) : KEYS); key++) {
			if (!dense)
				fetch_row(w, p, id, key);
			assert_equal_row(p, twin, id, key);
		}
	}
}

void assert_equal_to_twin(struct world *w, struct partition *p)
{
	struct partition *twin = node_twin(&w->a, w->kept, partition_applied(p), &w->now_ns);
	assert_equal_messages(partition_state_export(p), partition_state_export(twin));
	assert_equal_rows(w, p, twin);
	partition_destroy(twin);
}

/* --- Sender and receiver */

static void note_end(struct world *w, bool *ended, weir_status *as, weir_status status, const char *text)
{
	assert_false(*ended);
	*ended = true;
	*as = status;
	snprintf(w->text, sizeof w->text, "%s", text);
}

void on_send_ended(void *arg, weir_status status, const char *text)
{
	struct world *w = arg;
	note_end(w, &w->send_ended, &w->send_status, status, text);
}

static void on_frame(void *arg, struct message *frame)
{
	struct world *w = arg;
	assert_true(w->frames_count < FRAMES_MAX);
	w->frames[w->frames_count++] = message_retain(frame);
}

static void on_sink_ended(void *arg, weir_status status, const char *text)
{
	struct world *w = arg;
	note_end(w, &w->sink_ended, &w->sink_status, status, text);
}

static bool wanted(void *arg, uint64_t epoch, uint64_t index)
{
	struct world *w = arg;
	assert_int_equal(epoch, 1);
	assert_true(index > 0);
	return !w->unwanted;
}

static void on_received(void *arg, uint64_t next)
{
	struct world *w = arg;
	if (w->sender)
		snapshot_send_received(w->sender, w->session, next);
}

static void on_receive_ended(void *arg, weir_status status, const char *text)
{
	struct world *w = arg;
	note_end(w, &w->receive_ended, &w->receive_status, status, text);
}

void open_sender_with(struct world *w, uint64_t bytes_per_s, size_t window_bytes)
{
	struct snapshot_sender_options o = {.generation = RECORDS_GENERATION,
	                                    .partitions = 1,
	                                    .process_id = 1,
	                                    .bytes_per_s = bytes_per_s,
	                                    .window_bytes = window_bytes,
	                                    .cold = w->a.cold,
	                                    .budget = w->a.options.pool_bytes ? &w->a.pool : NULL,
	                                    .clock = &w->clock.base,
	                                    .stepped = true};
	memcpy(o.uuid, records_uuid, sizeof o.uuid);
	w->sender = snapshot_sender_create(&o, NULL);
	assert_non_null(w->sender);
}

void open_sender(struct world *w, uint64_t bytes_per_s)
{
	open_sender_with(w, bytes_per_s, 0);
}

void close_sender(struct world *w)
{
	snapshot_sender_close(w->sender);
	(void)snapshot_sender_step(w->sender);
	while (task_queue_run(w->loop, false) > 0)
		;
	snapshot_sender_destroy(w->sender);
	w->sender = NULL;
}

void begin_session(struct world *w)
{
	weir_error err = {0};
	const struct snapshot_send_options o = {
	    .partition = w->a.p, .owner = task_queue_executor(w->loop), .epoch = 1, .ended = on_send_ended, .arg = w};
	w->send_ended = false;
	CHECK_OK(snapshot_send_begin(w->sender, &o, &w->session, &err), err);
}

weir_status attach(struct world *w, uint64_t from, weir_error *err)
{
	const struct snapshot_sink sink = {.frame = on_frame, .ended = on_sink_ended, .arg = w};
	w->sink_ended = false;
	return snapshot_send_attach(w->sender, w->session, from, &sink, err);
}

void attach_well(struct world *w)
{
	weir_error err = {0};
	CHECK_OK(attach(w, w->receiver ? snapshot_receiver_next(w->receiver) : 0, &err), err);
}

static void release_frames(struct message *const *frames, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		message_release(frames[i]);
}

void drop_frames(struct world *w)
{
	release_frames(w->frames, w->frames_count);
	w->frames_count = 0;
}

void cut_connection(struct world *w)
{
	snapshot_send_detach(w->sender, w->session, w);
	drop_frames(w);
}

struct snapshot_receiver_options receiver_options(struct world *w)
{
	struct snapshot_receiver_options o = {.generation = RECORDS_GENERATION,
	                                      .partitions = 1,
	                                      .into = w->into,
	                                      .log = w->b.log,
	                                      .writer = w->b.writer,
	                                      .run_on = task_queue_executor(w->loop),
	                                      .wanted = wanted,
	                                      .received = on_received,
	                                      .ended = on_receive_ended,
	                                      .arg = w};
	memcpy(o.uuid, records_uuid, sizeof o.uuid);
	return o;
}

void create_receiver(struct world *w, const struct snapshot_receiver_options *o)
{
	w->receive_ended = false;
	w->receiver = snapshot_receiver_create(o);
	assert_non_null(w->receiver);
}

void begin_receiver(struct world *w)
{
	w->into = node_make_room(&w->b);
	const struct snapshot_receiver_options o = receiver_options(w);
	create_receiver(w, &o);
}

static void begin_sending_with(struct world *w, size_t window_bytes)
{
	open_sender_with(w, 0, window_bytes);
	begin_session(w);
	attach_well(w);
}

void begin_sending(struct world *w)
{
	begin_sending_with(w, 0);
}

void begin_sending_by_frame(struct world *w)
{
	begin_sending_with(w, 1);
}

void begin_both(struct world *w)
{
	begin_session(w);
	begin_receiver(w);
	attach_well(w);
}

void end_receiver(struct world *w)
{
	snapshot_receiver_destroy(w->receiver);
	w->receiver = NULL;
	if (w->receive_ended && w->receive_status == WEIR_OK) {
		node_adopt(&w->b, w->into);
	} else {
		partition_close(w->into);
		partition_destroy(w->into);
	}
	w->into = NULL;
}

void end_receiver_well(struct world *w)
{
	end_receiver(w);
	assert_equal_to_twin(w, w->b.p);
}

/* Time passes with the load. A peer that stays silent is given up. */
static void be_heard(struct world *w)
{
	snapshot_send_received(w->sender, w->session, snapshot_receiver_received(w->receiver));
}

static void take_frame(struct world *w)
{
	struct message *m = w->frames[0];
	memmove(w->frames, w->frames + 1, --w->frames_count * sizeof *w->frames);
	snapshot_receiver_take(w->receiver, cursor_at(m));
	message_release(m);
	be_heard(w);
}

/* Lets the receiver check whether its log is durable and show the sender that it lives. Then waits
 * for the disk. */
static void tick_receiver(struct world *w)
{
	snapshot_receiver_durable(w->receiver);
	be_heard(w);
	if (w->b.journal && !w->receive_ended)
		(void)task_queue_run(w->loop, true);
}

void turn(struct world *w)
{
	(void)task_queue_run(w->loop, false);
	if (w->frames_count && w->receiver) {
		take_frame(w);
		return;
	}
	const int64_t wait = snapshot_sender_step(w->sender);
	if (w->frames_count || w->send_ended)
		return;
	if (wait < WEIR_SNAPSHOT_PATIENCE_MS * 1000000ll / 2) /* of the pace */
		w->now_ns += wait;
	else if (w->receiver)
		tick_receiver(w);
}

void turn_until_frames(struct world *w, uint32_t count)
{
	while (w->frames_count < count)
		turn(w);
}

void turn_until_send_ends(struct world *w)
{
	while (!w->send_ended)
		turn(w);
}

void run_to_end(struct world *w, bool under_load)
{
	while (!w->send_ended || !w->receive_ended) {
		turn(w);
		if (under_load)
			load(w);
	}
	assert_int_equal(w->receive_status, WEIR_OK);
	assert_int_equal(w->send_status, WEIR_OK);
	assert_int_equal(w->sink_status, WEIR_OK);
	assert_true(w->sink_ended);
}

void replay_tail(struct world *w, uint64_t last)
{
	struct log *from = w->a.log, *to = w->b.log;
	for (uint64_t i = to->ops->last(to) + 1; i <= last; i++) {
		weir_error err = {0};
		const struct log_entry *e = from->ops->get(from, i);
		assert_non_null(e); /* the primary keeps it for the learner */
		CHECK_OK(to->ops->append(to, e, &err), err);
		partition_commit_to(w->b.p, i);
		while (partition_applied(w->b.p) < i)
			(void)task_queue_run(w->loop, true);
	}
}

struct world *world_create(uint64_t seed, uint32_t a_pool, uint32_t b_pool)
{
	struct world *w = malloc(sizeof *w);
	*w = (struct world){.clock = manual_clock_ns(&w->now_ns), .now_ns = 1000000000};
	prng_seed(&w->random, seed);
	w->loop = task_queue_create();
	node_init(&w->a, w->loop, &w->clock.base, &(struct node_options){.pool_bytes = a_pool});
	node_init(&w->b, w->loop, &w->clock.base, &(struct node_options){.pool_bytes = b_pool});
	node_start(&w->a);
	node_start(&w->b);
	return w;
}

void world_destroy(struct world *w)
{
	if (w->sender)
		close_sender(w);
	drop_frames(w);
	release_frames(w->recorded, w->recorded_count);
	node_stop(&w->a, CRASH_PROCESS, 1);
	node_stop(&w->b, CRASH_PROCESS, 1);
	node_free(&w->a);
	node_free(&w->b);
	for (uint64_t i = 1; i < ENTRIES_MAX; i++)
		if (w->kept[i].built.frame)
			records_free(&w->kept[i].built);
	task_queue_destroy(w->loop);
	free(w);
}

void record_snapshot(struct world *w)
{
	struct snapshot_frame last = {0};
	begin_sending(w);
	while (last.kind != SNAPSHOT_END) {
		turn(w);
		if (w->frames_count)
			assert_int_equal(snapshot_read(cursor_at(w->frames[w->frames_count - 1]), &last, NULL), WEIR_OK);
	}
	w->recorded_count = w->frames_count;
	memcpy(w->recorded, w->frames, w->frames_count * sizeof *w->frames);
	w->frames_count = 0;
	close_sender(w);
}

void send_whole(struct world *w)
{
	open_sender(w, 0);
	begin_both(w);
	run_to_end(w, false);
	end_receiver(w);
	close_sender(w);
}
