/* Coded keys from a stranger: refused, or rising and written again byte for byte. They are read
 * alike however the bytes are cut and however many keys one call asks for.
 *
 * Input: u8 bytes per span, u8 keys per call, u16 rows, the index stream. */
#include "tests/fuzz/fuzz.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "proto/frame/section_keys.h"
#include "tests/unit/proto/pieces.h"

#define HEAD_BYTES 4u

/* Returns the keys from malloc; NULL: refused. */
static uint64_t *read_keys(const uint8_t *bytes, size_t n, uint32_t rows, size_t cut, size_t step)
{
	struct message *m = pieces_of(bytes, n, cut);
	const struct section s = {.index_codec = INDEX_ELIAS_FANO, .rows = rows, .index_bytes = (uint32_t)n, .index = cursor_at(m)};
	struct section_keys k;
	uint64_t *keys = malloc((rows + 1) * sizeof *keys);
	weir_error err = {0};
	size_t have = 0;
	assert(keys);
	section_keys_begin(&k, &s);
	for (size_t got; (got = section_keys_next(&k, keys + have, step)) > 0; have += got)
		assert(have + got <= rows);
	weir_status status = section_keys_end(&k, &s, &err);
	message_release(m);
	if (!status) {
		assert(have == rows);
		return keys;
	}
	assert(status == WEIR_E_CORRUPT && err.text[0]);
	free(keys);
	return NULL;
}

static void write_again(const uint8_t *bytes, size_t n, uint32_t rows, const uint64_t *keys)
{
	const struct section s = {.index_codec = INDEX_ELIAS_FANO, .rows = rows};
	uint8_t *again = malloc(n + 1);
	assert(again && rows > 0);
	for (uint32_t i = 1; i < rows; i++)
		assert(keys[i - 1] < keys[i]);
	section_keys_write(&s, keys, again);
	assert(memcmp(again, bytes, n) == 0);
	free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < HEAD_BYTES)
		return 0;
	const size_t cut = data[0] ? data[0] : 256, step = data[1] ? data[1] : 1024, n = size - HEAD_BYTES;
	const uint32_t rows = (uint32_t)data[2] | (uint32_t)data[3] << 8;
	const uint8_t *bytes = data + HEAD_BYTES;
	uint64_t *keys = read_keys(bytes, n, rows, n + 1, rows + 1), *cut_keys = read_keys(bytes, n, rows, cut, step);
	assert(!keys == !cut_keys && (!keys || memcmp(keys, cut_keys, rows * sizeof *keys) == 0));
	if (keys && rows)
		write_again(bytes, n, rows, keys);
	assert(!keys || rows || n == 0);
	free(keys);
	free(cut_keys);
	return 0;
}

/* From eight consecutive keys to some hundred hashes. */
uint8_t *fuzz_seed(uint32_t i, size_t *size)
{
	if (i >= 16)
		return NULL;
	const uint32_t rows = 8 + 20 * i;
	uint64_t keys[8 + 20 * 16], key = i % 3 ? i : 1ull << 40;
	for (uint32_t k = 0; k < rows; k++, key += 1 + ((k * 2654435761u) & ((1ull << 3 * i) - 1)))
		keys[k] = key;
	struct section s = {.rows = rows};
	section_keys_plan(&s, keys);
	assert(s.index_codec == INDEX_ELIAS_FANO);
	uint8_t *seed = malloc(HEAD_BYTES + s.index_bytes);
	assert(seed);
	*size = HEAD_BYTES + s.index_bytes;
	seed[0] = (uint8_t)(1 + 9 * i);
	seed[1] = (uint8_t)(1 + 16 * i);
	seed[2] = (uint8_t)rows;
	seed[3] = (uint8_t)(rows >> 8);
	section_keys_write(&s, keys, seed + HEAD_BYTES);
	return seed;
}
