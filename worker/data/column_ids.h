/* The dictionary of a column: its ids as texts, with the keys under which tables hold them.
 *
 * It is read from the files when it is wanted. A dictionary that workers keep while they train
 * would cost each of them the memory of all ids, and a merge; the files have every id that has a
 * row. */
#ifndef WEIR_COLUMN_IDS_H
#define WEIR_COLUMN_IDS_H

#include "common/base/text_index.h"
#include "worker/data/dataset.h"

struct column_ids {
	struct text_index *texts; /* in the order in which the files have them first */
	uint64_t *keys;           /* (texts) */
};

/* Reads the ids of a column, and of those that share its embeddings, from all files of the job. The
 * column has ids of its own: it shares no other's. The ids of a bucketized column are its numbers;
 * those of a bucket have one key. E_INVALID: the data have no lines of text. */
weir_status column_ids_read(struct column_ids *out, const struct job *job, const struct job_column *column, struct logger *logger,
                            weir_error *err) WEIR_MUST_CHECK;
void column_ids_destroy(struct column_ids *ids);

#endif
