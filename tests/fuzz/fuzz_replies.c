/* Servers' answers to a client that leases and seals a unit, and pulls, pushes, sets and scans
 * tables. Each operation ends, with a sentence if it failed, and pulled data lies within the
 * caller's rows.
 *
 * The server runs here. Its frames are complete; fuzz_frame.c tests damaged ones. The records in
 * them and the ledger's answers come from the input.
 *
 * Input: u8 (which answer of the ledger comes from the input. 0: none; 1: to leasing; 2: to
 * joining, after which the client asks nothing, as it would have to wait for the times in it), that
 * answer as u16 bytes and the message, then the servers' answers: 24 bytes (see put_answer), and
 * sections of 16 bytes and their streams. 255 alone: the servers' first answer comes after the
 * client gave up. */
#include "tests/fuzz/fuzz.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/key_partition.h"
#include "common/base/little_endian.h"
#include "tests/unit/proto/pieces.h"
#include "tests/unit/worker/client/stub_job.h"
#include "worker/client/client.h"

enum { PARTITIONS = 2, ROWS_TABLE = 1, DENSE_TABLE = 2, WIDTH = 4, ELEMENTS = 300, KEYS = 5 };
#define ANSWER_BYTES  24u
#define SECTION_BYTES 16u
#define SECTIONS_MAX  3u
#define ADDRESS       "memory:fuzz"
#define PATIENCE_MS   10u /* below one retry pause: nothing is retried */
#define GUARD         0x5eu
#define LATE          0xffu /* goes into SAYS */

/* --- The input: the server's thread reads it, one call or record after another */

static struct {
	pthread_mutex_t lock;
	pthread_cond_t given_up; /* late: the client gave up */
	const uint8_t *data;
	size_t left;
	enum { NOTHING, LEASE, JOIN, SAYS } said; /* answers of the ledger that the input gave */
	bool late;
} input = {.lock = PTHREAD_MUTEX_INITIALIZER, .given_up = PTHREAD_COND_INITIALIZER};

static const uint8_t *take(size_t n)
{
	const uint8_t *at = input.data;
	if (n > input.left)
		return NULL;
	input.data += n;
	input.left -= n;
	return at;
}

/* --- The server */

static weir_table_spec spec_of(uint32_t id)
{
	static const weir_init_segment zero[] = {{.elements = WIDTH}, {.elements = ELEMENTS}};
	weir_table_spec s = {.name = "rows",
	                     .kind = WEIR_EMBEDDING,
	                     .width = WIDTH,
	                     .optimizer = {.kind = WEIR_OPT_SGD, .lr = 1},
	                     .pull = {.codec = WEIR_CODEC_FP32},
	                     .segments_count = 1,
	                     .segments = zero};
	if (id == DENSE_TABLE) {
		strcpy(s.name, "dense");
		s.kind = WEIR_DENSE;
		s.width = 0;
		s.elements = ELEMENTS;
		s.pull.codec = WEIR_CODEC_BF16;
		s.segments = zero + 1;
	}
	return s;
}

static struct message *join_reply(void)
{
	const weir_table_spec specs[] = {spec_of(ROWS_TABLE), spec_of(DENSE_TABLE)};
	return stub_join_reply(&(struct stub_job){
	    .address = ADDRESS, .partitions = PARTITIONS, .patience_ms = PATIENCE_MS, .specs = specs, .specs_count = 2});
}

/* NULL: the input is used up. */
static struct message *next_message(void)
{
	const uint8_t *n = take(2), *bytes = n ? take(get16(n)) : NULL;
	return bytes ? pieces_of(bytes, get16(n), (size_t)get16(n) + 1) : NULL;
}

/* Writes the input's next answer to r; false: the input is used up. */
static bool put_answer(struct record_writer *w, const struct record *r)
{
	const uint8_t *h = take(ANSWER_BYTES);
	if (!h)
		return false;
	record_writer_begin(w, &(struct record){.kind = (uint8_t)(r->kind + 1),
	                                        .partition = r->partition,
	                                        .request_id = r->request_id,
	                                        .part = h[2],
	                                        .batch = h[3],
	                                        .words = {.status = h[0], .c = get32(h + 4), .a = get64(h + 8), .b = get64(h + 16)}});
	for (uint32_t i = 0; i < h[1] % (SECTIONS_MAX + 1); i++) {
		const uint8_t *s = take(SECTION_BYTES), *index = s ? take(get16(s + 12)) : NULL,
		              *data = index ? take(get16(s + 14)) : NULL;
		const struct section section = {.table = s ? get16(s) : 0,
		                                .codec = s ? s[2] : 0,
		                                .index_codec = s ? s[3] : 0,
		                                .rows = s ? get16(s + 4) : 0,
		                                .width = s ? get16(s + 6) : 0,
		                                .aux = s ? get32(s + 8) : 0,
		                                .index_bytes = s ? get16(s + 12) : 0,
		                                .data_bytes = s ? get16(s + 14) : 0};
		if (!data)
			break;
		(void)record_writer_add(w, &section, index, data, false);
	}
	return true;
}

/* Whether a reader accepts every record. */
static bool is_whole(const struct message *frame)
{
	struct cursor c = cursor_at(frame), body;
	struct frame_header h;
	struct record r;
	weir_status status = frame_open(&c, &h, NULL);
	for (uint32_t i = 0; !status && i < h.records; i++)
		status = frame_next_record(&c, true, &r, &body, NULL);
	return status == WEIR_OK;
}

/* NULL: the input is used up. Acknowledgements need no input. */
static struct message *answer_record(const struct record *r)
{
	struct record_writer *w = record_writer_create();
	struct message *m = NULL;
	assert(w);
	if (r->kind == RECORD_RESUME)
		record_writer_begin(
		    w, &(struct record){.kind = RECORD_RESUME_REPLY, .partition = r->partition, .request_id = r->request_id});
	if (r->kind == RECORD_RESUME || put_answer(w, r)) {
		const weir_status status = record_writer_end(w);
		m = status ? NULL : record_writer_finish(w, stub_uuid, 1, NULL, NULL);
		if (m && !is_whole(m)) {
			message_release(m);
			m = NULL;
		}
	}
	record_writer_destroy(w);
	return m;
}

static void on_message(void *arg, struct rpc_stream *stream, struct message *m)
{
	struct cursor c, body;
	struct frame_header h;
	struct record r;
	weir_status status = wire_unwrap_frame(m, &c, NULL);
	(void)arg;
	if (!status)
		status = frame_open(&c, &h, NULL);
	assert(status == WEIR_OK);
	pthread_mutex_lock(&input.lock);
	while (input.late)
		pthread_cond_wait(&input.given_up, &input.lock);
	for (uint32_t i = 0; i < h.records; i++) {
		status = frame_next_record(&c, true, &r, &body, NULL);
		assert(status == WEIR_OK);
		struct message *answer = answer_record(&r);
		if (!answer) {
			rpc_stream_cancel(stream, WEIR_E_GENERATION, "no answer is left");
			break;
		}
		(void)rpc_stream_send(stream, wire_wrap_frame(answer));
	}
	pthread_mutex_unlock(&input.lock);
}

static void on_closed(void *arg, struct rpc_stream *stream, weir_status status, const char *text)
{
	(void)arg, (void)stream, (void)status, (void)text;
}

static const struct rpc_stream_handler *on_open(void *ctx, struct rpc_stream *stream, enum rpc_method method, void **arg)
{
	static const struct rpc_stream_handler handler = {.message = on_message, .closed = on_closed};
	(void)ctx, (void)stream, (void)method;
	*arg = NULL;
	return &handler;
}

static struct message *scan_reply(void)
{
	const struct record asked = {.kind = RECORD_SCAN_REPLY - 1};
	struct message *m = answer_record(&asked);
	return m ? wire_wrap_frame(m) : NULL;
}

static void on_call(void *ctx, struct rpc_call *call, enum rpc_method method, struct message *request)
{
	(void)ctx, (void)request;
	pthread_mutex_lock(&input.lock);
	const bool told = (input.said == JOIN && method == RPC_JOIN) || (input.said == LEASE && method == RPC_LEASE);
	struct message *m = method == RPC_SCAN    ? scan_reply()
	                    : told                ? next_message()
	                    : method == RPC_JOIN  ? join_reply()
	                    : method == RPC_LEASE ? stub_lease_reply(2)
	                    : method == RPC_MAP   ? NULL
	                                          : stub_ok();
	pthread_mutex_unlock(&input.lock);
	rpc_call_reply(call, m ? WEIR_OK : WEIR_E_GENERATION, m ? "" : "no answer is left", m);
}

/* One for all inputs. */
static struct rpc *network(void)
{
	static const struct rpc_service service = {.unary = on_call, .stream_open = on_open};
	static struct rpc *rpc;
	static struct rpc_loop *loop;
	static struct rpc_server *server;
	if (rpc)
		return rpc;
	rpc = rpc_memory_create(NULL);
	loop = rpc ? rpc_loop_create(rpc, "server", NULL) : NULL;
	const weir_status status = loop ? rpc_server_start(&server, rpc, ADDRESS, &loop, 1, &service, NULL, NULL) : WEIR_E_MEMORY;
	assert(status == WEIR_OK);
	(void)status;
	return rpc;
}

/* --- The client */

static void check(weir_status status, const weir_error *err)
{
	assert(status == WEIR_OK || err->text[0]);
	(void)status, (void)err;
}

static void pull(weir_client *c)
{
	static const uint64_t keys[KEYS] = {1, 2, 3, 50, 1000};
	struct {
		float rows[KEYS * WIDTH], dense[ELEMENTS];
		uint8_t guard[64];
	} *out = malloc(sizeof *out);
	assert(out);
	memset(out->guard, GUARD, sizeof out->guard);
	const weir_pull_item items[] = {{.table = ROWS_TABLE, .keys = keys, .rows = KEYS, .values = out->rows},
	                                {.table = DENSE_TABLE, .values = out->dense}};
	weir_ticket ticket;
	weir_error err = {0};
	weir_status status = weir_pull(c, NULL, items, 2, NULL, NULL, &ticket, &err);
	if (!status)
		status = weir_wait(c, ticket, -1, &err);
	check(status, &err);
	for (size_t i = 0; i < sizeof out->guard; i++)
		assert(out->guard[i] == GUARD);
	free(out);
}

static void push(weir_client *c, const weir_unit *u)
{
	static const uint64_t keys[KEYS] = {1, 2, 3, 50, 1000};
	static const float values[ELEMENTS] = {1};
	const weir_push_item items[] = {{.table = ROWS_TABLE, .keys = keys, .rows = KEYS, .values = values},
	                                {.table = DENSE_TABLE, .values = values}};
	const weir_batch batch = {.pass = u->pass, .unit = u->unit, .attempt = u->attempt, .batch = u->watermark};
	weir_ticket ticket;
	weir_error err = {0};
	weir_status status = weir_unit_begin(c, u, u->watermark + 1, &err);
	if (!status)
		status = weir_push(c, &batch, items, 2, &(weir_push_options){.copy = 1}, NULL, NULL, &ticket, &err);
	if (!status)
		status = weir_wait(c, ticket, -1, &err);
	check(status, &err);
	err = (weir_error){0};
	status = weir_assign(c, ROWS_TABLE, keys, KEYS, values, &err);
	check(status, &err);
}

static int look_at(void *arg, uint64_t key, const float *values, size_t elements)
{
	volatile uint32_t *sum = arg;
	assert(elements == WIDTH || (key == 0 && elements == ELEMENTS));
	for (size_t i = 0; i < elements; i++)
		*sum += values[i] > 0;
	return 0;
}

/* Releases the late server. */
static void stop_waiting(void)
{
	pthread_mutex_lock(&input.lock);
	input.late = false;
	pthread_cond_signal(&input.given_up);
	pthread_mutex_unlock(&input.lock);
}

static void use(weir_client *c)
{
	weir_unit u = {0};
	weir_error err = {0};
	uint32_t sum = 0;
	weir_status status = weir_unit_lease(c, &u, 1, &err);
	check(status, &err);
	pull(c);
	stop_waiting();
	pull(c);
	if (!status && u.state == WEIR_UNIT_LEASED && u.watermark < WEIR_UNIT_BATCHES_MAX)
		push(c, &u);
	for (uint32_t table = ROWS_TABLE; table <= DENSE_TABLE; table++) {
		err = (weir_error){0};
		status = weir_scan(c, table, 0, look_at, &sum, &err);
		check(status, &err);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const weir_options o = {.ledger = ADDRESS, .name = "fuzz", .role = WEIR_TRAINER, .dataset_units = 1, .connect_timeout_ms = 1};
	weir_client *c = NULL;
	weir_error err = {0};
	if (size < 1)
		return 0;
	struct rpc *rpc = network();
	pthread_mutex_lock(&input.lock);
	input.data = data + 1;
	input.left = size - 1;
	input.said = data[0] % SAYS;
	input.late = data[0] == LATE && size == 1;
	pthread_mutex_unlock(&input.lock);
	const weir_status status = client_open(&c, &o, rpc, &err);
	check(status, &err);
	if (!status) {
		if (data[0] % SAYS != JOIN)
			use(c);
		weir_abandon(c);
	}
	pthread_mutex_lock(&input.lock);
	input.left = 0;
	pthread_mutex_unlock(&input.lock);
	return 0;
}

/* --- Seeds: answers to all operations */

/* A seed with seals that are not stable, then pushes of a later epoch, which no answer to RESUME
 * confirms. */
#define UNSTABLE 6u

struct out {
	uint8_t data[16384];
	size_t n;
};

static void put(struct out *o, const void *data, size_t n)
{
	assert(o->n + n <= sizeof o->data);
	memcpy(o->data + o->n, data, n);
	o->n += n;
}

static void put_header(struct out *o, uint8_t sections, uint32_t c, uint64_t a)
{
	uint8_t h[ANSWER_BYTES] = {0};
	h[1] = sections;
	put32(h + 4, c);
	put64(h + 8, a);
	put64(h + 16, a);
	put(o, h, sizeof h);
}

static void put_section(struct out *o, uint16_t table, uint8_t codec, uint32_t rows, uint32_t width, const void *index,
                        uint32_t index_bytes, const void *data, uint32_t data_bytes)
{
	uint8_t s[SECTION_BYTES] = {0};
	put16(s, table);
	s[2] = codec;
	s[3] = index ? INDEX_RAW : INDEX_ALL;
	put16(s + 4, (uint16_t)rows);
	put16(s + 6, (uint16_t)width);
	put16(s + 12, (uint16_t)index_bytes);
	put16(s + 14, (uint16_t)data_bytes);
	put(o, s, sizeof s);
	if (index)
		put(o, index, index_bytes);
	put(o, data, data_bytes);
}

/* A partition's rows, counted by their placement, and its chunk of the dense table, as a refresh or
 * as differences. */
static void put_pulled(struct out *o, uint32_t partition, bool differences)
{
	static const uint64_t keys[KEYS] = {1, 2, 3, 50, 1000};
	static const float values[ELEMENTS] = {1, 2, 3};
	uint32_t rows = 0;
	for (uint32_t k = 0; k < KEYS; k++)
		rows += placement_embedding(ROWS_TABLE, keys[k], PARTITIONS) == partition;
	uint8_t answer[DIFFERENCES_HEADER_BYTES + ELEMENTS * sizeof *values] = {0};
	const uint32_t chunks = placement_dense(DENSE_TABLE, 0, PARTITIONS) == partition;
	put64(answer, 3);
	put32(answer + 8, ELEMENTS * (uint32_t)sizeof *values);
	put_header(o, (uint8_t)((rows > 0) + (chunks > 0)), 1, 5);
	if (rows)
		put_section(o, ROWS_TABLE, WEIR_CODEC_FP32, rows, WIDTH, NULL, 0, values, rows * WIDTH * (uint32_t)sizeof *values);
	if (chunks && differences)
		put_section(o, DENSE_TABLE, WEIR_CODEC_BF16, chunks, WEIR_CHUNK, NULL, 0, answer,
		            DIFFERENCES_HEADER_BYTES + ELEMENTS * (uint32_t)sizeof *values);
	else if (chunks)
		put_section(o, DENSE_TABLE, WEIR_CODEC_FP32, chunks, WEIR_CHUNK, NULL, 0, values, ELEMENTS * (uint32_t)sizeof *values);
}

static void put_ledger(struct out *o, struct message *m)
{
	uint8_t n[2], *bytes = pieces_join(m);
	put16(n, (uint16_t)m->bytes);
	put(o, n, sizeof n);
	put(o, bytes, m->bytes);
	free(bytes);
	message_release(m);
}

static void put_answers(struct out *o, uint32_t i)
{
	static const uint8_t bitmap[2] = {0};
	static const float values[ELEMENTS] = {4, 5, 6};
	/* The first element of the last chunk would be number 2^64. */
	const uint64_t keys[] = {1, i == 3 ? (uint64_t)1 << 48 : 0};
	const bool unstable = i == UNSTABLE;
	if (i % SAYS)
		put_ledger(o, i % SAYS == LEASE ? stub_lease_reply(2) : join_reply());
	for (uint32_t p = 0; p < PARTITIONS; p++) { /* answers to seals */
		put_header(o, 1, 16, 2);
		if (unstable)
			put64(o->data + o->n - sizeof(uint64_t), 0);
		put_section(o, 0, WEIR_CODEC_FP32, 0, 0, NULL, 0, bitmap, sizeof bitmap);
	}
	for (uint32_t k = 0; k < 2 * PARTITIONS; k++)
		put_pulled(o, k % PARTITIONS, i < 2);
	for (uint32_t k = 0; k < 2 * PARTITIONS; k++) { /* answers to pushes and sets */
		put_header(o, 0, 1, 6 + k);
		if (unstable && k >= PARTITIONS)
			o->data[o->n - ANSWER_BYTES] = WEIR_E_MOVED;
	}
	/* Answers to scans, the last page of each table. */
	for (uint32_t k = 0; k < 2 * PARTITIONS; k++) {
		put_header(o, 1, 0, 0);
		if (k < PARTITIONS)
			put_section(o, ROWS_TABLE, WEIR_CODEC_FP32, 1, WIDTH, keys, sizeof *keys, values, WIDTH * sizeof *values);
		else
			put_section(o, DENSE_TABLE, WEIR_CODEC_FP32, 1, WEIR_CHUNK, keys + 1, sizeof *keys, values, sizeof values);
	}
}

uint8_t *fuzz_seed(uint32_t i, size_t *size)
{
	static struct out o;
	if (i > UNSTABLE)
		return NULL;
	o.n = 0;
	put(&o, &(uint8_t){i == 5 ? LATE : i == UNSTABLE ? NOTHING : (uint8_t)(i % 4 % SAYS)}, 1);
	if (i != 5)
		put_answers(&o, i < 5 ? i % 4 : i);
	if (i == 4)
		o.data[1] = WEIR_E_BUSY; /* to a seal, which is not retried */
	uint8_t *seed = malloc(o.n);
	assert(seed);
	memcpy(seed, o.data, o.n);
	*size = o.n;
	return seed;
}
