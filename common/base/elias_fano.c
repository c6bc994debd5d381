/* The decoder works in blocks. It first reads the high bits of a block, by looking for set bits in
 * words of 64, and then the low bits. The low bits of a block may begin at any bit of a byte; the
 * decoder reads them by unaligned loads from a copy that may be read beyond its end. */
#include "common/base/elias_fano.h"

#include <assert.h>
#include <string.h>

#define BLOCK     512u
#define WORD_BITS 64u
/* bits that one load of 8 bytes surely holds, for a number that begins at any bit of a byte */
#define ONE_LOAD_BITS  57u
#define PADDING        4u /* bytes */
#define LOW_BITS_BYTES (BLOCK * WORD_BITS / 8)

static uint32_t low_bits(size_t count, uint64_t most)
{
	const uint64_t each = most / count;
	return each ? WORD_BITS - 1 - (uint32_t)__builtin_clzll(each) : 0;
}

static size_t padded(uint64_t bits)
{
	return (size_t)((bits + 8 * PADDING - 1) / (8 * PADDING) * PADDING);
}

static size_t low_bytes(size_t count, uint32_t l)
{
	return padded((uint64_t)count * l);
}

static size_t high_bytes(size_t count, uint64_t most, uint32_t l)
{
	return padded(count + (most >> l));
}

size_t elias_fano_bytes(size_t count, uint64_t most)
{
	if (count == 0)
		return 0;
	const uint32_t l = low_bits(count, most);
	return low_bytes(count, l) + high_bytes(count, most, l);
}

/* --- Encoding. The i-th number is in[i] - base - i * step. */

static void encode_low(const uint64_t *in, size_t count, uint64_t base, uint64_t step, uint32_t l, uint8_t *out)
{
	const uint64_t mask = ((uint64_t)1 << l) - 1;
	uint64_t word = 0;
	uint32_t have = 0;
	const uint8_t *end = out + low_bytes(count, l);
	for (size_t i = 0; l && i < count; i++) {
		const uint64_t bits = (in[i] - base - i * step) & mask;
		word |= bits << have;
		have += l;
		if (have < WORD_BITS)
			continue;
		memcpy(out, &word, sizeof word);
		out += sizeof word;
		have -= WORD_BITS;
		word = have ? bits >> (l - have) : 0;
	}
	memcpy(out, &word, (size_t)(end - out));
}

static void encode_high(const uint64_t *in, size_t count, uint64_t base, uint64_t step, uint32_t l, uint8_t *out, size_t bytes)
{
	uint64_t word = 0, words = 0;
	for (size_t i = 0; i < count; i++) {
		const uint64_t bit = ((in[i] - base - i * step) >> l) + i;
		for (; words < bit / WORD_BITS; words++, word = 0)
			memcpy(out + words * sizeof word, &word, sizeof word);
		word |= (uint64_t)1 << bit % WORD_BITS;
	}
	const size_t at = words * sizeof word, n = bytes - at < sizeof word ? bytes - at : sizeof word;
	memcpy(out + at, &word, n);
	memset(out + at + n, 0, bytes - at - n);
}

static void encode(const uint64_t *in, size_t count, uint64_t base, uint64_t step, uint64_t most, uint8_t *out)
{
	if (count == 0)
		return;
	const uint32_t l = low_bits(count, most);
	encode_low(in, count, base, step, l, out);
	encode_high(in, count, base, step, l, out + low_bytes(count, l), high_bytes(count, most, l));
}

void elias_fano_encode(const uint64_t *numbers, size_t count, uint64_t most, uint8_t *out)
{
	encode(numbers, count, 0, 0, most, out);
}

void elias_fano_encode_distinct(const uint64_t *numbers, size_t count, uint64_t base, uint64_t most, uint8_t *out)
{
	encode(numbers, count, base, 1, most, out);
}

/* --- Decoding */

void elias_fano_begin(struct elias_fano *e, struct cursor in, size_t count, uint64_t most)
{
	*e = (struct elias_fano){.most = most};
	e->damaged = in.left != elias_fano_bytes(count, most);
	if (e->damaged || count == 0)
		return;
	e->low_bits = low_bits(count, most);
	e->low = cursor_take(&in, low_bytes(count, e->low_bits));
	e->high = in;
	e->left = count;
	e->place = 0 - (uint64_t)WORD_BITS;
}

/* Reads the next 64 high bits, or the last 32. False: there are no more. */
static bool next_word(struct cursor *high, uint64_t *word)
{
	*word = 0;
	return high->left && cursor_read(high, word, high->left < sizeof *word ? high->left : sizeof *word) == WEIR_OK;
}

/* Reads the high bits of at most n numbers. Fewer: too few bits are set. */
static size_t take_high(struct elias_fano *e, uint64_t *numbers, size_t n)
{
	uint64_t word = e->word, place = e->place;
	size_t i = 0;
	while (i < n) {
		if (!word) {
			if (!next_word(&e->high, &word))
				break;
			place += WORD_BITS;
			continue;
		}
		numbers[i++] = place-- + (uint64_t)__builtin_ctzll(word);
		word &= word - 1;
	}
	e->word = word;
	e->place = place;
	return i;
}

static uint64_t load(const uint8_t *p)
{
	uint64_t word;
	memcpy(&word, p, sizeof word);
	return word;
}

/* Shifts in the low bits of n numbers. */
static void take_low(struct elias_fano *e, uint64_t *numbers, size_t n)
{
	uint8_t bytes[LOW_BITS_BYTES + 2 * sizeof(uint64_t)];
	const uint32_t l = e->low_bits, taken = e->low_taken;
	const uint64_t mask = ((uint64_t)1 << l) - 1;
	const size_t end = taken + n * l, whole = end / 8, partly = (end + 7) / 8;
	struct cursor here = e->low;
	weir_status status = cursor_read(&here, bytes, partly);
	if (!status)
		status = cursor_skip(&e->low, whole);
	assert(status == WEIR_OK); /* low bits exist for all remaining numbers */
	memset(bytes + partly, 0, 2 * sizeof(uint64_t));
	e->low_taken = (uint32_t)(end % 8);
	if (l <= ONE_LOAD_BITS)
		for (size_t i = 0, at = taken; i < n; i++, at += l)
			numbers[i] = numbers[i] << l | (load(bytes + at / 8) >> at % 8 & mask);
	else
		for (size_t i = 0, at = taken; i < n; i++, at += l) {
			const uint64_t behind = (uint64_t)bytes[at / 8 + sizeof(uint64_t)] << 1 << (WORD_BITS - 1 - at % 8);
			numbers[i] = numbers[i] << l | ((load(bytes + at / 8) >> at % 8 | behind) & mask);
		}
}

static size_t next_block(struct elias_fano *e, uint64_t *numbers, size_t n)
{
	const size_t got = take_high(e, numbers, n);
	if (got < n || numbers[n - 1] > e->most >> e->low_bits) {
		e->damaged = true;
		return 0;
	}
	if (e->low_bits)
		take_low(e, numbers, n);
	bool falls = numbers[0] < e->last;
	for (size_t i = 1; i < n; i++)
		falls |= numbers[i] < numbers[i - 1];
	e->last = numbers[n - 1];
	e->left -= n;
	e->damaged = falls || e->last > e->most;
	return e->damaged ? 0 : n;
}

size_t elias_fano_next(struct elias_fano *e, uint64_t *numbers, size_t max)
{
	const size_t want = e->left < max ? e->left : max;
	size_t have = 0;
	while (have < want && !e->damaged) {
		const size_t n = want - have < BLOCK ? want - have : BLOCK;
		have += next_block(e, numbers + have, n);
	}
	return have;
}

bool elias_fano_is_whole(const struct elias_fano *e)
{
	struct cursor high = e->high, low = e->low;
	uint64_t rest = e->word, padding = 0;
	if (e->damaged || e->left || low.left > sizeof padding || cursor_read(&low, &padding, low.left))
		return false;
	while (!rest && next_word(&high, &rest))
		;
	return rest == 0 && padding >> e->low_taken == 0;
}

weir_status elias_fano_decode(const uint8_t *in, size_t bytes, size_t count, uint64_t most, uint64_t *numbers, weir_error *err)
{
	struct span span = {in, bytes};
	struct message m = {.count = 1, .bytes = bytes, .spans = &span};
	struct elias_fano e;
	elias_fano_begin(&e, cursor_at(&m), count, most);
	if (elias_fano_next(&e, numbers, count) == count && elias_fano_is_whole(&e))
		return WEIR_OK;
	return weir_fail(err, WEIR_E_CORRUPT, "%zu bytes are not %zu rising numbers up to %llu", bytes, count,
	                 (unsigned long long)most);
}
