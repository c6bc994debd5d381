#include "tests/unit/server/partition/partition_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/hash.h"

static void add_table(struct fixture *f, uint32_t id, weir_table_kind kind, weir_mode mode, weir_optimizer_kind optimizer)
{
	const weir_init_segment zero = {.elements = kind == WEIR_DENSE ? DENSE_ELEMENTS : ROW_WIDTH, .kind = WEIR_INIT_ZERO};
	weir_table_spec spec = {
	    .kind = kind,
	    .width = kind == WEIR_EMBEDDING ? ROW_WIDTH : 0,
	    .elements = kind == WEIR_DENSE ? DENSE_ELEMENTS : 0,
	    .optimizer = {.kind = optimizer, .lr = 1, .momentum = 0.9f, .beta1 = 0.9f, .beta2 = 0.999f, .eps = 1e-6f, .window = 1},
	    .mode = mode,
	    .segments_count = 1,
	    .segments = &zero};
	strcpy(spec.name, id == ASYNC_ROWS   ? "async_rows"
	                  : id == SYNC_ROWS  ? "sync_rows"
	                  : id == SYNC_DENSE ? "sync_dense"
	                                     : "async_dense");
	weir_error err = {0};
	if (partition_add_table(f->p, id, &spec, &err))
		fail_msg("%s", err.text);
}

void fixture_open(struct fixture *f, const struct fixture_options *options)
{
	*f = (struct fixture){0};
	struct partition_options o = {.id = 0,
	                              .partitions = 1,
	                              .generation = RECORDS_GENERATION,
	                              .log = log_memory_create(),
	                              .clock = clock_system(),
	                              .not_finite = options->not_finite};
	f->p = partition_create(&o, NULL);
	assert_non_null(f->p);
	fixture_add_tables(f, options);
}

void fixture_add_tables(struct fixture *f, const struct fixture_options *options)
{
	const weir_mode async = {.kind = WEIR_ASYNC}, sync = {.kind = WEIR_SYNC};
	const weir_mode rated = {.kind = WEIR_ASYNC, .staleness_rate = options->staleness_rate};
	add_table(f, ASYNC_ROWS, WEIR_EMBEDDING, rated, options->optimizer);
	add_table(f, SYNC_ROWS, WEIR_EMBEDDING, sync, options->optimizer);
	add_table(f, SYNC_DENSE, WEIR_DENSE, sync, options->optimizer);
	add_table(f, ASYNC_DENSE, WEIR_DENSE, async, options->optimizer);
}

void fixture_failed(void *host, const weir_error *err)
{
	(void)host;
	fail_msg("%s", err->text);
}

void fixture_close(struct fixture *f)
{
	partition_destroy(f->p);
}

static void on_reply(void *arg, const struct partition_reply *reply)
{
	struct fixture *f = arg;
	f->reply = *reply;
	f->replies++;
	memset(f->bitmap, 0, sizeof f->bitmap);
	assert_true(reply->bitmap_bits / 8 <= sizeof f->bitmap);
	if (reply->bitmap_bits)
		memcpy(f->bitmap, reply->bitmap, reply->bitmap_bits / 8);
	strcpy(f->text, reply->text ? reply->text : "");
}

weir_status fixture_submit(struct fixture *f, const struct built *b)
{
	uint32_t before = f->replies;
	partition_submit(f->p, &b->record, &b->body, b->frame, on_reply, f);
	assert_int_equal(f->replies, before + 1);
	return f->reply.status;
}

weir_status fixture_push(struct fixture *f, const struct record *r, const struct rows *sections, uint32_t count)
{
	struct built b = records_build(r, sections, count);
	weir_status status = fixture_submit(f, &b);
	records_free(&b);
	return status;
}

weir_status fixture_seal(struct fixture *f, uint32_t pass, uint32_t unit, uint32_t attempt)
{
	return fixture_push(f, &(struct record){.kind = RECORD_SEAL, .pass = pass, .unit = unit, .attempt = attempt}, NULL, 0);
}

weir_status fixture_retire(struct fixture *f, uint32_t pass, uint32_t unit)
{
	return fixture_push(f, &(struct record){.kind = RECORD_RETIRE, .pass = pass, .unit = unit}, NULL, 0);
}

weir_status fixture_retire_one(struct fixture *f, uint32_t pass, uint32_t unit)
{
	return fixture_push(f, &(struct record){.kind = RECORD_RETIRE, .attempt = 1, .retire.unit_key = (uint64_t)pass << 32 | unit},
	                    NULL, 0);
}

weir_status fixture_close_step(struct fixture *f, uint64_t step, const uint32_t (*ids)[3], uint32_t included, uint32_t dropped)
{
	struct built b = records_build_close(step, ids, included, dropped);
	weir_status status = fixture_submit(f, &b);
	records_free(&b);
	return status;
}

float fixture_row(struct fixture *f, uint32_t table, uint64_t key)
{
	float out[ROW_WIDTH];
	store_gather(store_table(partition_store(f->p), table), &key, 1, out);
	return out[0];
}

float fixture_dense(struct fixture *f, uint32_t table, size_t element)
{
	float out[DENSE_ELEMENTS];
	store_read_chunk(store_table(partition_store(f->p), table), 0, out);
	return out[element];
}

struct hashing {
	const struct store_table *table;
	uint32_t id;
	uint64_t hash;
};

static void hash_row(void *arg, uint64_t key, const struct row_state *state, const float *row)
{
	struct hashing *h = arg;
	const struct store_table *t = h->table;
	const uint32_t slots = optimizer_slots(store_table_spec(t)->optimizer.kind);
	const struct row_meta *m = store_find(t, key, &row);
	h->hash = hash_bytes(row, store_row_elements(t, key) * (1 + slots) * sizeof *row, h->hash ^ key ^ (uint64_t)h->id << 56);
	h->hash = hash_bytes(&m->version, sizeof m->version, h->hash);
	h->hash = hash_bytes(state, sizeof *state, h->hash);
}

uint64_t fixture_hash(struct fixture *f)
{
	struct hashing h = {0};
	for (uint32_t id = ASYNC_ROWS; id <= ASYNC_DENSE; id++) {
		struct store_place place = {0};
		h.table = store_table(partition_store(f->p), id);
		h.id = id;
		do
			assert_int_equal(store_scan(h.table, &place, 1, hash_row, &h, NULL), WEIR_OK);
		while (place.at || place.below);
	}
	return h.hash;
}

struct rows one_row(struct one_row *x, uint16_t table, uint64_t key, float v)
{
	x->key = key;
	for (uint32_t i = 0; i < ROW_WIDTH; i++)
		x->values[i] = v;
	return (struct rows){
	    .table = table, .width = ROW_WIDTH, .count = 1, .keys = &x->key, .values = x->values, .values_count = ROW_WIDTH};
}

struct record push_record(uint32_t unit, uint32_t attempt, uint32_t batch, uint32_t part, uint64_t step)
{
	return (struct record){.kind = RECORD_PUSH,
	                       .pass = 1,
	                       .unit = unit,
	                       .attempt = attempt,
	                       .batch = batch,
	                       .part = (uint16_t)part,
	                       .push.step = step};
}
