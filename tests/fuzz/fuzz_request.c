/* Records of a client that a partition receives one after another: refused with a sentence or
 * executed, alike however the frame is cut. Two partitions with the same requests end up equal.
 *
 * Input: cut_input.h, with a frame. */
#include "tests/fuzz/fuzz.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "common/base/crc32c.h"
#include "common/base/little_endian.h"
#include "proto/frame/section_keys.h"
#include "server/partition/partition_state.h"
#include "tests/fuzz/cut_input.h"
#include "tests/unit/proto/pieces.h"

enum { ASYNC_ROWS = 1, SYNC_DENSE = 2, SYNC_ROWS = 3, ASYNC_DENSE = 4 };
#define WIDTH      4u
#define ELEMENTS   1100u
#define GENERATION 3u

static void repair(uint8_t *b, size_t n)
{
	if (n < FRAME_HEADER_BYTES)
		return;
	put64(b + 16, n - FRAME_HEADER_BYTES);
	put32(b + 12, 0);
	put32(b + 12, crc32c(0, b, FRAME_HEADER_BYTES));
	for (size_t at = FRAME_HEADER_BYTES, bytes; n - at >= RECORD_HEADER_BYTES; at += bytes) {
		bytes = get32(b + at);
		if (bytes < RECORD_HEADER_BYTES || bytes > n - at)
			return;
		put32(b + at + 4, 0);
		put32(b + at + 4, crc32c(0, b + at, bytes));
	}
}

static struct partition *new_partition(void)
{
	static const struct {
		const char *name;
		weir_table_kind kind;
		weir_mode_kind mode;
		weir_codec pull;
	} tables[] = {{"async_rows", WEIR_EMBEDDING, WEIR_ASYNC, WEIR_CODEC_INT8},
	              {"sync_dense", WEIR_DENSE, WEIR_SYNC, WEIR_CODEC_FP32},
	              {"sync_rows", WEIR_EMBEDDING, WEIR_SYNC, WEIR_CODEC_FP32},
	              {"async_dense", WEIR_DENSE, WEIR_ASYNC, WEIR_CODEC_BF16}};
	const struct partition_options o = {
	    .partitions = 1, .generation = GENERATION, .process_id = 7, .log = log_memory_create(), .clock = clock_system()};
	struct partition *p = partition_create(&o, NULL);
	assert(p);
	for (uint32_t i = 0; i < sizeof tables / sizeof *tables; i++) {
		const bool rows = tables[i].kind == WEIR_EMBEDDING;
		const weir_init_segment zero = {.elements = rows ? WIDTH : ELEMENTS};
		weir_table_spec spec = {.kind = tables[i].kind,
		                        .width = rows ? WIDTH : 0,
		                        .elements = rows ? 0 : ELEMENTS,
		                        .optimizer = {.kind = WEIR_OPT_ADAGRAD, .lr = 1, .eps = 1e-6f},
		                        .mode = {.kind = tables[i].mode},
		                        .pull = {.codec = tables[i].pull},
		                        .segments_count = 1,
		                        .segments = &zero};
		strcpy(spec.name, tables[i].name);
		const weir_status status = partition_add_table(p, ASYNC_ROWS + i, &spec, NULL);
		assert(status == WEIR_OK);
		(void)status;
	}
	partition_begin(p, 1);
	return p;
}

/* --- Requests */

struct asked {
	uint32_t digest, replies;
};

static void on_reply(void *arg, const struct partition_reply *reply)
{
	struct asked *a = arg;
	a->replies++;
	a->digest = crc32c(a->digest, &reply->status, sizeof reply->status);
	a->digest = crc32c(a->digest, &reply->applied, sizeof reply->applied);
	if (reply->bitmap_bits)
		a->digest = crc32c(a->digest, reply->bitmap, reply->bitmap_bits / 8);
	assert(reply->status == WEIR_OK || !reply->text || reply->text[0]);
}

static void on_ready(void *arg, weir_status status)
{
	struct asked *a = arg;
	a->digest = crc32c(a->digest, &status, sizeof status);
	a->replies++;
}

static void pull(struct partition *p, const struct record *r, const struct cursor *body, struct record_writer *w, struct asked *a)
{
	static const uint8_t nobody[16];
	if (!partition_pull_ready(p, r, body, 0, on_ready, a)) {
		partition_tick(p, INT64_MAX);
		return;
	}
	partition_pull(p, r, body, w);
	struct message *m = record_writer_finish(w, nobody, GENERATION, NULL, NULL);
	const struct cursor c = cursor_at(m);
	a->digest = cursor_crc32c(&c, c.left, a->digest);
	message_release(m);
}

/* As dispatch.c does for the kinds that it admits. */
static void ask_all(struct partition *p, struct message *m, struct record_writer *w, struct asked *a)
{
	struct cursor c = cursor_at(m), body;
	struct frame_header h;
	struct record r;
	weir_error err = {0};
	if (frame_open(&c, &h, &err) != WEIR_OK)
		return;
	for (uint32_t i = 0; i < h.records; i++) {
		if (frame_next_record(&c, true, &r, &body, &err) != WEIR_OK) {
			if (r.bytes == 0)
				return;
			continue;
		}
		const uint32_t before = a->replies;
		switch (r.kind) {
		case RECORD_PULL:
			pull(p, &r, &body, w, a);
			break;
		case RECORD_PUSH:
		case RECORD_ASSIGN:
		case RECORD_RESUME:
		case RECORD_SEAL:
		case RECORD_CLOSE_STEP:
		case RECORD_RETIRE:
			partition_submit(p, &r, &body, m, on_reply, a);
			if (a->replies == before) /* it waits for its step, or for entries to be stable */
				partition_abandon(p);
			assert(a->replies == before + 1);
			break;
		default:
			break;
		}
	}
}

static struct message *state_after(const uint8_t *bytes, size_t n, size_t cut, struct asked *a)
{
	struct partition *p = new_partition();
	struct message *m = pieces_of(bytes, n, cut);
	struct record_writer *w = record_writer_create();
	*a = (struct asked){0};
	ask_all(p, m, w, a);
	struct message *state = partition_state_export(p);
	assert(state);
	record_writer_destroy(w);
	message_release(m);
	partition_destroy(p);
	return state;
}

static void check(const uint8_t *bytes, size_t n, size_t cut, uint8_t flags)
{
	struct asked once, in_pieces;
	(void)flags;
	struct message *a = state_after(bytes, n, n + 1, &once), *b = state_after(bytes, n, cut, &in_pieces);
	assert(once.digest == in_pieces.digest && once.replies == in_pieces.replies);
	assert(a->bytes == b->bytes && memcmp(a->spans[0].data, b->spans[0].data, a->bytes) == 0);
	message_release(a);
	message_release(b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	return cut_input(data, size, repair, check);
}

/* --- Seeds */

static void add_rows(struct record_writer *w, const struct record *r, uint16_t table, bool dense, bool values, uint8_t codec)
{
	static const uint64_t keys[] = {2, 7, 900};
	static float x[ELEMENTS];
	const uint32_t rows = dense ? 1 : 3;
	struct section s = {.table = table,
	                    .codec = codec,
	                    .index_codec = dense ? INDEX_ALL : INDEX_RAW,
	                    .rows = rows,
	                    .width = dense ? WEIR_CHUNK : WIDTH,
	                    .index_bytes = dense ? 0 : rows * 8};
	uint8_t index[64];
	for (size_t e = 0; e < ELEMENTS; e++)
		x[e] = (float)e - 7;
	if (values)
		s.data_bytes = (uint32_t)(dense ? ELEMENTS : rows * WIDTH) * (uint32_t)sizeof *x;
	else if (dense && codec != WEIR_CODEC_FP32)
		s.data_bytes = rows * PULL_HELD_BYTES;
	if (!dense) {
		section_keys_plan(&s, keys);
		section_keys_write(&s, keys, index);
	}
	record_writer_begin(w, r);
	weir_status status = record_writer_add(w, &s, dense ? NULL : index, x, false);
	assert(status == WEIR_OK);
	status = record_writer_end(w);
	assert(status == WEIR_OK);
	(void)status;
}

static void add_bytes(struct record_writer *w, const struct record *r, const void *data, uint32_t bytes)
{
	const struct section s = {.codec = WEIR_CODEC_FP32, .index_codec = INDEX_ALL, .data_bytes = bytes};
	record_writer_begin(w, r);
	weir_status status = data ? record_writer_add(w, &s, NULL, data, false) : WEIR_OK;
	assert(status == WEIR_OK);
	status = record_writer_end(w);
	assert(status == WEIR_OK);
	(void)status;
}

/* Pushes, also of steps, closes, pulls, seals, retirements and assignments. */
static void write_records(struct record_writer *w, uint32_t i)
{
	static const uint32_t batches[][3] = {{1, 3, 0}, {1, 4, 1}};
	const struct record push = {.kind = RECORD_PUSH, .pass = 1, .unit = 3, .attempt = 1};
	struct record of_step = push;
	of_step.push.step = 1;
	if (i == 0 || i == 3) {
		add_rows(w, &push, ASYNC_ROWS, false, true, WEIR_CODEC_FP32);
		add_rows(w, &(struct record){.kind = RECORD_PUSH, .pass = 1, .unit = 3, .attempt = 1, .part = 1}, ASYNC_DENSE, true, true,
		         WEIR_CODEC_FP32);
		add_rows(w, &(struct record){.kind = RECORD_PULL}, ASYNC_ROWS, false, false, WEIR_CODEC_INT8);
		add_rows(w, &(struct record){.kind = RECORD_PULL}, ASYNC_DENSE, true, false, WEIR_CODEC_BF16);
	}
	if (i == 1 || i == 3) {
		add_rows(w, &of_step, SYNC_ROWS, false, true, WEIR_CODEC_FP32);
		of_step.unit = 4;
		of_step.batch = 1;
		add_rows(w, &of_step, SYNC_DENSE, true, true, WEIR_CODEC_FP32);
		add_bytes(
		    w, &(struct record){.kind = RECORD_CLOSE_STEP, .partition = FRAME_PARTITION_ALL, .close = {.step = 1, .included = 1}},
		    batches, sizeof batches);
		add_rows(w, &(struct record){.kind = RECORD_PULL, .pull.step_least = 1}, SYNC_ROWS, false, false, WEIR_CODEC_FP32);
	}
	if (i == 2 || i == 3) {
		add_rows(w, &(struct record){.kind = RECORD_ASSIGN}, ASYNC_ROWS, false, true, WEIR_CODEC_FP32);
		add_bytes(w, &(struct record){.kind = RECORD_SEAL, .pass = 1, .unit = 3, .attempt = 2}, NULL, 0);
		add_bytes(
		    w,
		    &(struct record){.kind = RECORD_RETIRE, .pass = 1, .unit = 1, .attempt = 1, .retire.unit_key = (uint64_t)1 << 32 | 3},
		    NULL, 0);
		add_bytes(w, &(struct record){.kind = RECORD_RESUME, .resume = {1, 1}}, NULL, 0);
	}
}

uint8_t *fuzz_seed(uint32_t i, size_t *size)
{
	static const uint8_t nobody[16];
	if (i > 7)
		return NULL;
	struct record_writer *w = record_writer_create();
	assert(w);
	write_records(w, i % 4);
	struct message *m = record_writer_finish(w, nobody, GENERATION, NULL, NULL);
	record_writer_destroy(w);
	return cut_input_seed((uint8_t)(11 + 30 * i), i < 4 ? CUT_INPUT_REPAIR : 0, m, size);
}
