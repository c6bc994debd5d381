/* A frame from a stranger: read completely, twice, alike however it is cut, and within its own
 * bytes.
 *
 * Input: cut_input.h, with a frame; the repaired checksum is the header's. */
#include "tests/fuzz/fuzz.h"

#include <assert.h>

#include "common/base/crc32c.h"
#include "common/base/little_endian.h"
#include "proto/frame/frame.h"
#include "proto/frame/section_keys.h"
#include "tests/fuzz/cut_input.h"
#include "tests/unit/proto/golden_frames.h"
#include "tests/unit/proto/pieces.h"

#define VERIFY 2u /* a flag of the input: check the records' checksums */

static uint32_t read_stream(struct cursor c, uint32_t digest)
{
	uint8_t straddle[8];
	const uint8_t *run;
	size_t n, total = 0, size = c.left;
	while ((n = cursor_run(&c, 8, 3, straddle, &run)) > 0) {
		digest = crc32c(digest, run, 8 * n);
		total += 8 * n;
	}
	assert(size - total < 8 && c.left == size - total);
	return digest;
}

/* Reads the section's keys, whether or not it has as many as written. */
static uint32_t read_keys(const struct section *s, uint32_t digest)
{
	struct section_keys k;
	uint64_t keys[5];
	size_t n, total = 0;
	weir_error err = {0};
	section_keys_begin(&k, s);
	for (; (n = section_keys_next(&k, keys, 5)) > 0; total += n)
		digest = crc32c(digest, keys, n * sizeof *keys);
	assert(total <= s->rows);
	weir_status status = section_keys_end(&k, s, &err);
	assert(status ? err.text[0] != '\0' : total == s->rows);
	return digest + (uint32_t)status;
}

/* Digests everything the frame says, and how reading it ended. */
static weir_status digest_of(const struct message *m, bool verify, uint32_t *digest, weir_error *err)
{
	struct cursor c = cursor_at(m), body;
	struct frame_header h;
	struct record r;
	struct section s;
	*digest = 0;
	weir_status status = frame_open(&c, &h, err);
	for (uint32_t i = 0; !status && i < h.records; i++) {
		status = frame_next_record(&c, verify, &r, &body, err);
		for (uint32_t k = 0; !status && k < r.sections; k++) {
			status = frame_next_section(&body, &s, err);
			if (!status) {
				assert(s.index.left == s.index_bytes && s.data.left == s.data_bytes);
				*digest = read_stream(s.data, read_stream(s.index, *digest + s.rows));
				*digest = read_keys(&s, *digest);
			}
		}
		*digest = crc32c(*digest, &r.request_id, sizeof r.request_id);
	}
	return status;
}

static void repair(uint8_t *bytes, size_t n)
{
	if (n < FRAME_HEADER_BYTES)
		return;
	put32(bytes + 12, 0);
	put32(bytes + 12, crc32c(0, bytes, FRAME_HEADER_BYTES));
}

static void check(const uint8_t *bytes, size_t n, size_t cut, uint8_t flags)
{
	const bool verify = flags & VERIFY;
	uint32_t whole, parts;
	weir_error err = {0};
	struct message *one = pieces_of(bytes, n, n + 1), *many = pieces_of(bytes, n, cut);
	weir_status status = digest_of(one, verify, &whole, &err);
	assert(!status || err.text[0]);
	assert(digest_of(many, verify, &parts, &err) == status && parts == whole);
	message_release(one);
	message_release(many);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	return cut_input(data, size, repair, check);
}

uint8_t *fuzz_seed(uint32_t i, size_t *size)
{
	if (i >= 2 * GOLDEN_FRAMES)
		return NULL;
	return cut_input_seed((uint8_t)(5 + 20 * i), CUT_INPUT_REPAIR | (i % 2 ? VERIFY : 0), golden_build(i / 2), size);
}
