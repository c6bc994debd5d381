/* A byte pattern: byte i is start + step * i + (i >> 8), for an odd step. Tests write and compare
 * it in runs, so that a sanitizer checks each run once instead of each byte. */
#ifndef WEIR_TESTS_PATTERN_H
#define WEIR_TESTS_PATTERN_H

#include <stddef.h>
#include <stdint.h>

enum { PATTERN_BLOCK = 256 }; /* the values of a byte: a block is the wave from some offset on */

struct pattern {
	uint8_t wave[2 * PATTERN_BLOCK];
	uint32_t inverse; /* of the step */
};

static inline void pattern_init(struct pattern *p, uint32_t step)
{
	for (uint32_t i = 0; i < 2 * PATTERN_BLOCK; i++) {
		p->wave[i] = (uint8_t)(step * i);
		if (p->wave[i] == 1)
			p->inverse = i % PATTERN_BLOCK;
	}
}

/* The bytes from i on: `*run` of them, at most `left`. */
static inline const uint8_t *pattern_run(const struct pattern *p, uint64_t start, size_t i, size_t left, size_t *run)
{
	const size_t in_block = i % PATTERN_BLOCK, block = i / PATTERN_BLOCK;
	*run = left < PATTERN_BLOCK - in_block ? left : PATTERN_BLOCK - in_block;
	return p->wave + (start + block) * p->inverse % PATTERN_BLOCK + in_block;
}

#endif
