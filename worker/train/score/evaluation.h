/* What an evaluator found, pass by pass, and its file RUN_DIR/evaluation.json:
 *     {"best_pass": 3, "chosen_by": "auc", "valid": {"auc", "logloss", "calibration", "rows", "not_numbers"}, "test": {...},
 *      "passes": [{"pass", "auc", "logloss", "not_numbers"}, ...]}
 * Passes count from 1 there. best_pass is the one whose weights are in best.safetensors, null while none are; valid and test are of it. chosen_by says what made it
 * so: its auc or its logloss, or that it was the last. A part that was not evaluated, and a number that is undefined, is null. Of text, logloss is the loss, in nats
 * a byte; the others are null. not_numbers counts scores that are NaN or infinite: a pass with such is never the best, and its figures are undefined.
 *
 * The file is the evaluator's memory: written before the ledger hears of a pass, read when an evaluator starts. A pass that is evaluated again (the ledger
 * had not heard of it, or the job was set back to a checkpoint) is forgotten first, with all that came after it. */
#ifndef WEIR_EVALUATION_H
#define WEIR_EVALUATION_H

#include <stdbool.h>
#include <stdint.h>

#include "common/job/job.h"
#include "worker/train/score/scorer.h"

struct evaluated_pass {
	uint32_t pass;
	double auc, logloss; /* of the validation part; NaN: undefined */
	uint64_t not_numbers;
};

enum evaluation_choice { CHOSEN_AS_LAST, CHOSEN_BY_AUC, CHOSEN_BY_LOGLOSS };

struct evaluation {
	struct evaluated_pass *passes; /* (passes_count), in the order of training */
	uint32_t passes_count, passes_capacity;
	uint32_t leader;                    /* which of them is the best by the job's metric and min_delta */
	bool has_best, has_valid, has_test; /* has_valid and has_test: of the best pass */
	uint32_t best_pass;                 /* whose weights are saved: the leader, or the last one where nothing chooses */
	enum evaluation_choice chosen_by;   /* of the best pass */
	struct quality valid, test;
};

void evaluation_free(struct evaluation *e);
/* Reads what evaluation_write wrote; a missing file is one without passes. E_PARSE, E_CORRUPT with its path. Free *e also after an error. */
weir_status evaluation_read(struct evaluation *e, const struct job *job, const char *path, weir_error *err);
/* Atomically. */
weir_status evaluation_write(const struct evaluation *e, const char *path, weir_error *err);

/* Forgets pass `from` and all after it, and the best pass when it is one of them: its weights are no longer those of this training. */
void evaluation_forget(struct evaluation *e, const struct job *job, uint32_t from);
/* Takes note of a pass. */
weir_status evaluation_add(struct evaluation *e, const struct job *job, const struct evaluated_pass *pass, weir_error *err);
/* What chooses between passes of that quality: the job's metric, or the logloss where the AUC is undefined (one class only). */
enum evaluation_choice evaluation_chooser(const struct job *job, const struct quality *valid);
/* Whether a pass of this quality is better than the one whose weights are saved, by the job's metric and min_delta. Never where a score was no number. */
bool evaluation_improves(const struct evaluation *e, const struct job *job, const struct quality *valid);
/* Whether the job's patience is at its end. */
bool evaluation_is_over(const struct evaluation *e, const struct job *job);

#endif
