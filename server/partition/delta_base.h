/* The delta base of a dense table whose pulls are coded (weir_pull_coding): the copy of the table
 * that trainers hold. For each chunk it has a version, the value of that version, and the newest
 * differences that led to it. Version 1 is the chunk's value at that time. Each further version is
 * the one before plus a coded difference (kernels/difference.h) towards the current value. So all
 * trainers with one version hold the same numbers, and a later difference makes up for what this
 * one leaves out.
 *
 * A pull makes a new version when one is due. It is due after `every` pushes since the last
 * version. It is also due after `every` pulls by holders of the newest version while that version
 * differs from the value; without further pushes it thus reaches the value, as far as the codec can
 * tell. A holder of a version that the ring still covers gets differences; any other trainer gets
 * the whole delta base. If a difference would not be finite, the value itself becomes the next
 * version, and no difference leads to it.
 *
 * A delta base is soft state of a primary: never logged, never replicated, dropped when the primary
 * steps down. Its origin, a unique number, tells it from earlier ones, here or on other servers, so
 * that nobody adds a difference to a wrong base. It costs 4 bytes per element, and up to 4 more in
 * the ring. */
#ifndef WEIR_DELTA_BASE_H
#define WEIR_DELTA_BASE_H

#include "kernels/difference.h"
#include "server/store/store.h"

/* The ring keeps at most so many differences, and at most as many bytes of them as the whole chunk
 * has. */
#define REFERENCE_DIFFERENCES_MAX 64u

struct delta_base;

struct delta_base_work { /* work memory for a new version */
	float *difference;   /* (WEIR_CHUNK) */
	uint8_t *coded;      /* (DIFFERENCE_BYTES_MAX) */
};

/* A delta base of so many chunks, numbered from 0. origin: not 0. NULL: out of memory. */
struct delta_base *delta_base_create(const weir_pull_coding *coding, uint64_t chunks, uint64_t origin);
void delta_base_destroy(struct delta_base *r); /* NULL does nothing */
uint64_t delta_base_origin(const struct delta_base *r);

/* The current value of a chunk of n elements. */
struct delta_base_chunk {
	uint64_t number;
	const float *value;
	const struct row_meta *meta; /* NULL: no push yet */
	size_t n;
};
/* Tells that a trainer with version `held` (0: none of this origin) asks for the chunk. Makes a
 * version if one is due. E_MEMORY: the chunk cannot have a delta base. */
weir_status delta_base_ask(struct delta_base *r, const struct delta_base_chunk *c, uint64_t held,
                           const struct delta_base_work *work) WEIR_MUST_CHECK;
/* The answer for a chunk after delta_base_ask, as frame.h describes it, and its size in bytes: at
 * most DIFFERENCES_HEADER_BYTES more than the chunk's. Both describe the present state. */
size_t delta_base_answer_bytes(const struct delta_base *r, uint64_t chunk, uint64_t held, size_t n);
size_t delta_base_answer(const struct delta_base *r, uint64_t chunk, uint64_t held, size_t n, uint8_t *out);

uint64_t delta_base_version(const struct delta_base *r, uint64_t chunk);   /* 0: none yet */
const float *delta_base_value(const struct delta_base *r, uint64_t chunk); /* (n); NULL: none yet */
/* of the differences in the ring */
size_t delta_base_ring_bytes(const struct delta_base *r, uint64_t chunk);

#endif
