#include "tests/unit/server/snapshot/snapshot_frames.h"

#include <assert.h>

#include "common/base/crc32c.h"
#include "common/base/little_endian.h"

const uint8_t small_uuid[16] = "a job";

static struct snapshot_frame next(enum snapshot_kind kind, uint64_t number, uint32_t rows)
{
	return (struct snapshot_frame){.kind = kind, .session = SMALL_SESSION, .number = number, .rows = rows};
}

static void must(weir_status status)
{
	assert(status == WEIR_OK);
	(void)status;
}

static struct message *make_begin(void)
{
	const struct snapshot_frame f = next(SNAPSHOT_BEGIN, SMALL_BEGIN, 0);
	struct snapshot_begin b = {.generation = SMALL_GENERATION,
	                           .partition = SMALL_PARTITION,
	                           .partitions = SMALL_PARTITIONS,
	                           .epoch = 2,
	                           .index = 9,
	                           .needs = 9,
	                           .last = 9,
	                           .state_bytes = 5,
	                           .tables = 1};
	for (uint32_t i = 0; i < sizeof b.uuid; i++)
		b.uuid[i] = small_uuid[i];
	return snapshot_make_begin(&f, &b);
}

static struct message *make_rows(void)
{
	const struct snapshot_frame f = next(SNAPSHOT_ROWS, SMALL_ROWS, 2);
	const struct row_meta meta = {.version = 9, .count = 2};
	const float row[6] = {1, 2, 3};
	struct row_batch b = {.partition = SMALL_PARTITION};
	must(row_batch_add(&b, 1, 42, &meta, row, 6));
	must(row_batch_add(&b, 1, 43, &meta, row, 3));
	return snapshot_make_rows(&f, &b);
}

static struct message *make_stubs(void)
{
	const struct snapshot_frame f = next(SNAPSHOT_ROWS, SMALL_STUBS, 1);
	const struct row_meta meta = {.version = 8, .last_push_s = 100, .count = 1};
	struct row_batch b = {.partition = SMALL_PARTITION};
	must(row_batch_add(&b, 2, 42, &meta, NULL, 0));
	return snapshot_make_rows(&f, &b);
}

static struct message *make_entry(void)
{
	const struct snapshot_frame f = next(SNAPSHOT_ENTRY, SMALL_ENTRY, 0);
	const float rate = 0.5f;
	struct message *body = message_copy("the sections", 12), *m;
	const struct log_entry e = {.epoch = 2,
	                            .index = 9,
	                            .committed = 9,
	                            .generation = SMALL_GENERATION,
	                            .stamp_ms = 1000,
	                            .rates_count = 1,
	                            .rates = &rate,
	                            .record = {.kind = RECORD_PUSH, .partition = SMALL_PARTITION, .unit = 5, .push.step = 7},
	                            .message = body,
	                            .body = cursor_at(body)};
	must(snapshot_make_entry(&m, &f, &e, SMALL_PARTITION, NULL));
	message_release(body);
	return m;
}

static struct message *make_end(struct message *const frames[SMALL_END])
{
	const struct snapshot_frame f = next(SNAPSHOT_END, SMALL_END, 0);
	struct snapshot_sum *sum = snapshot_sum_create();
	struct snapshot_totals totals;
	for (uint32_t i = 0; i < SMALL_END; i++) {
		struct snapshot_frame each;
		must(snapshot_read(cursor_at(frames[i]), &each, NULL));
		snapshot_sum_add(sum, &each);
	}
	snapshot_sum_get(sum, &totals);
	snapshot_sum_destroy(sum);
	return snapshot_make_end(&f, &totals);
}

void small_frames(struct message *out[SMALL_FRAMES])
{
	const struct snapshot_frame table = next(SNAPSHOT_TABLE, SMALL_TABLE, 0), state = next(SNAPSHOT_STATE, SMALL_STATE, 0),
	                            rest = next(SNAPSHOT_STATE, SMALL_STATE_REST, 0);
	out[SMALL_BEGIN] = make_begin();
	out[SMALL_TABLE] = snapshot_make(&table, "a table", 7);
	out[SMALL_STATE] = snapshot_make(&state, "sta", 3);
	out[SMALL_STATE_REST] = snapshot_make(&rest, "te", 2);
	out[SMALL_ROWS] = make_rows();
	out[SMALL_STUBS] = make_stubs();
	out[SMALL_ENTRY] = make_entry();
	out[SMALL_END] = make_end(out);
}

struct message *small_changed(const struct message *m, size_t at)
{
	uint8_t *bytes;
	struct message *out = message_alloc(m->bytes, &bytes);
	struct cursor c = cursor_at(m);
	must(cursor_read(&c, bytes, m->bytes));
	bytes[SNAPSHOT_HEADER_BYTES + at] ^= 1;
	put32(bytes + 4, crc32c(0, bytes + 8, m->bytes - 8));
	return out;
}
