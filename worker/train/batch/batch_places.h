/* The position of a batch in the whole training: the number of batches before it, in the order of
 * the passes and of each pass's units. It is a function of the job and its data, so every worker
 * finds the same position at any time. Schedules use it. */
#ifndef WEIR_BATCH_PLACES_H
#define WEIR_BATCH_PLACES_H

#include "common/job/job.h"
#include "worker/data/dataset.h"

struct batch_places {
	const struct job *job;
	const struct dataset *dataset;
	/* (units + 1) batches before the unit at each place of `pass`; NULL: none yet */
	uint64_t *before;
	uint32_t pass; /* the pass of `before` */
};

/* Batches of a pass. A unit that is not read before it is executed counts as data.unit_batches. */
uint64_t batch_places_pass(const struct job *job, const struct dataset *d);
/* *out: counted from 0. place: of the unit in its pass's order. E_MEMORY. */
weir_status batch_places_find(struct batch_places *p, uint32_t pass, uint32_t place, uint32_t batch, uint64_t *out,
                              weir_error *err) WEIR_MUST_CHECK;
void batch_places_destroy(struct batch_places *p);

#endif
