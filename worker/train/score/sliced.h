/* The quality of slices of a part: the rows with each value of a column. */
#ifndef WEIR_SLICED_H
#define WEIR_SLICED_H

#include "worker/train/score/scorer.h"

struct slice {
	char *value; /* NULL: the rest, all other values */
	struct quality quality;
};

struct sliced {
	struct slice *slices; /* (count) the one with the most rows first, the rest last */
	uint32_t count;
	uint64_t values;   /* different ones of the column */
	uint64_t left_out; /* lines that are no row, or have no label */
	struct quality all;
};

/* Evaluates the data of dataset_open_scored, once over all rows and for each of the `top` values
 * that have the most lines. Reads the files twice more, for the values. E_INVALID: not of CSV;
 * E_NOT_FOUND: no such column; E_LIMIT: it has more than WEIR_SLICE_VALUES_MAX values. Free *out
 * with sliced_destroy also after an error. */
weir_status scorer_evaluate_by(struct scorer *s, struct dataset *data, const struct job *job, const char *column, uint32_t top,
                               struct sliced *out, weir_error *err) WEIR_MUST_CHECK;
void sliced_destroy(struct sliced *s);

#endif
