/* Click data of any size from a planted model whose best possible AUC and logloss are known. worker/data/columns/synthetic_model.h says what is planted. */
#ifndef WEIR_GENERATE_H
#define WEIR_GENERATE_H

#include <stdbool.h>
#include <stdint.h>

#include "weir/status.h"

struct generate_options {
	const char *path; /* Criteo TSV is written here, and path.truth.json beside it, both atomically */
	uint64_t rows;    /* 1 to GENERATE_ROWS_MAX */
	uint64_t ids;     /* of all categorical vocabularies together; WEIR_GENERATE_IDS_MIN to WEIR_GENERATE_IDS_MAX */
	uint64_t seed;
	uint32_t threads;                              /* 0: one per core; the bytes do not depend on it */
	uint32_t split_train, split_valid, split_test; /* shares, as in the job; all 0: no split */
};
#define GENERATE_ROWS_MAX (1ull << 31)

/* What the best possible predictor, the planted probability itself, reaches on these rows. */
struct generate_scores {
	uint64_t rows, clicks;
	double auc;                            /* of the true logit against the drawn labels */
	double logloss;                        /* of the true probability against the drawn labels */
	double auc_expected, logloss_expected; /* over the drawing of labels: AUC of pairs weighed by p(1-p'), mean entropy */
};
struct generate_truth {
	uint64_t ids, ids_seen; /* in the vocabularies; occurring in the rows */
	uint64_t bytes;
	struct generate_scores all, train, valid, test;
};

/* Writes the file and its truth. The same options give the same bytes. */
weir_status generate_criteo(const struct generate_options *options, struct generate_truth *out, weir_error *err);
/* Whether `path` and its truth exist already and were made with these options; *out is then read from the truth file. */
bool generate_is_current(const struct generate_options *options, struct generate_truth *out);
/* Reads path.truth.json. E_NOT_FOUND when there is none. */
weir_status generate_read_truth(const char *path, struct generate_truth *out, weir_error *err);

#endif
