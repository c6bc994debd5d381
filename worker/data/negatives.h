/* Negative sampling for retrieval: items that join each batch as rows without a user, whose label
 * is 0. The loss takes them as negatives of all other rows (struct in_batch).
 *
 * They are drawn with replacement from the items of the training part, by how often those are there
 * to the power of model.negatives_power: 0 draws them evenly, 1 as the data do. A draw is a
 * function of its seed, so that every attempt of a batch has the same negatives. */
#ifndef WEIR_NEGATIVES_H
#define WEIR_NEGATIVES_H

#include "worker/data/catalogue.h"

struct negatives {
	uint32_t count; /* that join a batch; 0: none */
	struct catalogue catalogue;
	double *ends; /* (items) the sum of the items' chances up to each; the last is 1 */
};

/* counts: as item_counts_read gives them. field: of the items' ids. Destroy *out also after an
 * error. */
weir_status negatives_open(struct negatives *out, const struct job *job, uint32_t field, const struct item_index *counts,
                           weir_error *err) WEIR_MUST_CHECK;
void negatives_destroy(struct negatives *n);
/* Copies a batch to *out, whose memory is reused, and appends negatives. */
weir_status negatives_join(const struct negatives *n, const struct batch *batch, uint64_t seed, struct batch *out,
                           weir_error *err) WEIR_MUST_CHECK;
/* The chance of an item to be drawn; 0 if it is not in the training part. */
double negatives_chance(const struct negatives *n, uint64_t key);

#endif
