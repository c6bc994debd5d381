/* A snapshot over streams whose connections break again and again. Streams that ask for unknown
 * sessions. */
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/limits.h"
#include "proto/wire/wire.h"
#include "server/snapshot/snapshot_stream.h"
#include "tests/cmocka_check.h"
#include "tests/unit/server/records.h"

#define CHUNKS     40u /* 10 MiB, more than a window */
#define CHUNK_TICK 10u /* ms */

enum { TABLE = 1 };

struct world {
	struct rpc *rpc;
	struct rpc_loop *loops[2]; /* the primary's and the learner's */
	struct rpc_server *server;
	struct rpc_channel *channel;
	struct partition *from, *into;
	struct log *log;
	struct snapshot_sender *sender;
	struct snapshot_service service;
	uint64_t session;
	struct snapshot_receiver *receiver;
	struct snapshot_fetch *fetch;
	struct rpc_stream *stream;    /* the last one opened; of the primary's loop */
	_Atomic uint32_t streams;     /* opened in all */
	uint32_t cut_streams;         /* number of streams at the last cut; of the learner's loop */
	uint64_t cut_every, cut_last; /* number of frames; of the learner's loop */
	bool falls_silent,
	    /* Of the learner's loop. It says nothing before the cut, for longer than the primary's
	     * patience. */
	    is_silent;
	struct clock clock;       /* the learner's */
	_Atomic int64_t ahead_ns; /* ahead of the system's clock */
	pthread_mutex_t lock;
	pthread_cond_t changed;
	/* Guarded by lock. */
	uint32_t running; /* streams of the service */
	bool done, sent, received, failed;
	weir_status sent_status, received_status, failed_status;
	char text[WEIR_ERROR_TEXT_BYTES];
};

static int64_t learner_now_ns(const struct clock *c)
{
	struct world *w = (struct world *)((uintptr_t)c - offsetof(struct world, clock));
	return clock_ns(clock_system()) + atomic_load(&w->ahead_ns);
}
static const struct clock_ops learner_clock = {.monotonic_ns = learner_now_ns, .wall_ns = learner_now_ns};

/* --- Work on a loop that the test waits for */

struct errand {
	struct world *w;
	void (*run)(struct world *w);
	bool done;
};

static void run_errand(void *arg)
{
	struct errand *e = arg;
	struct world *w = e->w;
	e->run(w);
	pthread_mutex_lock(&w->lock);
	e->done = true;
	pthread_cond_broadcast(&w->changed);
	pthread_mutex_unlock(&w->lock);
}

static void run_on(struct world *w, uint32_t loop, void (*run)(struct world *w))
{
	struct errand e = {.w = w, .run = run};
	rpc_loop_post(w->loops[loop], run_errand, &e);
	pthread_mutex_lock(&w->lock);
	while (!e.done)
		pthread_cond_wait(&w->changed, &w->lock);
	pthread_mutex_unlock(&w->lock);
}

static void note(struct world *w, bool *flag, weir_status *as, weir_status status, const char *text)
{
	pthread_mutex_lock(&w->lock);
	*flag = true;
	*as = status;
	if (status)
		strncpy(w->text, text, sizeof w->text - 1);
	pthread_cond_broadcast(&w->changed);
	pthread_mutex_unlock(&w->lock);
}

static void wait_for(struct world *w, const bool *flag)
{
	pthread_mutex_lock(&w->lock);
	while (!*flag)
		pthread_cond_wait(&w->changed, &w->lock);
	pthread_mutex_unlock(&w->lock);
}

/* --- The primary */

static void on_sent(void *arg, weir_status status, const char *text)
{
	struct world *w = arg;
	note(w, &w->sent, &w->sent_status, status, text);
}

static void enter(void *arg)
{
	struct world *w = arg;
	pthread_mutex_lock(&w->lock);
	w->running++;
	pthread_mutex_unlock(&w->lock);
}

static void leave(void *arg)
{
	struct world *w = arg;
	pthread_mutex_lock(&w->lock);
	w->running--;
	pthread_cond_broadcast(&w->changed);
	pthread_mutex_unlock(&w->lock);
}

static const struct rpc_stream_handler *on_open(void *ctx, struct rpc_stream *stream, enum rpc_method method, void **arg)
{
	struct world *w = ctx;
	assert_int_equal(method, RPC_SNAPSHOT);
	w->stream = stream;
	atomic_fetch_add(&w->streams, 1);
	return snapshot_stream_open(&w->service, stream, arg);
}

static struct partition *new_partition(struct log *log, bool tables)
{
	const weir_init_segment zeros = {.elements = CHUNKS * WEIR_CHUNK, .kind = WEIR_INIT_ZERO};
	const weir_table_spec spec = {.name = "wide",
	                              .kind = WEIR_DENSE,
	                              .elements = zeros.elements,
	                              .optimizer = {.kind = WEIR_OPT_SGD, .lr = 1},
	                              .segments_count = 1,
	                              .segments = &zeros};
	const struct partition_options o = {.partitions = 1, .generation = RECORDS_GENERATION, .log = log, .clock = clock_system()};
	struct partition *p = partition_create(&o, NULL);
	assert_non_null(p);
	if (tables)
		assert_int_equal(partition_add_table(p, TABLE, &spec, NULL), WEIR_OK);
	return p;
}

static void begin_primary(struct world *w)
{
	weir_error err = {0};
	const struct snapshot_send_options o = {
	    .partition = w->from, .owner = rpc_loop_executor(w->loops[0]), .epoch = 1, .ended = on_sent, .arg = w};
	for (uint64_t chunk = 0; chunk < CHUNKS; chunk++) {
		float *row;
		struct row_meta *meta;
		assert_int_equal(store_upsert(store_table(partition_store(w->from), TABLE), &chunk, 1, &row, &meta), WEIR_OK);
		row[0] = (float)chunk;
	}
	CHECK_OK(snapshot_send_begin(w->sender, &o, &w->session, &err), err);
}

static void speak(void *arg)
{
	struct world *w = arg;
	w->is_silent = false;
}

static void cut_stream(void *arg)
{
	struct world *w = arg;
	if (w->falls_silent)
		atomic_fetch_add(&w->ahead_ns, (WEIR_SNAPSHOT_PATIENCE_MS + 1) * 1000000ll);
	rpc_stream_cancel(w->stream, WEIR_E_UNAVAILABLE, "cut off");
	rpc_loop_post(w->loops[1], speak, w);
}

/* --- The learner */

static bool wanted(void *arg, uint64_t epoch, uint64_t index)
{
	(void)arg, (void)epoch, (void)index;
	return true;
}

static void on_progress(void *arg, uint64_t next)
{
	struct world *w = arg;
	const uint32_t streams = atomic_load(&w->streams);
	if (w->cut_every && next >= w->cut_last + w->cut_every && streams > w->cut_streams) {
		w->cut_last = next;
		w->cut_streams = streams;
		w->is_silent = w->falls_silent;
		rpc_loop_post(w->loops[0], cut_stream, w);
	}
	if (w->fetch && !w->is_silent)
		snapshot_fetch_tick(w->fetch);
}

/* Reports to the primary until it has ended, because the stream may just be cut. */
static void on_received(void *arg, weir_status status, const char *text)
{
	struct world *w = arg;
	if (status) {
		snapshot_fetch_stop(w->fetch);
		w->fetch = NULL;
	}
	note(w, &w->received, &w->received_status, status, text);
}

static void on_fetch_failed(void *arg, weir_status status, const char *text)
{
	struct world *w = arg;
	w->fetch = NULL;
	note(w, &w->failed, &w->failed_status, status, text);
}

static void tick(void *arg)
{
	struct world *w = arg;
	if (!w->fetch)
		return;
	if (!w->is_silent)
		snapshot_fetch_tick(w->fetch);
	rpc_loop_after(w->loops[1], CHUNK_TICK, tick, w);
}

static void begin_learner(struct world *w)
{
	struct snapshot_receiver_options r = {.generation = RECORDS_GENERATION,
	                                      .partitions = 1,
	                                      .into = w->into,
	                                      .log = w->log,
	                                      .run_on = rpc_loop_executor(w->loops[1]),
	                                      .wanted = wanted,
	                                      .received = on_progress,
	                                      .ended = on_received,
	                                      .arg = w};
	struct snapshot_fetch_options f = {.channel = w->channel,
	                                   .generation = RECORDS_GENERATION,
	                                   .session = w->session,
	                                   .clock = &w->clock,
	                                   .failed = on_fetch_failed,
	                                   .arg = w};
	memcpy(r.uuid, records_uuid, sizeof r.uuid);
	memcpy(f.uuid, records_uuid, sizeof f.uuid);
	f.receiver = w->receiver = snapshot_receiver_create(&r);
	w->fetch = snapshot_fetch_start(&f);
	tick(w);
}

static void end_learner(struct world *w)
{
	snapshot_fetch_stop(w->fetch);
	w->fetch = NULL;
	snapshot_receiver_destroy(w->receiver);
}

/* window_bytes 0: the default. */
static void open_world_with(struct world *w, size_t window_bytes)
{
	static const struct rpc_service handlers = {.stream_open = on_open};
	weir_error err = {0};
	*w = (struct world){.rpc = rpc_memory_create(NULL), .clock = {&learner_clock}};
	pthread_mutex_init(&w->lock, NULL);
	pthread_cond_init(&w->changed, NULL);
	for (uint32_t i = 0; i < 2; i++)
		w->loops[i] = rpc_loop_create(w->rpc, i ? "learner" : "primary", &err);
	struct snapshot_sender_options o = {.generation = RECORDS_GENERATION,
	                                    .partitions = 1,
	                                    .process_id = 5,
	                                    .window_bytes = window_bytes,
	                                    .clock = clock_system()};
	memcpy(o.uuid, records_uuid, sizeof o.uuid);
	w->sender = snapshot_sender_create(&o, &err);
	w->service = (struct snapshot_service){
	    .sender = w->sender, .generation = RECORDS_GENERATION, .enter = enter, .leave = leave, .arg = w};
	memcpy(w->service.uuid, records_uuid, sizeof w->service.uuid);
	CHECK_OK(rpc_server_start(&w->server, w->rpc, "memory:primary", w->loops, 1, &handlers, w, &err), err);
	CHECK_OK(rpc_channel_open(&w->channel, w->rpc, w->loops[1], "memory:primary", &err), err);
	w->from = new_partition(log_memory_create(), true);
	w->log = log_memory_create();
	w->into = new_partition(NULL, false);
	run_on(w, 0, begin_primary);
}

static void open_world(struct world *w)
{
	open_world_with(w, 0);
}

static void nothing(struct world *w)
{
	(void)w;
}

static void close_world(struct world *w)
{
	run_on(w, 1, end_learner);
	snapshot_sender_close(w->sender);
	wait_for(w, &w->sent);
	rpc_channel_close(w->channel);
	rpc_server_stop(w->server, 0);
	pthread_mutex_lock(&w->lock);
	while (w->running)
		pthread_cond_wait(&w->changed, &w->lock);
	pthread_mutex_unlock(&w->lock);
	run_on(w, 0, nothing);
	snapshot_sender_destroy(w->sender);
	partition_destroy(w->from);
	partition_destroy(w->into);
	if (!w->received || w->received_status)
		w->log->ops->destroy(w->log);
	for (uint32_t i = 0; i < 2; i++)
		rpc_loop_destroy(w->loops[i]);
	rpc_destroy(w->rpc);
	pthread_cond_destroy(&w->changed);
	pthread_mutex_destroy(&w->lock);
	free(w);
}

/* Cuts the stream after each cut_every frames. 0: never. */
static void send_all(uint64_t cut_every, bool falls_silent, uint32_t streams_least)
{
	struct world *w = malloc(sizeof *w);
	static float row[WEIR_CHUNK];
	/* One frame at a time, so that no frame comes during the silence. */
	open_world_with(w, falls_silent ? 1 : 0);
	w->cut_every = cut_every;
	w->falls_silent = falls_silent;
	run_on(w, 1, begin_learner);
	wait_for(w, &w->received);
	assert_int_equal(w->received_status, WEIR_OK);
	wait_for(w, &w->sent);
	assert_int_equal(w->sent_status, WEIR_OK);
	for (uint64_t chunk = 0; chunk < CHUNKS; chunk++) {
		store_read_chunk(store_table(partition_store(w->into), TABLE), chunk, row);
		assert_true(row[0] == (float)chunk);
	}
	assert_true(atomic_load(&w->streams) >= streams_least);
	close_world(w);
}

static void a_snapshot_crosses_a_stream(void **state)
{
	(void)state;
	send_all(0, false, 1);
}

static void it_goes_on_over_other_streams(void **state)
{
	(void)state;
	send_all(3, false, 3);
}

/* The learner was connected until now, so it has not been lost for long, although it sent
 * nothing. */
static void it_goes_on_after_a_silence(void **state)
{
	(void)state;
	send_all(3, true, 3);
}

static void a_session_that_is_over_is_told(void **state)
{
	(void)state;
	struct world *w = malloc(sizeof *w);
	open_world(w);
	w->session++;
	run_on(w, 1, begin_learner);
	wait_for(w, &w->failed);
	assert_int_equal(w->failed_status, WEIR_E_NOT_FOUND);
	CHECK_CONTAINS(w->text, "there is no snapshot session");
	close_world(w);
}

static void a_primary_that_steps_down_says_so(void **state)
{
	(void)state;
	struct world *w = malloc(sizeof *w);
	open_world(w);
	snapshot_send_abort(w->sender, 0, "another server is its primary");
	run_on(w, 1, begin_learner);
	wait_for(w, &w->failed);
	assert_true(w->failed_status == WEIR_E_CANCELLED || w->failed_status == WEIR_E_NOT_FOUND);
	close_world(w);
}

static void another_generation_is_refused(void **state)
{
	(void)state;
	struct world *w = malloc(sizeof *w);
	open_world(w);
	w->service.generation++;
	run_on(w, 1, begin_learner);
	wait_for(w, &w->failed);
	assert_int_equal(w->failed_status, WEIR_E_GENERATION);
	close_world(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_snapshot_crosses_a_stream),       cmocka_unit_test(it_goes_on_over_other_streams),
	    cmocka_unit_test(it_goes_on_after_a_silence),        cmocka_unit_test(a_session_that_is_over_is_told),
	    cmocka_unit_test(a_primary_that_steps_down_says_so), cmocka_unit_test(another_generation_is_refused),
	};
	return cmocka_run_group_tests_name("snapshot_stream", tests, NULL, NULL);
}
