/* Assigns lines to the parts of a split: a line's IEEE CRC-32 (without its newline) modulo the
 * reduced sum of the shares decides its part.
 *
 * Shares 80/10/10 give modulo 10: 0 to 7 train, 8 valid, 9 test. */
#ifndef WEIR_LINE_SPLIT_H
#define WEIR_LINE_SPLIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "worker/data/format/batch.h"

struct split {
	bool on; /* false: every line is SPLIT_TRAIN */
	uint32_t modulus, valid_from, test_from;
};

/* All shares 0 turn the split off. */
struct split split_of(uint32_t train, uint32_t valid, uint32_t test);
enum split_part split_line(const struct split *s, const char *line, size_t n);

#endif
