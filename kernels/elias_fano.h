/* Rising integers in a little more than the least number of bits (Elias 1974, Fano 1971): of each the low bits as they are, and the high ones as gaps in
 * unary. Of count numbers, none above `most`, with l = floor(log2(most / count)), 0 where most < count:
 *   count x l bits, the first number's in the lowest ones of the first byte, and so on
 *   count + (most >> l) bits, of which bit (number >> l) + i is set for the i-th number
 * each padded with zeros to a multiple of 4 bytes. Nothing at all where count is 0. */
#ifndef WEIR_ELIAS_FANO_H
#define WEIR_ELIAS_FANO_H

#include <stddef.h>
#include <stdint.h>

#include "weir/status.h"

size_t elias_fano_bytes(size_t count, uint64_t most);
/* numbers (count): rising or equal, none above most. out (elias_fano_bytes): any alignment. */
void elias_fano_encode(const uint64_t *numbers, size_t count, uint64_t most, uint8_t *out);
/* E_CORRUPT: `bytes` is not their size, too few or too many bits are set, a number is above most. */
weir_status elias_fano_decode(const uint8_t *in, size_t bytes, size_t count, uint64_t most, uint64_t *numbers,
                              weir_error *err) WEIR_MUST_CHECK;

#endif
