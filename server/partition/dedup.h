/* Which parts of which batches a partition has seen: the memory that makes a push count once.
 *
 * A unit (pass, unit) is unknown, open or closed. An open unit has an attempt, which only grows, and for each of its batches a word of bits,
 * one per part: set when the part was applied, refused for good, dropped, or waits in an open step. A closed unit is below the low-water
 * mark or in a small set above it; nothing of it is ever unknown again. */
#ifndef WEIR_IDENTITY_H
#define WEIR_IDENTITY_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/frame/frame.h"

/* Whether the step of a synchronous batch has closed. It has one step: what of the batch comes later waits for none and is dropped. */
enum batch_step { BATCH_STEP_OPEN, BATCH_STEP_INCLUDED, BATCH_STEP_DROPPED };

struct unit {
	uint64_t key;     /* pass << 32 | unit */
	uint32_t attempt; /* the highest sealed or pushed */
	uint32_t batches; /* room in parts and steps */
	uint64_t *parts;  /* (batches) bit p: part p of the batch is known */
	uint8_t *steps;   /* (batches) enum batch_step */
};

struct identity {
	struct unit **open; /* (open_count) sorted by key */
	uint32_t open_count, open_capacity;
	uint64_t low;     /* units with a smaller key are closed */
	uint64_t *closed; /* (closed_count) sorted keys of closed units at or above low */
	uint32_t closed_count, closed_capacity;
};

_Static_assert(WEIR_BATCH_PARTS_MAX == 64, "a batch's parts are one word");

static inline uint64_t identity_key(uint32_t pass, uint32_t unit)
{
	return (uint64_t)pass << 32 | unit;
}

void identity_free(struct identity *d);
bool identity_is_closed(const struct identity *d, uint64_t key);
struct unit *identity_find(const struct identity *d, uint64_t key); /* an open unit, or NULL */
/* What a push meets: OK (new), DUPLICATE, DROPPED (known, and its step closed without it), STALE, LIMIT (too many units open). */
weir_status identity_check(const struct identity *d, const struct record *push);
/* What a seal meets: OK (new, or repeated), DUPLICATE (closed), STALE, LIMIT. */
weir_status identity_check_seal(const struct identity *d, const struct record *seal);
/* The open unit, opened if need be, with room for `batches` batches and its attempt at least `attempt`. NULL when out of memory. */
struct unit *identity_open(struct identity *d, uint64_t key, uint32_t attempt, uint32_t batches);
/* Sets a part's bit: false when it was set. Needs room for the batch. */
bool identity_mark(struct unit *u, uint32_t batch, uint32_t part);
enum batch_step identity_batch_step(const struct unit *u, uint32_t batch);
/* Closes all units below low, and unit `one` if has_one. identity_retires: whether that would change anything, E_LIMIT when too many would
 * be closed above low. */
weir_status identity_retires(const struct identity *d, uint64_t low, bool has_one, uint64_t one, bool *changes);
weir_status identity_retire(struct identity *d, uint64_t low, bool has_one, uint64_t one);

#endif
