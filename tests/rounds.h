/* How often a test tries what is random, or the same with other numbers. WEIR_ROUNDS_PART=N asks for one of N rounds: `make test` does so, `make soak` has all of
 * them. What is a case of its own is no round. */
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
