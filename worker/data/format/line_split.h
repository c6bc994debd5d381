/* Assigns rows to the parts of a split.
 *
 *   crc32   a line's IEEE CRC-32 (without its newline) modulo the reduced sum of the shares. Shares
 *           80/10/10 give modulo 10: 0 to 7 train, 8 valid, 9 test
 *   group   likewise, of a column's text in place of the line: a user's rows are in one part
 *   time    rows from one time on are valid, from a later one on test */
#ifndef WEIR_LINE_SPLIT_H
#define WEIR_LINE_SPLIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "worker/data/format/batch.h"

struct split {
	bool on;                                 /* false: every line is SPLIT_TRAIN */
	bool by_column, by_time;                 /* by group or time; by time */
	uint32_t modulus, valid_from, test_from; /* by crc32 or group */
	int64_t valid_ms, test_ms;               /* by time: where they begin; INT64_MAX: no such part */
};

/* All shares 0 turn the split off. */
struct split split_of(uint32_t train, uint32_t valid, uint32_t test);
enum split_part split_time(const struct split *s, int64_t ms);
enum split_part split_line(const struct split *s, const char *line, size_t n);

#endif
