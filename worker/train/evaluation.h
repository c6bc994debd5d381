/* What an evaluator found, pass by pass, and its file RUN_DIR/evaluation.json:
 *     {"best_pass": 3, "valid": {"auc", "logloss", "calibration", "rows"}, "test": {...}, "passes": [{"pass", "auc", "logloss"}, ...]}
 * Passes count from 1 here. valid and test belong to the best pass; a part that was not evaluated, and a number that is undefined, is null. */
#ifndef WEIR_EVALUATION_H
#define WEIR_EVALUATION_H

#include <stdbool.h>
#include <stdint.h>

#include "job.h"
#include "scorer.h"

struct evaluated_pass {
	uint32_t pass;
	struct quality valid;
};

struct evaluation {
	struct evaluated_pass *passes;
	uint32_t passes_count, passes_capacity;
	bool has_best, has_valid, has_test; /* has_valid and has_test: of the best pass */
	uint32_t best_pass;
	struct quality valid, test;
	uint32_t since_best; /* evaluations without improvement */
};

void evaluation_free(struct evaluation *e);
/* Takes note of a pass; *improved tells whether it is the best so far by the job's metric and min_delta. */
weir_status evaluation_add(struct evaluation *e, const struct job *job, uint32_t pass, const struct quality *valid,
                           bool *improved, weir_error *err);
/* Whether the job's patience is at its end. */
bool evaluation_is_over(const struct evaluation *e, const struct job *job);
weir_status evaluation_write(const struct evaluation *e, const char *path, weir_error *err);

#endif
