/* How often a test tries what is random. WEIR_ROUNDS_PART=N asks for one of N rounds: `make test` does so under sanitizers, where each takes ten times as long as
 * released; released, and in `make soak`, tests have all of them. What is a case of its own is no round. */
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
