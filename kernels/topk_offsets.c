/* Offsets in a tile, in Elias-Fano code (elias_fano.h, most = n - 1): 16-bit numbers, a few hundred
 * at a time, copied to words of their own, so that nothing beyond the bytes is read or written. */
#include <string.h>

#include "kernels/topk_record.h"

#define WORD_BITS 64u
/* count * floor(log2((n - 1) / count)) grows with the count, to at most 2 bits each; count + (n - 1
 * >> bits) is below 3 count. */
#define LOW_BYTES_MAX  (TOPK_TILE_COUNT_MAX * 2 / 8)
#define HIGH_WORDS_MAX (3 * TOPK_TILE_COUNT_MAX / WORD_BITS)
_Static_assert(CODEC_TILE == 4 * TOPK_TILE_COUNT_MAX,
               "offsets of the fullest record have fewer than 2 low bits, of one less full by one 2");
_Static_assert(2 * CODEC_TILE <= UINT16_MAX, "what corrupt bits make of an offset is a 16-bit number");

void topk_offsets_encode(const uint16_t *offsets, size_t count, const struct topk_layout *l, uint8_t *out)
{
	uint64_t high[HIGH_WORDS_MAX], low = 0;
	uint32_t filled = 0;
	const uint32_t mask = (1u << l->low_bits) - 1;
	memset(high, 0, (l->high_bytes + 7) / 8 * 8);
	for (size_t i = 0; i < count; i++) {
		const uint32_t offset = offsets[i];
		const size_t at = (offset >> l->low_bits) + i;
		high[at / WORD_BITS] |= 1ull << at % WORD_BITS;
		low |= (uint64_t)(offset & mask) << filled;
		filled += l->low_bits;
		if (filled >= 32) {
			memcpy(out, &low, 4);
			out += 4;
			low >>= 32;
			filled -= 32;
		}
	}
	if (filled > 0) {
		memcpy(out, &low, 4);
		out += 4;
	}
	memcpy(out, high, l->high_bytes);
}

/* Whether exactly `count` bits are set, all among the first `bits`, which end in the last word. */
static bool has_bits(const uint64_t *words, size_t bytes, size_t bits, size_t count)
{
	size_t found = 0;
	const size_t all = (bytes + 7) / 8;
	for (size_t w = 0; w < all; w++)
		found += (size_t)__builtin_popcountll(words[w]);
	return found == count && (bits % WORD_BITS == 0 || words[bits / WORD_BITS] >> bits % WORD_BITS == 0);
}

static bool low_is_padded(const uint8_t *low, size_t bits)
{
	const uint32_t used = (uint32_t)bits % 32;
	uint32_t last;
	if (used == 0)
		return true;
	memcpy(&last, low + bits / 32 * 4, 4);
	return last >> used == 0;
}

bool topk_offsets_decode(const uint8_t *in, size_t n, size_t count, const struct topk_layout *l, uint16_t *offsets)
{
	uint64_t high[HIGH_WORDS_MAX];
	uint8_t low[LOW_BYTES_MAX + 4]; /* four bytes are read at any of them */
	const uint32_t bits = l->low_bits, mask = (1u << bits) - 1;
	const size_t words = (l->high_bytes + 7) / 8;
	if (count == 0)
		return true;
	memcpy(low, in, l->low_bytes);
	memset(low + l->low_bytes, 0, 4);
	high[words - 1] = 0;
	memcpy(high, in + l->low_bytes, l->high_bytes);
	if (!has_bits(high, l->high_bytes, count + ((n - 1) >> bits), count) || !low_is_padded(low, count * bits))
		return false;
	uint32_t i = 0;
	for (uint32_t w = 0; w < words; w++)
		for (uint64_t left = high[w]; left != 0; left &= left - 1, i++) {
			uint32_t four;
			memcpy(&four, low + i * bits / 8, 4);
			offsets[i] =
			    (uint16_t)((w * WORD_BITS + (uint32_t)__builtin_ctzll(left) - i) << bits | (four >> i * bits % 8 & mask));
		}
	int falls = offsets[count - 1] >= n;
	for (size_t k = 1; k < count; k++)
		falls |= offsets[k] <= offsets[k - 1];
	return !falls;
}
