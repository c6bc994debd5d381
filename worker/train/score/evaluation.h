/* An evaluator's results by pass, and its file RUN_DIR/evaluation.json:
 *     {"best_pass": 3, "chosen_by": "auc", "valid": {...}, "test": {...},
 *      "passes": [{"pass", "auc", "logloss", "pr_auc", ..., "hit_rate", "not_numbers"}, ...]}
 *
 * Passes count from 1 there. best_pass is the pass of the weights in best.safetensors, null before
 * the first. valid and test are the figures of that pass, in the form of quality_json.h. chosen_by
 * says why it was chosen: the figure by which it is the best (choices in evaluation.c), or "last"
 * because it was the last. A part that was not evaluated is null, and so are an undefined AUC and
 * logloss. A pass has those of quality_figures.h that are defined.
 * For text, logloss is the loss, in nats per byte, and the other figures are null. not_numbers
 * counts scores that are NaN or infinite: a pass with any is never the best, and its figures are
 * undefined.
 *
 * The file is the evaluator's memory: it is written before the ledger hears of a pass, and read
 * when an evaluator starts. A pass that is evaluated again (the ledger had not heard of it, or the
 * job went back to a checkpoint) is forgotten first, with all later ones. */
#ifndef WEIR_EVALUATION_H
#define WEIR_EVALUATION_H

#include <stdbool.h>
#include <stdint.h>

#include "common/job/job.h"
#include "worker/data/quality/quality_figures.h"
#include "worker/train/score/scorer.h"

struct evaluated_pass {
	uint32_t pass;
	double figures[QUALITY_FIGURES]; /* of the validation part; NaN: undefined */
	uint64_t not_numbers;
};

enum evaluation_choice {
	CHOSEN_AS_LAST,
	CHOSEN_BY_AUC,
	CHOSEN_BY_LOGLOSS,
	CHOSEN_BY_PR_AUC,
	CHOSEN_BY_GAUC,
	CHOSEN_BY_NDCG,
	CHOSEN_BY_RECALL,
	CHOSEN_BY_HIT_RATE
};

struct evaluation {
	struct evaluated_pass *passes; /* (passes_count), in the order of training */
	uint32_t passes_count, passes_capacity;
	/* index of the best by train.early_stop's metric and min_delta, for its patience */
	uint32_t leader;
	bool has_best, has_valid, has_test; /* has_valid and has_test: of the best pass */
	/* Pass of the saved weights: the best by job_best_by, or the last pass if nothing chooses. */
	uint32_t best_pass;
	enum evaluation_choice chosen_by; /* of the best pass */
	struct quality valid, test;
};

void evaluation_destroy(struct evaluation *e);
/* Reads a file of evaluation_write; a missing file has no passes. E_PARSE, E_CORRUPT with its path.
 * Free *e also after an error. */
weir_status evaluation_read(struct evaluation *e, const struct job *job, const char *path, weir_error *err);
/* Atomically. */
weir_status evaluation_write(const struct evaluation *e, const char *path, weir_error *err);

/* Forgets pass `from` and all later ones, and the best pass if it is one of them: its weights no
 * longer belong to this training. */
void evaluation_forget(struct evaluation *e, const struct job *job, uint32_t from);
/* Adds a pass. */
weir_status evaluation_add(struct evaluation *e, const struct job *job, const struct evaluated_pass *pass, weir_error *err);
/* The criterion between passes of that quality: the job's (job_best_by), or the logloss if that
 * figure is undefined, as the AUC of one class. */
enum evaluation_choice evaluation_chooser(const struct job *job, const struct quality *valid);
/* Whether a pass of this quality is better than that of the saved weights, by that criterion and
 * min_delta. Never if a score was NaN or infinite. */
bool evaluation_improves(const struct evaluation *e, const struct job *job, const struct quality *valid);
/* Whether the job's patience is used up. */
bool evaluation_is_over(const struct evaluation *e, const struct job *job);

#endif
