/* A snapshot from a stranger: frames until one is refused. Accepted frames have rows and entries
 * within their bytes.
 *
 * Input: u8 (bit 0: repair each frame's checksum and number), then for each frame its size as u32
 * and its bytes. */
#include "tests/fuzz/fuzz.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/crc32c.h"
#include "common/base/little_endian.h"
#include "server/log/journal_format.h"
#include "tests/unit/server/snapshot/snapshot_frames.h"

/* Repairs the frame, so that the code behind the checks is reached. */
static void mend(uint8_t *bytes, size_t n, uint64_t number)
{
	if (n < SNAPSHOT_HEADER_BYTES)
		return;
	put32(bytes + 12, (uint32_t)(n - SNAPSHOT_HEADER_BYTES));
	put64(bytes + 16, SMALL_SESSION);
	put64(bytes + 24, number);
	put32(bytes + 4, crc32c(0, bytes + 8, n - 8));
}

static void read_frame(const struct snapshot_reader *r, const struct snapshot_frame *f)
{
	static float rates[JOURNAL_RATES_MAX];
	struct row_batch rows;
	struct log_entry e;
	struct message *m;
	weir_error err = {0};
	volatile uint64_t sum = 0;
	if (f->kind == SNAPSHOT_ROWS && snapshot_read_rows(f, r->partition, &rows, &err) == WEIR_OK) {
		assert(rows.count == f->rows);
		for (size_t i = 0; i < rows.count; i++) {
			const struct row_item *item = &rows.items[i];
			assert(item->offset + item->bytes <= rows.data_bytes && item->bytes >= ROW_META_BYTES);
			for (uint32_t b = 0; b < item->bytes; b++)
				sum = sum + rows.data[item->offset + b];
			assert(row_version(rows.data + item->offset) <= rows.version_max);
		}
		row_batch_destroy(&rows);
	} else if (f->kind == SNAPSHOT_ENTRY && snapshot_read_entry(f, r->partition, rates, &e, &m, &err) == WEIR_OK) {
		assert(e.rates_count <= JOURNAL_RATES_MAX && e.body.left <= m->bytes);
		sum = sum + cursor_crc32c(&e.body, e.body.left, 0);
		message_release(m);
	} else if (f->kind == SNAPSHOT_ROWS || f->kind == SNAPSHOT_ENTRY) {
		assert(err.text[0]);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct snapshot_reader r;
	weir_status status = snapshot_reader_init(&r, small_uuid, SMALL_GENERATION, SMALL_PARTITION, SMALL_PARTITIONS);
	assert(status == WEIR_OK);
	for (size_t at = 1; !status && at + 4 <= size;) {
		const uint32_t wish = get32(data + at);
		at += 4;
		const size_t n = wish < size - at ? wish : size - at;
		uint8_t *bytes;
		struct message *m = message_alloc(n, &bytes);
		struct snapshot_frame f;
		weir_error err = {0};
		assert(m);
		memcpy(bytes, data + at, n);
		at += n;
		if (data[0] & 1)
			mend(bytes, n, r.next);
		const uint64_t before = r.next;
		status = snapshot_reader_take(&r, cursor_at(m), &f, &err);
		assert(status ? err.text[0] && r.next == before : r.next == before + 1);
		if (!status)
			read_frame(&r, &f);
		message_release(m);
	}
	snapshot_reader_destroy(&r);
	return 0;
}

/* The small snapshot unchanged, and to be repaired. */
uint8_t *fuzz_seed(uint32_t i, size_t *size)
{
	struct message *frames[SMALL_FRAMES];
	size_t n = 1;
	if (i > 1)
		return NULL;
	small_frames(frames);
	for (uint32_t k = 0; k < SMALL_FRAMES; k++)
		n += 4 + frames[k]->bytes;
	uint8_t *out = malloc(n);
	assert(out);
	out[0] = (uint8_t)i;
	*size = 1;
	for (uint32_t k = 0; k < SMALL_FRAMES; k++) {
		struct cursor c = cursor_at(frames[k]);
		const size_t bytes = c.left;
		put32(out + *size, (uint32_t)bytes);
		weir_status status = cursor_read(&c, out + *size + 4, bytes);
		assert(status == WEIR_OK);
		*size += 4 + bytes;
		message_release(frames[k]);
	}
	return out;
}
