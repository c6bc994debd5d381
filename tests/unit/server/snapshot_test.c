/* A partition under load, sent to another server: equal at the snapshot's entry, and with the log's entries behind it equal again. Connections cut at every
 * frame, learners that crash at every frame, flipped bits, the wrong frames, the pace. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmocka_check.h"
#include "limits.h"
#include "node.h"
#include "partition_reset.h"
#include "partition_state.h"
#include "prng.h"
#include "snapshot_receive.h"
#include "snapshot_send.h"
#include "token_bucket.h"

enum { KEYS = 400, ENTRIES_MAX = 4000, POOL_BYTES = (4 << 20) + (256 << 10), FRAMES_MAX = 512 };

struct kept { /* what became a log entry */
	struct built built;
	int64_t stamp_ns;
};

struct world {
	struct prng random;
	struct clock clock;
	int64_t now_ns;
	struct task_queue *loop;
	struct node a, b; /* the primary's, the learner's */
	struct kept kept[ENTRIES_MAX];
	/* The snapshot. */
	struct snapshot_sender *sender;
	uint64_t session;
	struct partition *into; /* NULL: none is received */
	struct snapshot_receiver *receiver;
	struct message *frames[FRAMES_MAX]; /* (frames_count) sent, and not taken */
	uint32_t frames_count;
	uint64_t frames_all; /* of a snapshot that was recorded */
	bool unwanted;
	bool send_ended, receive_ended, sink_ended;
	weir_status send_status, receive_status, sink_status;
	char text[WEIR_ERROR_TEXT_BYTES]; /* of the one that ended last */
};

static int64_t now_ns(const struct clock *c)
{
	return ((const struct world *)((const char *)c - offsetof(struct world, clock)))->now_ns;
}
static const struct clock_ops clock_ops = {.monotonic_ns = now_ns, .wall_ns = now_ns};

static uint32_t below(struct world *w, uint32_t n)
{
	return (uint32_t)prng_below(&w->random, n);
}

/* --- Load on the primary */

struct ticket { /* a record whose reply has not come */
	struct built built;
	bool *replied; /* NULL: nobody waits for that */
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

/* Until it is an entry, which is then applied; or is answered. */
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

static void push_rows(struct world *w, uint16_t table)
{
	enum { ROWS = 24 };
	uint64_t keys[ROWS];
	float values[ROWS * ROW_WIDTH];
	struct rows rows = {.table = table, .width = ROW_WIDTH, .count = 1 + below(w, ROWS), .keys = keys, .values = values};
	for (uint32_t i = 0; i < rows.count; i++)
		keys[i] = below(w, KEYS);
	for (uint32_t i = 0; i < rows.count * ROW_WIDTH; i++)
		values[i] = (float)below(w, 100) - 50;
	rows.values_count = rows.count * ROW_WIDTH;
	struct record r = push_record(below(w, 6), 1 + below(w, 3), below(w, 4), below(w, 60), table == SYNC_ROWS ? 1 : 0);
	submit(w, records_build(&r, &rows, 1));
}

static void push_dense(struct world *w, uint16_t table)
{
	static const uint64_t chunk = 0;
	float values[DENSE_ELEMENTS];
	for (uint32_t i = 0; i < DENSE_ELEMENTS; i++)
		values[i] = (float)below(w, 100) - 50;
	struct rows rows = {
	    .table = table, .width = WEIR_CHUNK, .count = 1, .keys = &chunk, .values = values, .values_count = DENSE_ELEMENTS};
	struct record r = push_record(below(w, 6), 1 + below(w, 3), below(w, 4), below(w, 60), table == SYNC_DENSE ? 1 : 0);
	submit(w, records_build(&r, &rows, 1));
}

static void push_wide(struct world *w)
{
	const uint64_t chunk = below(w, WIDE_CHUNKS);
	float *values = malloc(WEIR_CHUNK * sizeof *values);
	for (uint32_t i = 0; i < WEIR_CHUNK; i++)
		values[i] = (float)((i * 7 + chunk) % 100);
	struct rows rows = {
	    .table = WIDE_DENSE, .width = WEIR_CHUNK, .count = 1, .keys = &chunk, .values = values, .values_count = WEIR_CHUNK};
	struct record r = push_record(below(w, 6), 1 + below(w, 3), below(w, 4), below(w, 60), 0);
	submit(w, records_build(&r, &rows, 1));
	free(values);
}

static void evict(struct world *w)
{
	uint64_t keys[KEYS];
	struct rows rows = {.table = COUNTED_ROWS, .width = ROW_WIDTH, .keys = keys};
	const struct record r = {.kind = RECORD_EVICT};
	for (uint64_t key = below(w, 4); key < KEYS; key += 1 + below(w, 4))
		keys[rows.count++] = key;
	submit(w, records_build(&r, &rows, 1));
}

static void close_step(struct world *w)
{
	uint32_t ids[3][3], unit = below(w, 6);
	for (uint32_t i = 0; i < 3; i++) {
		ids[i][0] = 1;
		ids[i][1] = (unit + i) % 6;
		ids[i][2] = below(w, 4);
	}
	submit(w, records_build_close(partition_steps_closed(w->a.p) + 1, (const uint32_t(*)[3])ids, below(w, 3), below(w, 2)));
}

static void change_units(struct world *w)
{
	struct record r = {.kind = RECORD_SEAL, .pass = 1, .unit = below(w, 6), .attempt = 1 + below(w, 4)};
	if (below(w, 3) == 0)
		r = (struct record){.kind = RECORD_RETIRE, .attempt = 1, .a = (uint64_t)1 << 32 | (6 + below(w, 6))};
	submit(w, records_build(&r, NULL, 0));
}

static void step(struct world *w)
{
	w->now_ns += 300000000;
	switch (below(w, 13)) {
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
		push_dense(w, below(w, 2) ? SYNC_DENSE : ASYNC_DENSE);
		break;
	case 6:
		close_step(w);
		break;
	case 7:
		change_units(w);
		break;
	case 8:
	case 9:
		push_rows(w, COUNTED_ROWS);
		break;
	case 10:
		evict(w);
		break;
	case 11:
		if (below(w, 3) == 0)
			push_wide(w);
		break;
	default:
		if (below(w, 4) == 0)
			(void)partition_flush(w->a.p, NULL, NULL);
		if (w->a.journal)
			journal_sync(w->a.journal);
		(void)task_queue_run(w->loop, false);
	}
}

static void steps(struct world *w, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		step(w);
}

/* --- Equality with a partition in memory that was given the same entries */

static void on_twin_reply(void *arg, const struct partition_reply *reply)
{
	(void)arg, (void)reply;
}

/* As of entry `last`. */
static struct partition *make_twin(struct world *w, uint64_t last)
{
	struct node n;
	const int64_t now = w->now_ns;
	node_init(&n, w->loop, &w->clock, 0);
	node_start(&n);
	for (uint64_t i = 1; i <= last; i++) {
		const struct kept *k = &w->kept[i];
		w->now_ns = k->stamp_ns;
		partition_submit(n.p, &k->built.record, &k->built.body, k->built.frame, on_twin_reply, NULL);
		assert_int_equal(partition_applied(n.p), i);
	}
	w->now_ns = now;
	return n.p;
}

static void assert_equal_row(struct partition *a, struct partition *b, uint32_t table, uint64_t key)
{
	static float rows[2][WEIR_CHUNK];
	const float *stored[2];
	struct row_state states[2];
	struct store_table *x = store_table(partition_store(a), table), *y = store_table(partition_store(b), table);
	store_copy_row(x, key, rows[0], &states[0]);
	store_copy_row(y, key, rows[1], &states[1]);
	const uint32_t slots = optimizer_slots(store_table_spec(x)->optimizer.kind);
	assert_memory_equal(rows[0], rows[1], store_row_elements(x, key) * (1 + slots) * sizeof(float));
	assert_memory_equal(&states[0], &states[1], sizeof states[0]);
	const struct row_meta *m = store_find(x, key, &stored[0]), *n = store_find(y, key, &stored[1]);
	assert_int_equal(m != NULL, n != NULL);
	if (m)
		assert_true((stored[0] != NULL) == (stored[1] != NULL) && m->version == n->version && m->count == n->count &&
		            m->last_push_s == n->last_push_s);
}

static void on_pull_ready(void *arg, weir_status status)
{
	assert_int_equal(status, WEIR_OK);
	*(bool *)arg = true;
}

/* The row is in memory, or stored nowhere. */
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

/* The partition is what its entries say: equal bytes of state, equal rows. */
static void assert_equal_to_twin(struct world *w, struct partition *p)
{
	struct partition *twin = make_twin(w, partition_applied(p));
	struct message *a = partition_state_export(p), *b = partition_state_export(twin);
	assert_int_equal(a->bytes, b->bytes);
	assert_memory_equal(a->spans[0].data, b->spans[0].data, a->bytes);
	message_release(a);
	message_release(b);
	assert_equal_rows(w, p, twin);
	partition_destroy(twin);
}

/* --- The snapshot's two ends */

static void note_end(struct world *w, bool *ended, weir_status *as, weir_status status, const char *text)
{
	assert_false(*ended);
	*ended = true;
	*as = status;
	snprintf(w->text, sizeof w->text, "%s", text);
}

static void on_send_ended(void *arg, weir_status status, const char *text)
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

static void open_sender_with(struct world *w, uint64_t bytes_per_s, size_t window_bytes)
{
	struct snapshot_sender_options o = {.generation = RECORDS_GENERATION,
	                                    .partitions = 1,
	                                    .boot = 1,
	                                    .bytes_per_s = bytes_per_s,
	                                    .window_bytes = window_bytes,
	                                    .cold = w->a.cold,
	                                    .pool = w->a.pool_bytes ? &w->a.pool : NULL,
	                                    .clock = &w->clock,
	                                    .stepped = true};
	memcpy(o.uuid, records_uuid, sizeof o.uuid);
	w->sender = snapshot_sender_create(&o, NULL);
	assert_non_null(w->sender);
}

static void open_sender(struct world *w, uint64_t bytes_per_s)
{
	open_sender_with(w, bytes_per_s, 0);
}

static void close_sender(struct world *w)
{
	snapshot_sender_close(w->sender);
	(void)snapshot_sender_step(w->sender);
	while (task_queue_run(w->loop, false) > 0)
		;
	snapshot_sender_destroy(w->sender);
	w->sender = NULL;
}

static void begin_session(struct world *w)
{
	weir_error err = {0};
	const struct snapshot_send_options o = {
	    .partition = w->a.p, .owner = task_queue_poster(w->loop), .epoch = 1, .ended = on_send_ended, .arg = w};
	w->send_ended = false;
	CHECK_OK(snapshot_send_begin(w->sender, &o, &w->session, &err), err);
}

static weir_status attach(struct world *w, uint64_t from, weir_error *err)
{
	const struct snapshot_sink sink = {.frame = on_frame, .ended = on_sink_ended, .arg = w};
	w->sink_ended = false;
	return snapshot_send_attach(w->sender, w->session, from, &sink, err);
}

static void attach_well(struct world *w)
{
	weir_error err = {0};
	CHECK_OK(attach(w, w->receiver ? snapshot_receiver_next(w->receiver) : 0, &err), err);
}

static void release_frames(struct message *const *frames, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		message_release(frames[i]);
}

static void drop_frames(struct world *w)
{
	release_frames(w->frames, w->frames_count);
	w->frames_count = 0;
}

static void cut_connection(struct world *w)
{
	snapshot_send_detach(w->sender, w->session, w);
	drop_frames(w);
}

static struct snapshot_receiver_options receiver_options(struct world *w)
{
	struct snapshot_receiver_options o = {.generation = RECORDS_GENERATION,
	                                      .partitions = 1,
	                                      .into = w->into,
	                                      .log = w->b.log,
	                                      .writer = w->b.writer,
	                                      .poster = task_queue_poster(w->loop),
	                                      .wanted = wanted,
	                                      .received = on_received,
	                                      .ended = on_receive_ended,
	                                      .arg = w};
	memcpy(o.uuid, records_uuid, sizeof o.uuid);
	return o;
}

static void begin_receiver(struct world *w)
{
	w->into = node_make_room(&w->b);
	const struct snapshot_receiver_options o = receiver_options(w);
	w->receive_ended = false;
	w->receiver = snapshot_receiver_create(&o);
	assert_non_null(w->receiver);
}

/* A snapshot, and a learner that takes it. */
static void begin_both(struct world *w)
{
	begin_session(w);
	begin_receiver(w);
	attach_well(w);
}

/* Into the node, when it is installed; else away. */
static void end_receiver(struct world *w)
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

static void take_frame(struct world *w)
{
	struct message *m = w->frames[0];
	memmove(w->frames, w->frames + 1, --w->frames_count * sizeof *w->frames);
	snapshot_receiver_take(w->receiver, cursor_at(m));
	message_release(m);
}

/* It is asked whether its log has become durable, and lets the sender know that it is there. Then it waits for its disk. */
static void tick_receiver(struct world *w)
{
	snapshot_receiver_durable(w->receiver);
	snapshot_send_received(w->sender, w->session, snapshot_receiver_received(w->receiver));
	if (w->b.journal && !w->receive_ended)
		(void)task_queue_run(w->loop, true);
}

/* What can happen now, once. */
static void turn(struct world *w)
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

/* The primary goes on, as far as there is place for its entries. */
static void load(struct world *w)
{
	if (w->a.log->ops->last(w->a.log) < ENTRIES_MAX / 2 && below(w, 2))
		step(w);
}

/* Until both ends have ended. */
static void run_to_end(struct world *w, bool under_load)
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

/* What the primary's log has behind the snapshot goes to the learner's, and is committed. */
static void replay_tail(struct world *w, uint64_t last)
{
	struct log *from = w->a.log, *to = w->b.log;
	for (uint64_t i = to->ops->last(to) + 1; i <= last; i++) {
		weir_error err = {0};
		const struct log_entry *e = from->ops->get(from, i);
		assert_non_null(e); /* kept for the learner */
		CHECK_OK(to->ops->append(to, e, &err), err);
		partition_commit_to(w->b.p, i);
		while (partition_applied(w->b.p) < i)
			(void)task_queue_run(w->loop, true);
	}
}

static void open_world(struct world *w, uint64_t seed, uint32_t a_pool, uint32_t b_pool)
{
	*w = (struct world){.clock = {&clock_ops}, .now_ns = 1000000000};
	prng_seed(&w->random, seed);
	w->loop = task_queue_create();
	node_init(&w->a, w->loop, &w->clock, a_pool);
	node_init(&w->b, w->loop, &w->clock, b_pool);
	node_start(&w->a);
	node_start(&w->b);
}

static void close_world(struct world *w)
{
	drop_frames(w);
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

static void send_whole(struct world *w)
{
	open_sender(w, 0);
	begin_both(w);
	run_to_end(w, false);
	end_receiver(w);
	close_sender(w);
}

/* --- Equal */

static void send_under_load(uint64_t seed, uint32_t a_pool, uint32_t b_pool)
{
	struct world *w = malloc(sizeof *w);
	open_world(w, seed, a_pool, b_pool);
	steps(w, 150 + below(w, 100));
	struct partition_pin tail = {.first = partition_applied(w->a.p) + 1}; /* as the driver has it for its peers */
	open_sender(w, 0);
	begin_session(w);
	const uint64_t at = partition_applied(w->a.p);
	begin_receiver(w);
	attach_well(w);
	while (!w->receive_ended) {
		turn(w);
		load(w);
	}
	assert_int_equal(w->receive_status, WEIR_OK);
	partition_pin(w->a.p, &tail);
	assert_true(partition_applied(w->a.p) > at);
	const struct snapshot_begin begin = *snapshot_receiver_begin(w->receiver);
	assert_true(begin.index == at && begin.epoch == 1 && begin.needs <= at + 1);
	end_receiver(w);
	assert_int_equal(partition_applied(w->b.p), at);
	assert_int_equal(w->b.log->ops->last(w->b.log), at);
	assert_equal_to_twin(w, w->b.p);
	run_to_end(w, true);
	replay_tail(w, partition_applied(w->a.p));
	assert_int_equal(partition_applied(w->b.p), partition_applied(w->a.p));
	assert_equal_to_twin(w, w->b.p);
	assert_equal_to_twin(w, w->a.p);
	if (b_pool) { /* and it survives */
		weir_error err = {0};
		CHECK_OK(journal_wait(w->b.journal, &err), err);
		const uint64_t last = partition_applied(w->b.p);
		node_stop(&w->b, CRASH_UNSYNCED, seed);
		node_start(&w->b);
		assert_false(w->b.was_unfinished);
		assert_int_equal(partition_applied(w->b.p), last);
		assert_equal_to_twin(w, w->b.p);
	}
	partition_unpin(w->a.p, &tail);
	close_sender(w);
	close_world(w);
}

static void a_learner_is_equal(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 2; seed++)
		send_under_load(seed, POOL_BYTES, POOL_BYTES);
}

/* The entries that an open step waits for are sent, with what lies between them: the first of an epoch has no message. */
static void an_epoch_may_begin_within_an_open_step(void **state)
{
	(void)state;
	struct world *w = malloc(sizeof *w);
	open_world(w, 31, 0, 0);
	steps(w, 50);
	while (partition_state_needs(w->a.p) > partition_applied(w->a.p))
		push_rows(w, SYNC_ROWS);
	partition_begin(w->a.p, partition_epoch(w->a.p) + 1);
	open_sender(w, 0);
	begin_session(w);
	begin_receiver(w);
	attach_well(w);
	run_to_end(w, false);
	end_receiver(w);
	assert_int_equal(partition_applied(w->b.p), partition_applied(w->a.p));
	close_sender(w);
	close_world(w);
}

static void places_may_differ(void **state)
{
	(void)state;
	send_under_load(11, 0, 0);
	send_under_load(12, 0, POOL_BYTES);
	send_under_load(13, POOL_BYTES, 0);
}

/* --- Connections */

static void a_connection_may_be_cut_at_every_frame(void **state)
{
	(void)state;
	struct world *w = malloc(sizeof *w);
	open_world(w, 21, POOL_BYTES, POOL_BYTES);
	steps(w, 200);
	open_sender(w, 0);
	begin_session(w);
	begin_receiver(w);
	uint32_t cuts = 0;
	attach_well(w);
	while (!w->send_ended) {
		const uint64_t next = snapshot_receiver_next(w->receiver);
		turn(w);
		if (!w->send_ended && snapshot_receiver_next(w->receiver) != next) {
			cut_connection(w);
			steps(w, 2);
			attach_well(w);
			cuts++;
		}
	}
	run_to_end(w, false);
	assert_true(cuts >= 6); /* begin, tables, state, rows, entries, end */
	end_receiver(w);
	assert_equal_to_twin(w, w->b.p);
	close_sender(w);
	close_world(w);
}

/* What is kept can be asked for again, and nothing else; a second connection takes over from the first. */
static void only_frames_that_are_kept_are_sent_again(void **state)
{
	(void)state;
	struct world *w = malloc(sizeof *w);
	weir_error err = {0};
	open_world(w, 22, 0, 0);
	steps(w, 100);
	open_sender(w, 0);
	begin_session(w);
	attach_well(w);
	while (w->frames_count < 4)
		turn(w);
	const uint32_t sent = w->frames_count;
	snapshot_send_received(w->sender, w->session, 2);
	assert_int_equal(attach(w, 1, &err), WEIR_E_INVALID);
	CHECK_CONTAINS(err.text, "frame 1 of its snapshot is not kept");
	assert_int_equal(attach(w, sent + 100, &err), WEIR_E_INVALID);
	drop_frames(w);
	CHECK_OK(attach(w, 2, &err), err);
	assert_int_equal(w->sink_status, WEIR_E_CANCELLED);
	CHECK_CONTAINS(w->text, "another connection");
	w->sink_ended = false;
	while (w->frames_count < sent - 2)
		turn(w);
	struct snapshot_frame f;
	CHECK_OK(snapshot_read(cursor_at(w->frames[0]), &f, &err), err);
	assert_int_equal(f.number, 2);
	close_sender(w);
	assert_int_equal(w->send_status, WEIR_E_CLOSED);
	close_world(w);
}

static void a_sender_that_hears_nothing_gives_up(void **state)
{
	(void)state;
	struct world *w = malloc(sizeof *w);
	weir_error err = {0};
	open_world(w, 23, 0, 0);
	steps(w, 50);
	open_sender(w, 0);
	begin_session(w);
	attach_well(w);
	turn(w);
	cut_connection(w);
	w->now_ns += (int64_t)(WEIR_SNAPSHOT_PATIENCE_MS - 1) * 1000000;
	attach_well(w); /* just in time, and heard again */
	w->now_ns += (int64_t)(WEIR_SNAPSHOT_PATIENCE_MS - 1) * 1000000;
	turn(w);
	assert_false(w->send_ended);
	w->now_ns += 2000000;
	while (!w->send_ended)
		turn(w);
	assert_int_equal(w->send_status, WEIR_E_TIMEOUT);
	assert_int_equal(w->sink_status, WEIR_E_TIMEOUT);
	assert_int_equal(attach(w, 0, &err), WEIR_E_NOT_FOUND);
	close_sender(w);
	close_world(w);
}

static void who_steps_down_sends_no_more(void **state)
{
	(void)state;
	struct world *w = malloc(sizeof *w);
	open_world(w, 24, POOL_BYTES, 0);
	steps(w, 100);
	open_sender(w, 0);
	begin_both(w);
	while (snapshot_receiver_next(w->receiver) < 3)
		turn(w);
	snapshot_send_abort(w->sender, 0, "another server is its primary");
	while (!w->send_ended)
		turn(w);
	assert_int_equal(w->send_status, WEIR_E_CANCELLED);
	assert_int_equal(w->sink_status, WEIR_E_CANCELLED);
	CHECK_CONTAINS(w->text, "another server is its primary");
	end_receiver(w);
	begin_session(w); /* the store can begin another at once */
	begin_receiver(w);
	drop_frames(w);
	attach_well(w);
	run_to_end(w, true);
	end_receiver(w);
	assert_equal_to_twin(w, w->b.p);
	close_sender(w);
	close_world(w);
}

static void one_snapshot_of_a_partition_at_a_time(void **state)
{
	(void)state;
	struct world *w = malloc(sizeof *w);
	weir_error err = {0};
	uint64_t second;
	open_world(w, 25, 0, 0);
	steps(w, 20);
	open_sender(w, 0);
	begin_session(w);
	const struct snapshot_send_options o = {
	    .partition = w->a.p, .owner = task_queue_poster(w->loop), .epoch = 1, .ended = on_send_ended, .arg = w};
	assert_int_equal(snapshot_send_begin(w->sender, &o, &second, &err), WEIR_E_BUSY);
	CHECK_CONTAINS(err.text, "partition 0: a snapshot of it is under way");
	close_sender(w);
	open_sender(w, 0);
	snapshot_sender_close(w->sender);
	assert_int_equal(snapshot_send_begin(w->sender, &o, &second, &err), WEIR_E_CLOSED);
	close_sender(w);
	close_world(w);
}

/* Of rows that may be ahead of what is applied, the entries come too. */
static void what_the_log_has_comes_along(void **state)
{
	(void)state;
	struct world *w = malloc(sizeof *w);
	struct partition_pin all = {.first = 1};
	weir_error err = {0};
	open_world(w, 26, 0, 0);
	partition_pin(w->a.p, &all);
	steps(w, 30);
	const uint64_t last = partition_applied(w->a.p);
	struct log *log = log_memory_create();
	struct partition *p = node_partition(&w->b, true);
	for (uint64_t i = 1; i <= last; i++)
		CHECK_OK(log->ops->append(log, w->a.log->ops->get(w->a.log, i), &err), err);
	partition_set_log(p, log);
	partition_recovered(p);
	partition_commit_to(p, last / 2);
	open_sender(w, 0);
	const struct snapshot_send_options o = {
	    .partition = p, .owner = task_queue_poster(w->loop), .epoch = 1, .ended = on_send_ended, .arg = w};
	w->send_ended = false;
	CHECK_OK(snapshot_send_begin(w->sender, &o, &w->session, &err), err);
	begin_receiver(w);
	attach_well(w);
	run_to_end(w, false);
	end_receiver(w);
	assert_int_equal(partition_applied(w->b.p), last / 2);
	assert_int_equal(w->b.log->ops->last(w->b.log), last);
	assert_true(partition_is_replaying(w->b.p));
	partition_commit_to(w->b.p, last);
	assert_equal_to_twin(w, w->b.p);
	close_sender(w);
	partition_destroy(p);
	partition_unpin(w->a.p, &all);
	close_world(w);
}

/* --- Who hangs up */

static void who_has_hung_up_is_told_no_more(void **state)
{
	(void)state;
	struct world *w = malloc(sizeof *w);
	open_world(w, 27, 0, 0);
	steps(w, 20);
	open_sender(w, 0);
	begin_session(w);
	attach_well(w);
	turn(w);
	snapshot_send_abort(w->sender, 0, "another server is its primary");
	cut_connection(w); /* before the session has ended */
	while (!w->send_ended)
		turn(w);
	assert_false(w->sink_ended);
	close_sender(w);
	close_world(w);
}

static void who_has_all_may_hang_up(void **state)
{
	(void)state;
	struct world *w = malloc(sizeof *w);
	struct snapshot_frame f = {0};
	open_world(w, 28, 0, 0);
	steps(w, 20);
	open_sender_with(w, 0, 1);
	begin_session(w);
	attach_well(w);
	for (uint64_t frames = 1; f.kind != SNAPSHOT_END; frames++) {
		while (w->frames_count == 0)
			turn(w);
		assert_int_equal(snapshot_read(cursor_at(w->frames[0]), &f, NULL), WEIR_OK);
		drop_frames(w);
		snapshot_send_received(w->sender, w->session, frames);
	}
	cut_connection(w);
	turn(w), turn(w);
	assert_true(w->send_ended);
	assert_int_equal(w->send_status, WEIR_OK);
	close_sender(w);
	close_world(w);
}

/* --- Crashes of the learner */

/* It dies when `frames` have been taken, or while the last steps are under way, and starts again. True: the snapshot was over before. */
static bool crash_at(struct world *w, uint64_t frames)
{
	open_sender(w, 0);
	begin_both(w);
	while (!w->receive_ended && snapshot_receiver_next(w->receiver) < frames)
		turn(w);
	const bool was_over = w->receive_ended;
	end_receiver(w);
	node_stop(&w->b, CRASH_RANDOM, frames);
	drop_frames(w);
	close_sender(w);
	node_start(&w->b);
	return was_over;
}

static void a_learner_that_crashes_begins_again(void **state)
{
	(void)state;
	struct world *w = malloc(sizeof *w);
	uint32_t crashes = 0;
	open_world(w, 31, POOL_BYTES, POOL_BYTES);
	steps(w, 120);
	send_whole(w);
	for (uint64_t frames = 1;; frames += 1 + frames / 3) {
		const uint64_t before = partition_applied(w->b.p);
		steps(w, 10);
		const bool was_over = crash_at(w, frames);
		const uint64_t after = partition_applied(w->b.p);
		assert_true(was_over || after == (w->b.was_unfinished ? 0 : before));
		assert_equal_to_twin(w, w->b.p);
		crashes++;
		if (was_over)
			break;
		if (frames % 3 == 0) { /* it has something again to lose */
			send_whole(w);
			assert_equal_to_twin(w, w->b.p);
		}
	}
	assert_true(crashes >= 6);
	close_world(w);
}

static void power_cut_in_the_last_steps(void **state)
{
	(void)state;
	struct world *w = malloc(sizeof *w);
	uint32_t unfinished = 0;
	open_world(w, 32, POOL_BYTES, POOL_BYTES);
	steps(w, 60);
	for (uint32_t waits = 0; waits < 6; waits++) {
		weir_error err = {0};
		steps(w, 5);
		open_sender(w, 0);
		begin_both(w);
		while (!w->frames_count || snapshot_receiver_next(w->receiver) < 8)
			turn(w);
		CHECK_OK(cold_flush(w->b.cold, &err), err); /* what was written until then will be found */
		while (!w->receive_ended && snapshot_receiver_next(w->receiver) < w->frames_count)
			turn(w);
		for (uint32_t i = 0; i < waits && !w->receive_ended; i++)
			turn(w);
		end_receiver(w);
		node_stop(&w->b, CRASH_UNSYNCED, waits);
		drop_frames(w);
		close_sender(w);
		node_start(&w->b);
		unfinished += w->b.was_unfinished;
		assert_int_equal(partition_applied(w->b.p) == 0, w->b.was_unfinished);
		assert_equal_to_twin(w, w->b.p);
		push_rows(w, ASYNC_ROWS);
	}
	assert_true(unfinished > 0);
	close_world(w);
}

/* --- A replica that begins anew */

static enum partition_reset_stage go_on(struct partition_reset *r, bool *done)
{
	weir_error err = {0};
	const weir_status status = partition_reset_go_on(r, &err);
	if (status != WEIR_E_BUSY)
		CHECK_OK(status, err);
	*done = status == WEIR_OK;
	return r->stage;
}

/* Until it has come so far; false: to its end. */
static bool reset_until(struct world *w, struct partition_reset *r, enum partition_reset_stage stage)
{
	bool done = false;
	*r = (struct partition_reset){.partition = w->b.p, .writer = w->b.writer, .poster = task_queue_poster(w->loop)};
	while (go_on(r, &done) != stage && !done)
		(void)task_queue_run(w->loop, false);
	return !done;
}

/* As its learner does: the partition is the same, and so is its log. */
static void fill_in_place(struct world *w)
{
	open_sender(w, 0);
	begin_session(w);
	partition_halt(w->b.p);
	w->into = w->b.p;
	const struct snapshot_receiver_options o = receiver_options(w);
	w->receive_ended = false;
	w->receiver = snapshot_receiver_create(&o);
	assert_non_null(w->receiver);
	attach_well(w);
	run_to_end(w, true);
	snapshot_receiver_destroy(w->receiver);
	w->receiver = NULL;
	w->into = NULL;
	close_sender(w);
	partition_serve(w->b.p);
}

static void begin_anew(uint32_t b_pool)
{
	struct world *w = malloc(sizeof *w);
	struct partition_reset r;
	struct partition_counters *none = calloc(1, sizeof *none);
	open_world(w, 51, POOL_BYTES, b_pool);
	steps(w, 120);
	send_whole(w);
	struct partition_pin tail = {.first = partition_applied(w->b.p) + 1};
	partition_pin(w->a.p, &tail);
	steps(w, 40);
	replay_tail(w, partition_applied(w->a.p)); /* rows that no flush has seen */
	partition_unpin(w->a.p, &tail);
	assert_false(reset_until(w, &r, RESET_IDLE));
	assert_int_equal(partition_applied(w->b.p), 0);
	assert_int_equal(w->b.log->ops->last(w->b.log), 0);
	assert_null(store_table(partition_store(w->b.p), ASYNC_ROWS));
	assert_memory_equal(partition_get_counters(w->b.p), none, sizeof *none);
	fill_in_place(w);
	assert_equal_to_twin(w, w->b.p);
	if (b_pool) {
		const uint64_t last = partition_applied(w->b.p);
		node_stop(&w->b, CRASH_UNSYNCED, 1);
		node_start(&w->b);
		assert_int_equal(partition_applied(w->b.p), last);
		assert_equal_to_twin(w, w->b.p);
	}
	close_world(w);
	free(none);
}

static void a_replica_begins_anew(void **state)
{
	(void)state;
	begin_anew(0);
	begin_anew(POOL_BYTES);
}

/* However far it has come, and whatever is behind that is lost: it has nothing. */
static void a_crash_while_it_begins_anew(void **state)
{
	(void)state;
	static const enum partition_reset_stage stages[] = {RESET_VOID, RESET_LOG, RESET_HEADER, RESET_IDLE};
	static const enum faulty_crash crashes[] = {CRASH_PROCESS, CRASH_UNSYNCED, CRASH_RANDOM};
	struct world *w = malloc(sizeof *w);
	struct partition_reset r;
	uint32_t unfinished = 0;
	open_world(w, 52, POOL_BYTES, POOL_BYTES);
	steps(w, 60);
	for (uint32_t i = 0; i < 12; i++) {
		send_whole(w);
		(void)reset_until(w, &r, stages[i % 4]);
		node_stop(&w->b, crashes[i / 4], i);
		node_start(&w->b);
		assert_int_equal(partition_applied(w->b.p), 0);
		assert_equal_to_twin(w, w->b.p);
		unfinished += w->b.was_unfinished;
		push_rows(w, ASYNC_ROWS);
	}
	assert_true(unfinished > 0);
	close_world(w);
}

/* Killed when it is empty, it is given back what its journal has of before. It is emptied once more then, and flushes nothing meanwhile that would wait for a log
 * which has gone. */
static void what_a_reset_log_has_left_is_emptied_again(void **state)
{
	(void)state;
	struct world *w = malloc(sizeof *w);
	struct partition_reset r;
	open_world(w, 53, POOL_BYTES, POOL_BYTES);
	steps(w, 40);
	struct partition_pin all = {.first = 1};
	partition_pin(w->a.p, &all);
	replay_tail(w, partition_applied(w->a.p)); /* from the log alone */
	assert_int_equal(partition_applied(w->b.p), partition_applied(w->a.p));
	assert_false(reset_until(w, &r, RESET_IDLE));
	node_stop(&w->b, CRASH_PROCESS, 1);
	node_start(&w->b);
	assert_true(partition_applied(w->b.p) > 0);
	assert_int_equal(w->b.log->ops->last(w->b.log), 0);
	assert_false(partition_flush(w->b.p, NULL, NULL));
	assert_false(reset_until(w, &r, RESET_IDLE));
	assert_int_equal(partition_applied(w->b.p), 0);
	partition_unpin(w->a.p, &all);
	fill_in_place(w);
	assert_equal_to_twin(w, w->b.p);
	close_world(w);
}

/* --- Frames that are wrong */

/* All frames of a snapshot of the primary, none of which is taken. */
static uint32_t record_frames(struct world *w, struct message *out[FRAMES_MAX])
{
	open_sender(w, 0);
	begin_session(w);
	attach_well(w);
	struct snapshot_frame last = {0};
	while (last.kind != SNAPSHOT_END) {
		turn(w);
		if (w->frames_count)
			assert_int_equal(snapshot_read(cursor_at(w->frames[w->frames_count - 1]), &last, NULL), WEIR_OK);
	}
	const uint32_t n = w->frames_count;
	memcpy(out, w->frames, n * sizeof *out);
	w->frames_count = 0;
	close_sender(w);
	return n;
}

/* Gives n frames to a new learner in memory, which has not ended before the last; how it ended. */
static weir_status feed(struct world *w, struct message *const *frames, uint32_t n)
{
	begin_receiver(w);
	for (uint32_t i = 0; i < n; i++) {
		assert_false(w->receive_ended);
		snapshot_receiver_take(w->receiver, cursor_at(frames[i]));
	}
	const weir_status status = w->receive_ended ? w->receive_status : WEIR_E_STATE;
	end_receiver(w);
	return status;
}

static struct message *flipped(struct world *w, const struct message *m)
{
	uint8_t *bytes;
	struct message *out = message_alloc(m->bytes, &bytes);
	struct cursor c = cursor_at(m);
	assert_int_equal(cursor_read(&c, bytes, m->bytes), WEIR_OK);
	bytes[below(w, (uint32_t)m->bytes)] ^= (uint8_t)(1u << below(w, 8));
	return out;
}

static void a_flipped_bit_is_refused(void **state)
{
	(void)state;
	struct world *w = malloc(sizeof *w);
	struct message *frames[FRAMES_MAX];
	open_world(w, 41, 0, 0);
	steps(w, 150);
	const uint32_t n = record_frames(w, frames);
	for (uint32_t i = 0; i < n; i++)
		for (uint32_t k = 0; k < 8; k++) {
			struct message *good = frames[i];
			char name[32];
			snprintf(name, sizeof name, "frame %u: ", i);
			frames[i] = flipped(w, good);
			const weir_status status = feed(w, frames, i + 1);
			assert_true(status == WEIR_E_CORRUPT || status == WEIR_E_VERSION);
			CHECK_CONTAINS(w->text, name);
			message_release(frames[i]);
			frames[i] = good;
		}
	assert_int_equal(feed(w, frames, n), WEIR_OK);
	release_frames(frames, n);
	close_world(w);
}

static void frames_come_in_order(void **state)
{
	(void)state;
	struct world *w = malloc(sizeof *w);
	struct message *frames[FRAMES_MAX], *wrong[FRAMES_MAX + 1];
	open_world(w, 42, 0, 0);
	steps(w, 150);
	const uint32_t n = record_frames(w, frames);
	for (uint32_t i = 0; i < n; i++) {
		memcpy(wrong, frames, sizeof frames);
		if (i + 1 < n) { /* one is left out */
			wrong[i] = frames[i + 1];
			assert_int_equal(feed(w, wrong, i + 1), WEIR_E_CORRUPT);
			CHECK_CONTAINS(w->text, "it is number ");
		}
		if (i > 0) { /* one comes twice */
			wrong[i] = frames[i - 1];
			assert_int_equal(feed(w, wrong, i + 1), WEIR_E_CORRUPT);
			CHECK_CONTAINS(w->text, "it is number ");
		}
	}
	release_frames(frames, n);
	close_world(w);
}

/* The first frame of frames, for a learner of other options. */
static weir_status feed_other(struct world *w, struct message *frame, const struct snapshot_receiver_options *o)
{
	w->receive_ended = false;
	w->receiver = snapshot_receiver_create(o);
	snapshot_receiver_take(w->receiver, cursor_at(frame));
	assert_true(w->receive_ended);
	snapshot_receiver_destroy(w->receiver);
	w->receiver = NULL;
	return w->receive_status;
}

static void what_is_not_for_us_is_refused(void **state)
{
	(void)state;
	struct world *w = malloc(sizeof *w);
	struct message *frames[FRAMES_MAX];
	open_world(w, 43, 0, 0);
	steps(w, 50);
	const uint32_t n = record_frames(w, frames);
	w->into = node_make_room(&w->b);
	struct snapshot_receiver_options o = receiver_options(w);
	o.uuid[3] ^= 1;
	assert_int_equal(feed_other(w, frames[0], &o), WEIR_E_GENERATION);
	CHECK_CONTAINS(w->text, "another job");
	o.uuid[3] ^= 1;
	o.generation++;
	assert_int_equal(feed_other(w, frames[0], &o), WEIR_E_GENERATION);
	CHECK_CONTAINS(w->text, "it is of generation 3, this server is in generation 4");
	o.generation--;
	o.partitions = 2;
	assert_int_equal(feed_other(w, frames[0], &o), WEIR_E_INVALID);
	CHECK_CONTAINS(w->text, "partition 0 of 1, expected 0 of 2");
	o.partitions = 1;
	w->unwanted = true;
	assert_int_equal(feed_other(w, frames[0], &o), WEIR_E_STALE);
	CHECK_CONTAINS(w->text, "of no use any more");
	w->unwanted = false;
	partition_destroy(w->into);
	release_frames(frames, n);
	close_world(w);
}

static void another_schema_is_refused(void **state)
{
	(void)state;
	struct world *w = malloc(sizeof *w);
	struct message *frames[FRAMES_MAX];
	open_world(w, 44, 0, 0);
	steps(w, 50);
	const uint32_t n = record_frames(w, frames);
	w->into = node_make_room(&w->b);
	struct fixture f = {.p = w->into};
	fixture_add_tables(&f, WEIR_OPT_SGD);
	const struct snapshot_receiver_options o = receiver_options(w);
	w->receive_ended = false;
	w->receiver = snapshot_receiver_create(&o);
	for (uint32_t i = 0; i < n && !w->receive_ended; i++)
		snapshot_receiver_take(w->receiver, cursor_at(frames[i]));
	assert_int_equal(w->receive_status, WEIR_E_EXISTS);
	CHECK_CONTAINS(w->text, "table 1 is registered as \"async_rows\"");
	assert_int_equal(partition_applied(w->into), 0);
	snapshot_receiver_destroy(w->receiver);
	w->receiver = NULL;
	partition_destroy(w->into);
	release_frames(frames, n);
	close_world(w);
}

/* What is of no use any more when all of it has come replaces nothing. */
static void a_snapshot_may_come_too_late(void **state)
{
	(void)state;
	struct world *w = malloc(sizeof *w);
	struct message *frames[FRAMES_MAX];
	open_world(w, 45, 0, 0);
	steps(w, 50);
	const uint32_t n = record_frames(w, frames);
	begin_receiver(w);
	for (uint32_t i = 0; i < n; i++) {
		w->unwanted = i == n - 1;
		snapshot_receiver_take(w->receiver, cursor_at(frames[i]));
	}
	assert_true(w->receive_ended);
	assert_int_equal(w->receive_status, WEIR_E_STALE);
	assert_int_equal(partition_applied(w->into), 0);
	end_receiver(w);
	release_frames(frames, n);
	close_world(w);
}

static void leave_after_end(void *arg, uint64_t next)
{
	struct world *w = arg;
	if (next < w->frames_all)
		return;
	snapshot_receiver_destroy(w->receiver);
	w->receiver = NULL;
}

/* Who destroys a receiver hears of it no more, but what it has installed is there. */
static void a_receiver_may_be_destroyed_by_whom_it_calls(void **state)
{
	(void)state;
	struct world *w = malloc(sizeof *w);
	struct message *frames[FRAMES_MAX];
	open_world(w, 46, 0, 0);
	steps(w, 50);
	w->frames_all = record_frames(w, frames);
	w->into = node_make_room(&w->b);
	struct snapshot_receiver_options o = receiver_options(w);
	o.received = leave_after_end;
	w->receiver = snapshot_receiver_create(&o);
	for (uint32_t i = 0; i < w->frames_all; i++)
		snapshot_receiver_take(w->receiver, cursor_at(frames[i]));
	assert_null(w->receiver);
	assert_false(w->receive_ended);
	node_adopt(&w->b, w->into);
	assert_equal_to_twin(w, w->b.p);
	release_frames(frames, (uint32_t)w->frames_all);
	close_world(w);
}

/* --- The pace */

/* No more is on its way, or kept, than the window has room for. */
static void who_acknowledges_nothing_gets_a_window(void **state)
{
	(void)state;
	struct world *w = malloc(sizeof *w);
	open_world(w, 50, 0, 0);
	steps(w, 300);
	open_sender_with(w, 0, 1);
	begin_session(w);
	attach_well(w);
	for (uint64_t frames = 1; !w->send_ended; frames++) {
		struct snapshot_frame f;
		for (uint32_t i = 0; i < 20; i++)
			turn(w);
		assert_int_equal(w->frames_count, 1);
		assert_int_equal(snapshot_read(cursor_at(w->frames[0]), &f, NULL), WEIR_OK);
		assert_int_equal(f.number, frames - 1);
		drop_frames(w);
		snapshot_send_received(w->sender, w->session, frames);
		if (f.kind == SNAPSHOT_END)
			turn(w), turn(w);
	}
	assert_int_equal(w->send_status, WEIR_OK);
	close_sender(w);
	close_world(w);
}

static void the_pace_is_kept(void **state)
{
	(void)state;
	enum { RATE = 300000 };
	struct world *w = malloc(sizeof *w);
	open_world(w, 51, 0, 0);
	steps(w, 400);
	open_sender(w, RATE);
	const int64_t begun = w->now_ns;
	begin_both(w);
	uint64_t bytes = 0, last = 0;
	while (!w->send_ended) {
		const uint32_t before = w->frames_count;
		turn(w);
		if (w->frames_count > before)
			bytes += last = w->frames[w->frames_count - 1]->bytes;
	}
	run_to_end(w, false);
	const double took = (double)(w->now_ns - begun) / 1e9, least = (double)(bytes - last) / RATE - TOKEN_BUCKET_BURST_NS / 1e9;
	assert_true(bytes > RATE / 2);
	assert_true(took >= least && took <= (double)bytes / RATE + 0.01);
	end_receiver(w);
	close_sender(w);
	close_world(w);
}

/* One of several learners, that only counts. */
struct counting {
	struct snapshot_sender *sender;
	uint64_t session, frames, bytes;
	bool ended;
};

static void count_frame(void *arg, struct message *frame)
{
	struct counting *c = arg;
	c->frames++;
	c->bytes += frame->bytes;
}

static void count_sink_end(void *arg, weir_status status, const char *text)
{
	(void)arg, (void)text;
	assert_int_equal(status, WEIR_OK);
}

static void count_end(void *arg, weir_status status, const char *text)
{
	struct counting *c = arg;
	(void)text;
	assert_int_equal(status, WEIR_OK);
	c->ended = true;
}

static struct partition *wide_partition(struct world *w, uint32_t id, uint32_t partitions)
{
	const struct partition_options o = {
	    .id = id, .partitions = partitions, .generation = RECORDS_GENERATION, .log = log_memory_create(), .clock = &w->clock};
	struct partition *p = partition_create(&o, NULL);
	assert_non_null(p);
	node_add_tables(p);
	for (uint64_t chunk = id; chunk < WIDE_CHUNKS; chunk += partitions) {
		float *row;
		struct row_meta *meta;
		assert_int_equal(store_upsert(store_table(partition_store(p), WIDE_DENSE), &chunk, 1, &row, &meta), WEIR_OK);
		row[chunk] = 1;
	}
	return p;
}

static void sessions_share_the_pace(void **state)
{
	(void)state;
	enum { SESSIONS = 3, RATE = 1000000 };
	struct world *w = malloc(sizeof *w);
	struct partition *p[SESSIONS];
	struct counting c[SESSIONS] = {0};
	weir_error err = {0};
	open_world(w, 52, 0, 0);
	struct snapshot_sender_options o = {.generation = RECORDS_GENERATION,
	                                    .partitions = SESSIONS,
	                                    .boot = 1,
	                                    .bytes_per_s = RATE,
	                                    .clock = &w->clock,
	                                    .stepped = true};
	w->sender = snapshot_sender_create(&o, &err);
	const int64_t begun = w->now_ns;
	for (uint32_t i = 0; i < SESSIONS; i++) {
		p[i] = wide_partition(w, i, SESSIONS);
		const struct snapshot_send_options begin = {
		    .partition = p[i], .owner = task_queue_poster(w->loop), .epoch = 1, .ended = count_end, .arg = &c[i]};
		const struct snapshot_sink sink = {.frame = count_frame, .ended = count_sink_end, .arg = &c[i]};
		CHECK_OK(snapshot_send_begin(w->sender, &begin, &c[i].session, &err), err);
		CHECK_OK(snapshot_send_attach(w->sender, c[i].session, 0, &sink, &err), err);
	}
	while (!c[0].ended || !c[1].ended || !c[2].ended) {
		(void)task_queue_run(w->loop, false);
		const int64_t wait = snapshot_sender_step(w->sender);
		if (wait < WEIR_SNAPSHOT_PATIENCE_MS * 1000000ll / 2)
			w->now_ns += wait;
		for (uint32_t i = 0; i < SESSIONS; i++)
			snapshot_send_received(w->sender, c[i].session, c[i].frames);
	}
	const double bytes = (double)(c[0].bytes + c[1].bytes + c[2].bytes), took = (double)(w->now_ns - begun) / 1e9;
	assert_true(bytes > WIDE_CHUNKS * WEIR_CHUNK * sizeof(float));
	assert_true(took >= (bytes - WEIR_MESSAGE_BYTES_MAX) / RATE - TOKEN_BUCKET_BURST_NS / 1e9 && took <= bytes / RATE + 0.01);
	for (uint32_t i = 0; i < SESSIONS; i++) {
		assert_true(c[i].bytes > (WIDE_CHUNKS / SESSIONS) * WEIR_CHUNK * sizeof(float));
		partition_destroy(p[i]);
	}
	close_sender(w);
	close_world(w);
}

/* --- With a thread of its own */

struct posted {
	struct world *w;
	struct message *frame; /* NULL: the sink's end */
};

static void arrive(void *arg)
{
	struct posted *x = arg;
	struct world *w = x->w;
	if (x->frame && w->receiver)
		snapshot_receiver_take(w->receiver, cursor_at(x->frame));
	w->sink_ended |= !x->frame;
	message_release(x->frame);
	free(x);
}

static void post_arrival(struct world *w, struct message *frame)
{
	const struct poster poster = task_queue_poster(w->loop);
	struct posted *x = malloc(sizeof *x);
	*x = (struct posted){.w = w, .frame = frame};
	poster_post(&poster, arrive, x);
}

static void post_frame(void *arg, struct message *frame)
{
	post_arrival(arg, message_retain(frame));
}

static void post_sink_end(void *arg, weir_status status, const char *text)
{
	(void)status, (void)text;
	post_arrival(arg, NULL);
}

/* The sender's thread against the partition's, which goes on; sometimes it steps down, or the server stops. */
static void a_sender_has_a_thread(void **state)
{
	(void)state;
	for (uint64_t seed = 61; seed <= 66; seed++) {
		struct world *w = malloc(sizeof *w);
		weir_error err = {0};
		open_world(w, seed, 0, 0);
		steps(w, 200);
		struct snapshot_sender_options o = {
		    .generation = RECORDS_GENERATION, .partitions = 1, .boot = seed, .clock = clock_system()};
		memcpy(o.uuid, records_uuid, sizeof o.uuid);
		w->sender = snapshot_sender_create(&o, &err);
		begin_session(w);
		begin_receiver(w);
		const struct snapshot_sink sink = {.frame = post_frame, .ended = post_sink_end, .arg = w};
		CHECK_OK(snapshot_send_attach(w->sender, w->session, 0, &sink, &err), err);
		for (uint32_t turns = 0; !w->send_ended || !w->sink_ended; turns++) {
			(void)task_queue_run(w->loop, false);
			load(w);
			if (seed % 3 == 1 && turns == 5)
				snapshot_send_abort(w->sender, 0, "another server is its primary");
			if (seed % 3 == 2 && turns == 5)
				snapshot_sender_close(w->sender);
		}
		if (seed % 3 == 0) {
			assert_true(w->receive_ended);
			end_receiver(w);
			assert_equal_to_twin(w, w->b.p);
		} else {
			end_receiver(w);
		}
		snapshot_sender_close(w->sender);
		snapshot_sender_destroy(w->sender);
		w->sender = NULL;
		close_world(w);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_learner_is_equal),
	    cmocka_unit_test(places_may_differ),
	    cmocka_unit_test(an_epoch_may_begin_within_an_open_step),
	    cmocka_unit_test(a_connection_may_be_cut_at_every_frame),
	    cmocka_unit_test(only_frames_that_are_kept_are_sent_again),
	    cmocka_unit_test(a_sender_that_hears_nothing_gives_up),
	    cmocka_unit_test(who_steps_down_sends_no_more),
	    cmocka_unit_test(one_snapshot_of_a_partition_at_a_time),
	    cmocka_unit_test(what_the_log_has_comes_along),
	    cmocka_unit_test(who_has_hung_up_is_told_no_more),
	    cmocka_unit_test(who_has_all_may_hang_up),
	    cmocka_unit_test(a_learner_that_crashes_begins_again),
	    cmocka_unit_test(a_replica_begins_anew),
	    cmocka_unit_test(a_crash_while_it_begins_anew),
	    cmocka_unit_test(what_a_reset_log_has_left_is_emptied_again),
	    cmocka_unit_test(power_cut_in_the_last_steps),
	    cmocka_unit_test(a_flipped_bit_is_refused),
	    cmocka_unit_test(frames_come_in_order),
	    cmocka_unit_test(what_is_not_for_us_is_refused),
	    cmocka_unit_test(another_schema_is_refused),
	    cmocka_unit_test(a_snapshot_may_come_too_late),
	    cmocka_unit_test(a_receiver_may_be_destroyed_by_whom_it_calls),
	    cmocka_unit_test(who_acknowledges_nothing_gets_a_window),
	    cmocka_unit_test(the_pace_is_kept),
	    cmocka_unit_test(sessions_share_the_pace),
	    cmocka_unit_test(a_sender_has_a_thread),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
