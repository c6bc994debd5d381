/* What trainers hold of a dense table whose pulls are coded (weir_pull_coding): of each chunk the reference, its version, and the newest differences that have led
 * to it. Version 1 is the chunk's value as it was; each further one is the reference before it plus a difference (kernels/difference.h) towards the value, so that
 * all who hold a version hold the same numbers, and what a difference leaves out comes with a later one.
 *
 * A version is made when somebody asks and enough has happened: `every` pushes since the last one, or as many questions of who holds that already while the reference
 * is not the value yet, so that without further pushes it becomes it, as far as the codec can tell. Who holds a version that the ring still leads from gets the
 * differences, who does not gets the reference. Where a difference would not be finite the value itself becomes the next version, which nobody
 * reaches by differences.
 *
 * Soft state of a primary: never logged, nor replicated, and gone when it is a primary no more. Its origin, a number that no other has, tells it from those that
 * were before it, here or elsewhere; so nobody adds a difference to what it does not fit. Costs 4 bytes an element, and up to 4 more in the ring. */
#ifndef WEIR_REFERENCE_H
#define WEIR_REFERENCE_H

#include "kernels/difference.h"
#include "server/store/store.h"

/* The ring keeps as many differences as together take no more than a refresh does, and at most: */
#define REFERENCE_DIFFERENCES_MAX 64u

struct reference;

struct reference_work { /* memory that making a version needs */
	float *difference;  /* (WEIR_CHUNK) */
	uint8_t *coded;     /* (DIFFERENCE_BYTES_MAX) */
};

/* Of so many chunks, numbered from 0. origin: not 0. NULL: out of memory. */
struct reference *reference_create(const weir_pull_coding *coding, uint64_t chunks, uint64_t origin);
void reference_destroy(struct reference *r); /* NULL: nothing */
uint64_t reference_origin(const struct reference *r);

/* A chunk as it is now, n elements. */
struct reference_chunk {
	uint64_t number;
	const float *value;
	const struct row_meta *meta; /* NULL: nothing was pushed to it */
	size_t n;
};
/* Somebody who holds `held` of it (0: nothing of this origin) asks: a version is made if it is due. E_MEMORY: the chunk cannot have a reference. */
weir_status reference_ask(struct reference *r, const struct reference_chunk *c, uint64_t held,
                          const struct reference_work *work) WEIR_MUST_CHECK;
/* Of a chunk that was asked for: the answer's bytes, at most DIFFERENCES_HEADER_BYTES more than the chunk's, and the answer, as frame.h has it; both of what there
 * is now. */
size_t reference_answer_bytes(const struct reference *r, uint64_t chunk, uint64_t held, size_t n);
size_t reference_answer(const struct reference *r, uint64_t chunk, uint64_t held, size_t n, uint8_t *out);

uint64_t reference_version(const struct reference *r, uint64_t chunk);   /* 0: none yet */
const float *reference_value(const struct reference *r, uint64_t chunk); /* (n); NULL: none yet */
size_t reference_ring_bytes(const struct reference *r, uint64_t chunk);  /* of the differences that are kept */

#endif
