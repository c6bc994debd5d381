/* A trainer's copy of a dense table with coded pulls. For each chunk it holds the values that the
 * server's delta base had in some version (server/partition/delta_base.h), bit for bit, and that
 * version. Pulls are in flight together, so answers may overlap or arrive out of order. Differences
 * already applied are skipped, an older refresh changes nothing, and other answers that do not fit
 * are refused.
 *
 * Only one thread, the client's loop, uses it, except to create and destroy it. */
#ifndef WEIR_PULLED_BASE_H
#define WEIR_PULLED_BASE_H

#include <stdint.h>

#include "common/base/message.h"
#include "kernels/difference.h"
#include "weir/status.h"
#include "weir/table.h"

#define HELD_SCRATCH_BYTES DIFFERENCE_BYTES_MAX

struct pulled_base;

bool pulled_base_is_needed(const weir_table_spec *spec);
/* NULL: E_MEMORY. Takes 4 bytes per element. */
struct pulled_base *pulled_base_create(const weir_table_spec *spec, weir_error *err);
void pulled_base_destroy(struct pulled_base *h); /* NULL: no effect */
/* Drops values that belong to an earlier incarnation (of the client). No effect if `incarnation` is
 * the present one. */
void pulled_base_begin(struct pulled_base *h, uint64_t incarnation);

struct pulled_base_version {
	uint64_t origin, version; /* 0, 0: nothing */
};
struct pulled_base_version pulled_base_version(const struct pulled_base *h, uint64_t chunk);
/* The whole chunk; valid once a version is held. */
const float *pulled_base_values(const struct pulled_base *h, uint64_t chunk);
/* Approximate size of the chunk's answer, given the version now held. */
size_t pulled_base_expected(const struct pulled_base *h, uint64_t chunk);

/* Takes one chunk's part of an answer, from *data, of that origin. scratch (HELD_SCRATCH_BYTES).
 * OK: the chunk is at the answer's version, or a later one. E_NOT_CURRENT: the answer's differences
 * do not start at the version held; the chunk is forgotten and must be asked for again. E_CORRUPT:
 * the chunk stays as it was, or has the answer's first differences. */
weir_status pulled_base_take(struct pulled_base *h, uint64_t chunk, uint64_t origin, struct cursor *data, uint8_t *scratch,
                             weir_error *err) WEIR_MUST_CHECK;

#endif
