/* Repetitions of random tests, or of tests with other numbers. WEIR_ROUNDS_PART=N runs one of N
 * rounds: `make test` sets it, `make soak` runs all. A distinct case is not a round. */
#ifndef WEIR_TESTS_ROUNDS_H
#define WEIR_TESTS_ROUNDS_H

#include <stdint.h>
#include <stdlib.h>

static inline uint32_t rounds(uint32_t all)
{
	const char *of = getenv("WEIR_ROUNDS_PART");
	const uint32_t n = of ? (uint32_t)strtoul(of, NULL, 10) : 1;
	return n > 1 ? (all + n - 1) / n : all;
}

#endif
