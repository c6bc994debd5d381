/* Which part of a file a line belongs to: its IEEE CRC-32 (of the bytes without the newline) modulo the reduced sum of the shares. 80/10/10 is
 * modulo 10: 0 to 7 train, 8 valid, 9 test. */
#ifndef WEIR_SPLIT_H
#define WEIR_SPLIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "worker/data/format/batch.h"

struct split {
	bool on; /* off: every line is SPLIT_TRAIN */
	uint32_t modulus, valid_from, test_from;
};

/* Shares all 0: off. */
struct split split_of(uint32_t train, uint32_t valid, uint32_t test);
enum split_part split_line(const struct split *s, const char *line, size_t n);

#endif
