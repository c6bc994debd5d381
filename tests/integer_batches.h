/* Batches of trainers that push small integers under SGD with rate 1, so that every row is an exact
 * sum over the batches that were applied. */
#ifndef WEIR_TESTS_INTEGER_BATCHES_H
#define WEIR_TESTS_INTEGER_BATCHES_H

#include <stdint.h>

#include "common/base/prng.h"
#include "weir/weir.h"

/* `count` distinct keys below `space`. */
static inline void integer_batch_keys(uint32_t data_unit, uint32_t batch, uint64_t space, uint32_t count, uint64_t *keys)
{
	for (uint64_t i = 0; i < count; i++)
		keys[i] = prng_permute(prng_mix(1, data_unit, batch), space, i);
}

/* The number that a batch adds to each element of its rows and to all dense elements. */
static inline float integer_batch_value(uint32_t data_unit, uint32_t batch)
{
	return (float)(1 + (data_unit * 7 + batch * 3) % 11);
}

/* The last batch of this one's round: its push to the dense table carries the whole round.
 * batches: of a unit. */
static inline uint32_t integer_round_end(const weir_unit *u, uint32_t batch, uint32_t batches)
{
	if (!u->local_steps)
		return batch;
	const uint32_t end = (batch / u->local_steps + 1) * u->local_steps;
	return (end < batches ? end : batches) - 1;
}

static inline weir_batch integer_batch_id(const weir_unit *u, uint32_t batch)
{
	return (weir_batch){.pass = u->pass, .unit = u->unit, .batch = batch, .attempt = u->attempt};
}

#endif
