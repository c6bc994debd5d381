/* What a trainer holds of a dense table whose pulls are coded: of each chunk the values that its server's reference had in some version (server/partition/delta_base.h), bit for
 * bit, and which version that is. Answers may overlap, or come out of their order, as pulls are in flight together: differences that are in already are passed over,
 * an older refresh changes nothing, and what does not fit is not taken.
 *
 * One thread, the client's loop, but for creating and destroying. */
#ifndef WEIR_HELD_H
#define WEIR_HELD_H

#include <stdint.h>

#include "common/base/message.h"
#include "kernels/difference.h"
#include "weir/status.h"
#include "weir/table.h"

#define HELD_SCRATCH_BYTES DIFFERENCE_BYTES_MAX

struct held;

bool held_is_needed(const weir_table_spec *spec);
/* NULL: E_MEMORY. Takes 4 bytes for each element. */
struct held *held_create(const weir_table_spec *spec, weir_error *err);
void held_destroy(struct held *h); /* NULL: nothing */
/* Nothing is held of an incarnation (of the client) before this one; nothing happens when it is told again. */
void held_begin(struct held *h, uint64_t incarnation);

struct held_version {
	uint64_t origin, version; /* 0, 0: nothing */
};
struct held_version held_version(const struct held *h, uint64_t chunk);
/* All of the chunk; valid numbers once something is held. */
const float *held_values(const struct held *h, uint64_t chunk);
/* Of the chunk's answer about, as things are. */
size_t held_expected(const struct held *h, uint64_t chunk);

/* Takes the part of an answer that is about the chunk, from *data, of that origin. scratch (HELD_SCRATCH_BYTES). OK: what is held is what the answer leads to, or later.
 * E_NOT_CURRENT: its differences do not begin where what is held ends: the chunk is forgotten, and must be asked for again. E_CORRUPT: what was
 * held, or an answer's first differences, stay. */
weir_status held_take(struct held *h, uint64_t chunk, uint64_t origin, struct cursor *data, uint8_t *scratch,
                      weir_error *err) WEIR_MUST_CHECK;

#endif
