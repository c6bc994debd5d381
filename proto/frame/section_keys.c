#include "proto/frame/section_keys.h"

#include <assert.h>
#include <string.h>

#define NUMBER_BYTES_MAX 8u /* of `base` and of `most` */

static uint32_t bytes_of(uint64_t number)
{
	return number ? (64 - (uint32_t)__builtin_clzll(number) + 7) / 8 : 0;
}

static size_t padded(size_t bytes)
{
	return (bytes + 7) / 8 * 8;
}

/* The largest remainder of rising, distinct keys: key - base - i of the last one. */
static uint64_t most_of(const uint64_t *keys, uint32_t count)
{
	return keys[count - 1] - keys[0] - (count - 1);
}

/* --- Writing */

static bool rise(const uint64_t *keys, uint32_t count)
{
	bool all = true;
	for (uint32_t i = 1; i < count; i++)
		all &= keys[i - 1] < keys[i];
	return all;
}

void section_keys_plan(struct section *s, const uint64_t *keys)
{
	s->index_codec = INDEX_RAW;
	s->index_bytes = s->rows * (uint32_t)sizeof *keys;
	if (s->rows == 0 || !rise(keys, s->rows))
		return;
	const uint64_t most = most_of(keys, s->rows);
	const size_t coded = 1 + bytes_of(keys[0]) + bytes_of(most) + elias_fano_bytes(s->rows, most);
	if (padded(coded) >= s->index_bytes)
		return;
	s->index_codec = INDEX_ELIAS_FANO;
	s->index_bytes = (uint32_t)coded;
}

void section_keys_write(const struct section *s, const uint64_t *keys, uint8_t *index)
{
	if (s->index_codec == INDEX_RAW) {
		if (s->index_bytes)
			memcpy(index, keys, s->index_bytes);
		return;
	}
	assert(s->index_codec == INDEX_ELIAS_FANO);
	const uint64_t base = keys[0], most = most_of(keys, s->rows);
	const uint32_t base_bytes = bytes_of(base), most_bytes = bytes_of(most);
	*index++ = (uint8_t)(base_bytes | most_bytes << 4);
	memcpy(index, &base, base_bytes);
	memcpy(index + base_bytes, &most, most_bytes);
	elias_fano_encode_distinct(keys, s->rows, base, most, index + base_bytes + most_bytes);
}

/* --- Reading */

/* Reads a number. False: it is damaged or not written in the fewest bytes. */
static bool take_number(struct cursor *c, uint32_t bytes, uint64_t *number)
{
	*number = 0;
	return bytes <= NUMBER_BYTES_MAX && !cursor_read(c, number, bytes) && bytes_of(*number) == bytes;
}

static bool begin_coded(struct section_keys *k, struct cursor c, uint32_t rows)
{
	uint8_t sizes;
	uint64_t most;
	if (rows == 0)
		return c.left == 0;
	if (cursor_read(&c, &sizes, 1) || !take_number(&c, sizes & 15, &k->base) || !take_number(&c, sizes >> 4, &most))
		return false;
	const uint64_t above = UINT64_MAX - k->base; /* the largest possible sum of the other terms */
	if (rows - 1 > above || most > above - (rows - 1))
		return false;
	elias_fano_begin(&k->coded, c, rows, most);
	return !k->coded.damaged;
}

void section_keys_begin(struct section_keys *k, const struct section *s)
{
	*k = (struct section_keys){.raw = s->index, .is_coded = s->index_codec == INDEX_ELIAS_FANO, .is_first = true};
	if (k->is_coded)
		k->damaged = !begin_coded(k, s->index, s->rows);
	else
		k->damaged = s->index_codec != INDEX_RAW || s->index_bytes != sizeof(uint64_t) * s->rows;
	k->left = k->damaged ? 0 : s->rows;
}

size_t section_keys_next(struct section_keys *k, uint64_t *keys, size_t max)
{
	const size_t n = k->left < max ? k->left : max;
	if (!k->is_coded) {
		k->left -= (uint32_t)n;
		weir_status status = cursor_read(&k->raw, keys, n * sizeof *keys);
		assert(status == WEIR_OK);
		return n;
	}
	const size_t got = elias_fano_next(&k->coded, keys, n);
	k->damaged |= got < n || (k->is_first && n && keys[0] != 0);
	k->is_first = false;
	k->left = k->damaged ? 0 : k->left - (uint32_t)n;
	for (size_t i = 0; i < got; i++)
		keys[i] += k->base + i;
	k->base += got;
	return got;
}

weir_status section_keys_end(const struct section_keys *k, const struct section *s, weir_error *err)
{
	if (s->index_codec != INDEX_RAW && s->index_codec != INDEX_ELIAS_FANO)
		return weir_fail(err, WEIR_E_UNSUPPORTED, "section index: codec %u is not supported here", s->index_codec);
	if (k->damaged || (k->is_coded && (k->coded.last != k->coded.most || !elias_fano_is_whole(&k->coded))))
		return weir_fail(err, WEIR_E_CORRUPT, "section index: %u bytes are not %u %s keys", s->index_bytes, s->rows,
		                 k->is_coded ? "coded" : "raw");
	return WEIR_OK;
}
