/* A resent push has the same bytes with any residuals. The test is the server: it accepts some
 * records and disconnects on others. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/prng.h"
#include "tests/cmocka_check.h"
#include "tests/rounds.h"
#include "tests/unit/worker/client/stub_job.h"
#include "worker/client/client.h"

enum { PARTITIONS = 3, TABLES = 6, WIDTH = 8, KEYS = 300, ELEMENTS = 2 * WEIR_CHUNK + 5000 };
enum { HANG_UPS = 160, BATCHES = 40, AHEAD = 6, SEEN_MAX = 1u << 14, HANG_UP_ONE_IN = 3, PATIENCE_MS = 60000 };

static const weir_compression codings[TABLES] = {
    {.codec = WEIR_CODEC_INT8, .rows = 0.5f},
    {.codec = WEIR_CODEC_TOPK, .values = WEIR_VALUES_LOG4, .density = 0.01f, .feedback = true},
    {.codec = WEIR_CODEC_TOPK, .values = WEIR_VALUES_INT8, .density = 0.02f, .momentum = 0.9f, .warmup = 10, .feedback = true},
    {.codec = WEIR_CODEC_INT4, .book = WEIR_BOOK_SEGMENTED, .feedback = true},
    {.codec = WEIR_CODEC_SIGN, .feedback = true},
    {.codec = WEIR_CODEC_FP8_E5M2, .lz4 = WEIR_LZ4_AUTO, .feedback = true},
};

/* A record each time that it arrived; only the server's thread writes. */
struct seen {
	uint16_t partition, part;
	uint32_t batch, times, bytes, crc;
};

struct world {
	pthread_mutex_t lock;
	struct rpc *rpc;
	struct rpc_loop *loop;
	struct rpc_server *server;
	struct prng random;
	weir_table_spec specs[TABLES];
	weir_init_segment segments[TABLES];
	struct seen seen[SEEN_MAX];
	uint32_t count, hang_ups, again, differ, wrong;
	uint64_t index[PARTITIONS];
};

/* --- The server */

static void remember(struct world *w, const struct record *r, const struct cursor *whole)
{
	const uint32_t crc = cursor_crc32c(whole, r->bytes, 0);
	uint32_t i = 0;
	while (i < w->count && !(w->seen[i].partition == r->partition && w->seen[i].batch == r->batch && w->seen[i].part == r->part))
		i++;
	struct seen *s = &w->seen[i];
	if (i == SEEN_MAX)
		w->wrong++;
	else if (i < w->count)
		w->differ += s->crc != crc || s->bytes != r->bytes;
	else
		*s = (struct seen){.partition = r->partition, .part = r->part, .batch = r->batch, .bytes = r->bytes, .crc = crc};
	w->again += i < w->count;
	w->count += i == w->count && i < SEEN_MAX;
}

static void answer(struct world *w, struct rpc_stream *stream, const struct record *r)
{
	struct record_writer *writer = record_writer_create();
	const uint64_t index = r->kind == RECORD_PUSH ? ++w->index[r->partition] : w->index[r->partition];
	record_writer_begin(writer, &(struct record){.kind = (uint8_t)(r->kind + 1),
	                                             .partition = r->partition,
	                                             .request_id = r->request_id,
	                                             .part = r->part,
	                                             .batch = r->batch,
	                                             .reply = {.applied = index, .stable = index, .epoch = 1}});
	struct message *m = record_writer_end(writer) ? NULL : record_writer_finish(writer, stub_uuid, 1, NULL, NULL);
	w->wrong += !m || rpc_stream_send(stream, wire_wrap_frame(m)) != WEIR_OK;
	record_writer_destroy(writer);
}

/* Disconnects on a record; records behind it are not read. */
static bool hangs_up(struct world *w, const struct record *r)
{
	if (r->kind != RECORD_PUSH || w->hang_ups >= rounds(HANG_UPS) || prng_below(&w->random, HANG_UP_ONE_IN))
		return false;
	w->hang_ups++;
	return true;
}

static void on_message(void *arg, struct rpc_stream *stream, struct message *m)
{
	struct world *w = arg;
	struct cursor c, whole, body;
	struct frame_header h = {0};
	struct record r;
	weir_status status = wire_unwrap_frame(m, &c, NULL);
	pthread_mutex_lock(&w->lock);
	if (status || frame_open(&c, &h, NULL) != WEIR_OK)
		w->wrong++;
	for (uint32_t i = 0; i < h.records; i++) {
		whole = c;
		if (frame_next_record(&c, true, &r, &body, NULL) != WEIR_OK || r.partition >= PARTITIONS) {
			w->wrong++;
			break;
		}
		if (r.kind == RECORD_PUSH)
			remember(w, &r, &whole);
		if (hangs_up(w, &r)) {
			rpc_stream_cancel(stream, WEIR_E_UNAVAILABLE, "the server hangs up");
			break;
		}
		answer(w, stream, &r);
	}
	pthread_mutex_unlock(&w->lock);
}

static void on_closed(void *arg, struct rpc_stream *stream, weir_status status, const char *text)
{
	(void)arg, (void)stream, (void)status, (void)text;
}

static const struct rpc_stream_handler *on_open(void *ctx, struct rpc_stream *stream, enum rpc_method method, void **arg)
{
	static const struct rpc_stream_handler handler = {.message = on_message, .closed = on_closed};
	(void)stream, (void)method;
	*arg = ctx;
	return &handler;
}

static void on_call(void *ctx, struct rpc_call *call, enum rpc_method method, struct message *request)
{
	struct world *w = ctx;
	(void)request;
	const struct stub_job job = {
	    .address = "memory:0", .partitions = PARTITIONS, .patience_ms = PATIENCE_MS, .specs = w->specs, .specs_count = TABLES};
	struct message *m = method == RPC_JOIN    ? stub_join_reply(&job)
	                    : method == RPC_LEASE ? stub_lease_reply(1)
	                    : method == RPC_MAP   ? NULL
	                                          : stub_ok();
	rpc_call_reply(call, m ? WEIR_OK : WEIR_E_UNAVAILABLE, m ? "" : "there is no other map", m);
}

static void world_open(struct world *w)
{
	static const struct rpc_service service = {.unary = on_call, .stream_open = on_open};
	weir_error err = {0};
	*w = (struct world){.lock = PTHREAD_MUTEX_INITIALIZER, .rpc = rpc_memory_create(NULL)};
	prng_seed(&w->random, 3);
	for (uint32_t t = 0; t < TABLES; t++) {
		const bool rows = t == 0;
		w->segments[t] = (weir_init_segment){.elements = rows ? WIDTH : ELEMENTS};
		w->specs[t] = (weir_table_spec){.kind = rows ? WEIR_EMBEDDING : WEIR_DENSE,
		                                .width = rows ? WIDTH : 0,
		                                .elements = rows ? 0 : ELEMENTS,
		                                .optimizer = {.kind = WEIR_OPT_SGD, .lr = 1},
		                                .push = codings[t],
		                                .segments_count = 1,
		                                .segments = &w->segments[t]};
		snprintf(w->specs[t].name, sizeof w->specs[t].name, "table-%u", t);
	}
	w->loop = rpc_loop_create(w->rpc, "server", &err);
	assert_non_null(w->loop);
	CHECK_OK(rpc_server_start(&w->server, w->rpc, "memory:0", &w->loop, 1, &service, w, &err), err);
}

/* --- The worker */

/* Normal numbers for some tables, mostly zeros for others. */
static void fill(struct prng *random, float *x, size_t n, bool sparse)
{
	for (size_t i = 0; i < n; i++)
		x[i] = !sparse || prng_below(random, 50) == 0 ? prng_normal(random) : 0;
}

static void push_all(weir_client *c, struct prng *random)
{
	static float gradients[TABLES][ELEMENTS];
	static uint64_t keys[KEYS];
	weir_ticket tickets[AHEAD] = {0};
	weir_unit u = {0};
	weir_error err = {0};
	CHECK_OK(weir_unit_lease(c, &u, -1, &err), err);
	assert_int_equal(u.state, WEIR_UNIT_LEASED);
	CHECK_OK(weir_unit_begin(c, &u, BATCHES, &err), err);
	for (uint32_t batch = 0; batch < BATCHES; batch++) {
		weir_push_item items[TABLES];
		for (uint32_t k = 0; k < KEYS; k++)
			keys[k] = 10 * k + prng_below(random, 10);
		for (uint32_t t = 0; t < TABLES; t++) {
			fill(random, gradients[t], t == 0 ? (size_t)KEYS * WIDTH : ELEMENTS, codings[t].lz4 != WEIR_LZ4_OFF);
			items[t] =
			    (weir_push_item){.table = 1 + t, .keys = t == 0 ? keys : NULL, .rows = t == 0 ? KEYS : 0, .values = gradients[t]};
		}
		const weir_batch id = {.pass = u.pass, .unit = u.unit, .attempt = u.attempt, .batch = batch};
		weir_ticket *ticket = &tickets[batch % AHEAD];
		if (*ticket)
			CHECK_OK(weir_wait(c, *ticket, -1, &err), err);
		CHECK_OK(weir_push(c, &id, items, TABLES, &(weir_push_options){.copy = 1}, NULL, NULL, ticket, &err), err);
	}
	for (uint32_t i = 0; i < AHEAD; i++)
		CHECK_OK(weir_wait(c, tickets[(BATCHES + i) % AHEAD], -1, &err), err);
}

static void a_resent_push_has_the_same_bytes(void **state)
{
	(void)state;
	static struct world w;
	weir_error err = {0};
	weir_client *c = NULL;
	struct prng random;
	prng_seed(&random, 4);
	world_open(&w);
	const weir_options o = {.ledger = "memory:0", .name = "worker", .role = WEIR_TRAINER, .dataset_units = 1};
	CHECK_OK(client_open(&c, &o, w.rpc, &err), err);
	push_all(c, &random);
	weir_abandon(c);
	rpc_server_stop(w.server, 0);
	rpc_loop_destroy(w.loop);
	rpc_destroy(w.rpc);
	print_message("%u records of %u batches; %u hang-ups, %u times one was sent again\n", w.count, BATCHES, w.hang_ups, w.again);
	assert_int_equal(w.wrong, 0);
	assert_int_equal(w.differ, 0);
	assert_true(w.hang_ups >= rounds(HANG_UPS) / 2 && w.again >= w.hang_ups);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_resent_push_has_the_same_bytes),
	};
	return cmocka_run_group_tests_name("resent", tests, NULL, NULL);
}
