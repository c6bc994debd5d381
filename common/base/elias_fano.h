/* Elias-Fano coding of rising integers in little more than the minimum number of bits (Elias 1974,
 * Fano 1971). It stores the low bits of each number as they are, and the high bits as gaps in
 * unary. The format of `count` numbers, none above `most`, with l = floor(log2(most / count)); l is
 * 0 if most < count:
 *   count x l bits: the low bits, the first number's in the lowest bits of the first byte
 *   count + (most >> l) bits: bit (number >> l) + i is set for the i-th number
 * Each part is padded with zeros to a multiple of 4 bytes. Count 0 takes no bytes. Counts are below
 * 2^32. */
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
/* Encodes numbers[i] - base - i: for numbers that all differ and are not below base, this needs
 * fewer bits. */
void elias_fano_encode_distinct(const uint64_t *numbers, size_t count, uint64_t base, uint64_t most, uint8_t *out);
/* E_CORRUPT: `bytes` is not the encoded size, too few or too many bits are set, or a number is
 * above most or below the one before it. */
weir_status elias_fano_decode(const uint8_t *in, size_t bytes, size_t count, uint64_t most, uint64_t *numbers,
                              weir_error *err) WEIR_MUST_CHECK;

/* An incremental decoder that reads from a cursor. It returns at most `count` numbers from any
 * bytes. After the last number, elias_fano_is_whole tells whether they are what was encoded. */
struct elias_fano {
	struct cursor low, high;
	size_t left; /* numbers not yet returned */
	uint64_t word;
	/* place of bit 0 of `word` among the high bits, minus the numbers returned so far */
	uint64_t place;
	uint64_t most, last;
	uint32_t low_bits;  /* of each number */
	uint32_t low_taken; /* bits of the byte that low is at */
	bool damaged;
};
/* in: exactly the encoded bytes */
void elias_fano_begin(struct elias_fano *e, struct cursor in, size_t count, uint64_t most);
/* fewer than max only at the end */
size_t elias_fano_next(struct elias_fano *e, uint64_t *numbers, size_t max);
/* whether all numbers were returned and the bytes were valid */
bool elias_fano_is_whole(const struct elias_fano *e);

#endif
