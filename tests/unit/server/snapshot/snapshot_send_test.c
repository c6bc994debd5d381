/* The sender of snapshots: connections cut at every frame, receivers that hang up, primaries that
 * step down, the pace, and a sender with its own thread. */
#include <stdlib.h>
#include <string.h>

#include "common/base/limits.h"
#include "server/records/token_bucket.h"
#include "tests/cmocka_check.h"
#include "tests/unit/server/snapshot/snapshot_fixture.h"

/* --- Connections */

static void a_connection_may_be_cut_at_every_frame(void **state)
{
	(void)state;
	struct world *w = world_create(21, POOL_BYTES, POOL_BYTES);
	steps(w, 200);
	uint32_t cuts = 0;
	open_sender(w, 0);
	begin_both(w);
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
	end_receiver_well(w);
	world_destroy(w);
}

/* The sender repeats only the frames that it keeps. A second connection takes over from the
 * first. */
static void only_frames_that_are_kept_are_sent_again(void **state)
{
	(void)state;
	struct world *w = world_create(22, 0, 0);
	weir_error err = {0};
	steps(w, 100);
	begin_sending(w);
	turn_until_frames(w, 4);
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
	turn_until_frames(w, sent - 2);
	struct snapshot_frame f;
	CHECK_OK(snapshot_read(cursor_at(w->frames[0]), &f, &err), err);
	assert_int_equal(f.number, 2);
	close_sender(w);
	assert_int_equal(w->send_status, WEIR_E_CLOSED);
	world_destroy(w);
}

static void a_sender_that_hears_nothing_gives_up(void **state)
{
	(void)state;
	struct world *w = world_create(23, 0, 0);
	weir_error err = {0};
	steps(w, 50);
	begin_sending(w);
	turn(w);
	cut_connection(w);
	w->now_ns += (int64_t)(WEIR_SNAPSHOT_PATIENCE_MS - 1) * 1000000;
	attach_well(w); /* just in time: the sender hears the receiver again */
	w->now_ns += (int64_t)(WEIR_SNAPSHOT_PATIENCE_MS - 1) * 1000000;
	turn(w);
	assert_false(w->send_ended);
	w->now_ns += 2000000;
	turn_until_send_ends(w);
	assert_int_equal(w->send_status, WEIR_E_TIMEOUT);
	assert_int_equal(w->sink_status, WEIR_E_TIMEOUT);
	assert_int_equal(attach(w, 0, &err), WEIR_E_NOT_FOUND);
	world_destroy(w);
}

static void a_primary_that_steps_down_sends_nothing_more(void **state)
{
	(void)state;
	struct world *w = world_create(24, POOL_BYTES, 0);
	steps(w, 100);
	open_sender(w, 0);
	begin_both(w);
	while (snapshot_receiver_next(w->receiver) < 3)
		turn(w);
	snapshot_send_abort(w->sender, 0, "another server is its primary");
	turn_until_send_ends(w);
	assert_int_equal(w->send_status, WEIR_E_CANCELLED);
	assert_int_equal(w->sink_status, WEIR_E_CANCELLED);
	CHECK_CONTAINS(w->text, "another server is its primary");
	end_receiver(w);
	begin_session(w); /* the store can begin another snapshot at once */
	begin_receiver(w);
	drop_frames(w);
	attach_well(w);
	run_to_end(w, true);
	end_receiver_well(w);
	world_destroy(w);
}

static void one_snapshot_of_a_partition_at_a_time(void **state)
{
	(void)state;
	struct world *w = world_create(25, 0, 0);
	weir_error err = {0};
	uint64_t second;
	steps(w, 20);
	open_sender(w, 0);
	begin_session(w);
	const struct snapshot_send_options o = {
	    .partition = w->a.p, .owner = task_queue_executor(w->loop), .epoch = 1, .ended = on_send_ended, .arg = w};
	assert_int_equal(snapshot_send_begin(w->sender, &o, &second, &err), WEIR_E_BUSY);
	CHECK_CONTAINS(err.text, "partition 0: a snapshot of it is under way");
	close_sender(w);
	open_sender(w, 0);
	snapshot_sender_close(w->sender);
	assert_int_equal(snapshot_send_begin(w->sender, &o, &second, &err), WEIR_E_CLOSED);
	world_destroy(w);
}

/* --- Receivers that hang up */

static void a_receiver_that_hung_up_gets_nothing_more(void **state)
{
	(void)state;
	struct world *w = world_create(27, 0, 0);
	steps(w, 20);
	begin_sending(w);
	turn(w);
	snapshot_send_abort(w->sender, 0, "another server is its primary");
	cut_connection(w); /* before the session ends */
	turn_until_send_ends(w);
	assert_false(w->sink_ended);
	world_destroy(w);
}

static void a_receiver_with_everything_may_hang_up(void **state)
{
	(void)state;
	struct world *w = world_create(28, 0, 0);
	struct snapshot_frame f = {0};
	steps(w, 20);
	begin_sending_by_frame(w);
	for (uint64_t frames = 1; f.kind != SNAPSHOT_END; frames++) {
		turn_until_frames(w, 1);
		assert_int_equal(snapshot_read(cursor_at(w->frames[0]), &f, NULL), WEIR_OK);
		drop_frames(w);
		snapshot_send_received(w->sender, w->session, frames);
	}
	cut_connection(w);
	turn(w), turn(w);
	assert_true(w->send_ended);
	assert_int_equal(w->send_status, WEIR_OK);
	world_destroy(w);
}

/* --- The pace */

/* Frames in flight and kept frames never exceed the window. */
static void a_receiver_that_acknowledges_nothing_gets_one_window(void **state)
{
	(void)state;
	struct world *w = world_create(50, 0, 0);
	steps(w, 300);
	begin_sending_by_frame(w);
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
	world_destroy(w);
}

static void the_pace_is_kept(void **state)
{
	(void)state;
	enum { RATE = 200000 };
	struct world *w = world_create(51, 0, 0);
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
	world_destroy(w);
}

/* One of several learners. It only counts. */
struct counting {
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
	const struct partition_options o = {.id = id,
	                                    .partitions = partitions,
	                                    .generation = RECORDS_GENERATION,
	                                    .log = log_memory_create(),
	                                    .clock = &w->clock.base};
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
	struct world *w = world_create(52, 0, 0);
	struct partition *p[SESSIONS];
	struct counting c[SESSIONS] = {0};
	weir_error err = {0};
	struct snapshot_sender_options o = {.generation = RECORDS_GENERATION,
	                                    .partitions = SESSIONS,
	                                    .process_id = 1,
	                                    .bytes_per_s = RATE,
	                                    .clock = &w->clock.base,
	                                    .stepped = true};
	w->sender = snapshot_sender_create(&o, &err);
	const int64_t begun = w->now_ns;
	for (uint32_t i = 0; i < SESSIONS; i++) {
		p[i] = wide_partition(w, i, SESSIONS);
		const struct snapshot_send_options begin = {
		    .partition = p[i], .owner = task_queue_executor(w->loop), .epoch = 1, .ended = count_end, .arg = &c[i]};
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
	world_destroy(w);
}

/* --- A sender with its own thread */

struct posted {
	struct world *w;
	struct message *frame; /* NULL: the end of the stream */
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
	const struct callback_executor run_on = task_queue_executor(w->loop);
	struct posted *x = malloc(sizeof *x);
	*x = (struct posted){.w = w, .frame = frame};
	callback_executor_post(&run_on, arrive, x);
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

/* The sender's thread runs beside the partition's. At times the primary steps down, or the server
 * stops. */
static void a_sender_has_a_thread(void **state)
{
	(void)state;
	for (uint64_t seed = 61; seed <= 66; seed++) {
		struct world *w = world_create(seed, 0, 0);
		weir_error err = {0};
		steps(w, 200);
		struct snapshot_sender_options o = {
		    .generation = RECORDS_GENERATION, .partitions = 1, .process_id = seed, .clock = clock_system()};
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
			end_receiver_well(w);
		} else {
			end_receiver(w);
		}
		snapshot_sender_close(w->sender); /* this sender has no steps */
		snapshot_sender_destroy(w->sender);
		w->sender = NULL;
		world_destroy(w);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_connection_may_be_cut_at_every_frame),
	    cmocka_unit_test(only_frames_that_are_kept_are_sent_again),
	    cmocka_unit_test(a_sender_that_hears_nothing_gives_up),
	    cmocka_unit_test(a_primary_that_steps_down_sends_nothing_more),
	    cmocka_unit_test(one_snapshot_of_a_partition_at_a_time),
	    cmocka_unit_test(a_receiver_that_hung_up_gets_nothing_more),
	    cmocka_unit_test(a_receiver_with_everything_may_hang_up),
	    cmocka_unit_test(a_receiver_that_acknowledges_nothing_gets_one_window),
	    cmocka_unit_test(the_pace_is_kept),
	    cmocka_unit_test(sessions_share_the_pace),
	    cmocka_unit_test(a_sender_has_a_thread),
	};
	return cmocka_run_group_tests_name("snapshot_send", tests, NULL, NULL);
}
