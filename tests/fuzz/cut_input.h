/* Inputs that a reader must read alike however they are cut into spans.
 *
 * Input: u8 bytes per span (0: 256), u8 flags (bit 0: repair the checksums; the target defines the
 * others), the bytes. */
#ifndef CUT_INPUT_H
#define CUT_INPUT_H

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/proto/pieces.h"

enum { CUT_INPUT_HEADER = 2, CUT_INPUT_REPAIR = 1 };

/* Calls check with a copy of the bytes, repaired if the input asks for it. Returns 0, as
 * LLVMFuzzerTestOneInput does. */
static inline int cut_input(const uint8_t *data, size_t size, void (*repair)(uint8_t *bytes, size_t n),
                            void (*check)(const uint8_t *bytes, size_t n, size_t cut, uint8_t flags))
{
	if (size < CUT_INPUT_HEADER)
		return 0;
	const size_t n = size - CUT_INPUT_HEADER;
	uint8_t *bytes = malloc(n ? n : 1);
	assert(bytes);
	memcpy(bytes, data + CUT_INPUT_HEADER, n);
	if (data[1] & CUT_INPUT_REPAIR)
		repair(bytes, n);
	check(bytes, n, data[0] ? data[0] : 256, data[1]);
	free(bytes);
	return 0;
}

/* Returns an input with the message's bytes, from malloc. Releases m. */
static inline uint8_t *cut_input_seed(uint8_t cut, uint8_t flags, struct message *m, size_t *size)
{
	uint8_t *bytes = pieces_join(m), *seed = malloc(m->bytes + CUT_INPUT_HEADER);
	assert(seed);
	*size = m->bytes + CUT_INPUT_HEADER;
	seed[0] = cut;
	seed[1] = flags;
	memcpy(seed + CUT_INPUT_HEADER, bytes, m->bytes);
	free(bytes);
	message_release(m);
	return seed;
}

#endif
