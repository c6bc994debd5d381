/* A frame from a stranger, cut into spans: read whole, twice, alike however it is cut, within its own bytes.
 * Input: u8 bytes per span, u8 (bit 0: make the frame header's checksum right, bit 1: verify records), the frame. */
#include "fuzz.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "crc32c.h"
#include "frame.h"
#include "golden_frames.h"
#include "pieces.h"
#include "section_keys.h"

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

/* The keys that the section has, whether or not that is what was written. */
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

/* Everything the frame says in one number, and how reading it ended. */
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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 2)
		return 0;
	size_t n = size - 2, cut = data[0] ? data[0] : 256;
	bool verify = data[1] & 2;
	uint8_t *bytes = malloc(n ? n : 1);
	assert(bytes);
	memcpy(bytes, data + 2, n);
	if (data[1] & 1 && n >= FRAME_HEADER_BYTES) {
		memset(bytes + 12, 0, 4);
		memcpy(bytes + 12, &(uint32_t){crc32c(0, bytes, FRAME_HEADER_BYTES)}, 4);
	}
	uint32_t whole, parts;
	weir_error err = {0};
	struct message *one = pieces_of(bytes, n, n + 1), *many = pieces_of(bytes, n, cut);
	weir_status status = digest_of(one, verify, &whole, &err);
	assert(!status || err.text[0]);
	assert(digest_of(many, verify, &parts, &err) == status && parts == whole);
	message_release(one);
	message_release(many);
	free(bytes);
	return 0;
}

uint8_t *fuzz_seed(uint32_t i, size_t *size)
{
	if (i >= 2 * GOLDEN_FRAMES)
		return NULL;
	struct message *m = golden_build(i / 2);
	uint8_t *bytes = pieces_join(m), *seed = malloc(m->bytes + 2);
	assert(seed);
	*size = m->bytes + 2;
	seed[0] = (uint8_t)(5 + 20 * i);
	seed[1] = i % 2 ? 3 : 1;
	memcpy(seed + 2, bytes, m->bytes);
	free(bytes);
	message_release(m);
	return seed;
}
