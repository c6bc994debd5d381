/* Rising integers in a little more than the least number of bits (Elias 1974, Fano 1971): of each the low bits as they are, and the high ones as gaps in
 * unary. Of count numbers, none above `most`, with l = floor(log2(most / count)), 0 where most < count:
 *   count x l bits, the first number's in the lowest ones of the first byte, and so on
 *   count + (most >> l) bits, of which bit (number >> l) + i is set for the i-th number
 * each padded with zeros to a multiple of 4 bytes. Nothing at all where count is 0. Counts are below 2^32. */
#ifndef WEIR_ELIAS_FANO_H
#define WEIR_ELIAS_FANO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/message.h"
#include "weir/status.h"

size_t elias_fano_bytes(size_t count, uint64_t most);
/* numbers (count): rising or equal, none above most. out (elias_fano_bytes): any alignment. */
void elias_fano_encode(const uint64_t *numbers, size_t count, uint64_t most, uint8_t *out);
/* The same of numbers[i] - base - i, where the numbers rise and none is below base: what is left of them once it is known that they differ. */
void elias_fano_encode_distinct(const uint64_t *numbers, size_t count, uint64_t base, uint64_t most, uint8_t *out);
/* E_CORRUPT: `bytes` is not their size, too few or too many bits are set, a number is above most or below the one before it. */
weir_status elias_fano_decode(const uint8_t *in, size_t bytes, size_t count, uint64_t most, uint64_t *numbers,
                              weir_error *err) WEIR_MUST_CHECK;

/* The same some at a time, from wherever the bytes lie: of any bytes it hands out at most count numbers, and elias_fano_is_whole says in the end
 * whether those are what was encoded. */
struct elias_fano {
	struct cursor low, high;
	size_t left; /* numbers */
	uint64_t word;
	uint64_t place; /* of bit 0 of the word among the high bits, less the numbers handed out */
	uint64_t most, last;
	uint32_t low_bits;  /* of each number */
	uint32_t low_taken; /* bits of the byte that low is at */
	bool damaged;
};
void elias_fano_begin(struct elias_fano *e, struct cursor in, size_t count, uint64_t most); /* in: all of it */
size_t elias_fano_next(struct elias_fano *e, uint64_t *numbers, size_t max);                /* fewer than max only in the end */
bool elias_fano_is_whole(const struct elias_fano *e);                                       /* all were handed out */

#endif
