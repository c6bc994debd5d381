/* Generates click data of any size from a synthetic model (synthetic_model.h) whose best possible
 * AUC and logloss are known. */
#ifndef WEIR_GENERATE_CLICKS_H
#define WEIR_GENERATE_CLICKS_H

#include <stdbool.h>
#include <stdint.h>

#include "weir/status.h"

struct generate_options {
	/* Output: Criteo TSV, with path.truth.json beside it. Both are written atomically. */
	const char *path;
	uint64_t rows; /* 1 to GENERATE_ROWS_MAX */
	/* Size of all categorical vocabularies together; WEIR_GENERATE_IDS_MIN to
	 * WEIR_GENERATE_IDS_MAX. */
	uint64_t ids;
	uint64_t seed;
	uint32_t threads;                              /* 0: one per core; does not affect the bytes */
	uint32_t split_train, split_valid, split_test; /* shares, as in the job; all 0: no split */
};
#define GENERATE_ROWS_MAX (1ull << 31)

/* Scores on these rows of the best possible predictor, the model's own probability. */
struct generate_scores {
	uint64_t rows, clicks;
	double auc;     /* of the true logit for the drawn labels */
	double logloss; /* of the true probability for the drawn labels */
	/* Expectations over the drawing of labels: AUC of pairs weighed by p(1-p'), mean entropy. */
	double auc_expected, logloss_expected;
};
struct ground_truth {
	uint64_t ids, ids_seen; /* in the vocabularies; among these, in the rows */
	uint64_t bytes;
	struct generate_scores all, train, valid, test;
};

/* Writes the file and its truth. Equal options give equal bytes. */
weir_status generate_criteo(const struct generate_options *options, struct ground_truth *out, weir_error *err);
/* Returns whether `path` and its truth file exist and have these options. If so, reads *out from
 * the truth file. */
bool generate_is_current(const struct generate_options *options, struct ground_truth *out);
/* Reads path.truth.json. E_NOT_FOUND: no such file. */
weir_status generate_read_ground_truth(const char *path, struct ground_truth *out, weir_error *err);

#endif
