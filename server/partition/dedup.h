/* The dedup table of a partition: which parts of which batches it has seen. It makes a push count
 * once.
 *
 * A unit (pass, unit) is unknown, open or closed. An open unit has an attempt, which only grows.
 * For each of its batches it has a word with one bit per part. The bit is set once the part was
 * applied, refused for good or dropped, or waits in an open step. A closed unit is below the
 * low-water mark or in a small set above it, and never becomes unknown again. */
#ifndef WEIR_DEDUP_H
#define WEIR_DEDUP_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/frame/frame.h"

/* The state of a synchronous batch's step. A batch has one step; parts that arrive after it has
 * closed do not wait for another and are dropped. */
enum batch_step { BATCH_STEP_OPEN, BATCH_STEP_INCLUDED, BATCH_STEP_DROPPED };

struct unit {
	uint64_t key;     /* pass << 32 | unit */
	uint32_t attempt; /* the highest that was sealed or pushed */
	uint32_t batches; /* capacity of parts and steps */
	uint64_t *parts;  /* (batches) bit p: part p of the batch is known */
	uint8_t *steps;   /* (batches) enum batch_step */
};

struct dedup {
	struct unit **open; /* (open_count) sorted by key */
	uint32_t open_count, open_capacity;
	uint64_t low;     /* units with a smaller key are closed */
	uint64_t *closed; /* (closed_count) sorted keys of the closed units at or above low */
	uint32_t closed_count, closed_capacity;
};

_Static_assert(WEIR_BATCH_PARTS_MAX == 64, "a batch's parts are one word");

static inline uint64_t dedup_key(uint32_t pass, uint32_t unit)
{
	return (uint64_t)pass << 32 | unit;
}

void dedup_destroy(struct dedup *d);
bool dedup_is_closed(const struct dedup *d, uint64_t key);
struct unit *dedup_find(const struct dedup *d, uint64_t key); /* an open unit, or NULL */
/* The verdict on a push: OK (new), DUPLICATE, DROPPED (known, and its step closed without it),
 * STALE, LIMIT (too many units are open). */
weir_status dedup_check(const struct dedup *d, const struct record *push);
/* The verdict on a seal: OK (new, or repeated), DUPLICATE (closed), STALE, LIMIT. */
weir_status dedup_check_seal(const struct dedup *d, const struct record *seal);
/* Returns the open unit, and opens it if necessary. It then has room for `batches` batches and an
 * attempt of at least `attempt`. NULL: out of memory. */
struct unit *dedup_open(struct dedup *d, uint64_t key, uint32_t attempt, uint32_t batches);
/* Sets a part's bit. False: it was set already. The unit needs room for the batch. */
bool dedup_mark(struct unit *u, uint32_t batch, uint32_t part);
enum batch_step dedup_batch_step(const struct unit *u, uint32_t batch);
/* dedup_retire closes all units below low, and unit `one` if has_one. dedup_retires tells
 * whether that would change anything; E_LIMIT: it would leave too many closed units above low. */
weir_status dedup_retires(const struct dedup *d, uint64_t low, bool has_one, uint64_t one, bool *changes);
weir_status dedup_retire(struct dedup *d, uint64_t low, bool has_one, uint64_t one);

#endif
