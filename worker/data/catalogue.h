/* The items among which a model retrieves: the distinct ones of the job's data, each with the
 * columns of its first row that the item's tower reads. */
#ifndef WEIR_CATALOGUE_H
#define WEIR_CATALOGUE_H

#include "common/job/job.h"
#include "worker/data/format/rows.h"
#include "worker/data/item_index.h"

struct catalogue {
	struct item_index items;
	struct rows rows; /* row i is item i; the user's fields are empty */
};

/* Reads all parts of the job's data. field: of the items' ids. Destroy *out also after an error. */
weir_status catalogue_read(struct catalogue *out, const struct job *job, uint32_t field, weir_error *err) WEIR_MUST_CHECK;
/* The same of the training part alone. */
weir_status catalogue_read_training(struct catalogue *out, const struct job *job, uint32_t field,
                                    weir_error *err) WEIR_MUST_CHECK;
void catalogue_destroy(struct catalogue *c);
/* Items [first, first + count) as a batch, whose memory is reused. */
weir_status catalogue_batch(const struct catalogue *c, uint32_t first, uint32_t count, struct batch *out,
                            weir_error *err) WEIR_MUST_CHECK;

#endif
