/* What scorer.c shares with the evaluation of retrieval. */
#ifndef WEIR_SCORER_INTERNAL_H
#define WEIR_SCORER_INTERNAL_H

#include "worker/train/score/scorer.h"

/* As scorer_run, with the model's own scores: of retrieval (rows, 2 width) vectors of user and
 * item. */
weir_status scorer_run_raw(struct scorer *s, struct dataset *data, scorer_rows_fn rows, void *arg, weir_error *err);
/* Reads the flat tables, before scorer_score. */
weir_status scorer_load(struct scorer *s, weir_error *err);
/* Scores a batch that is not of a dataset, as scorer_run_raw does. */
weir_status scorer_score(struct scorer *s, const struct batch *batch, scorer_rows_fn rows, void *arg, weir_error *err);

const struct job *scorer_job(const struct scorer *s);
const struct model *scorer_model(const struct scorer *s);

/* retrieval.c: ranks the catalogue for each positive row of the data. catalogue: of the job, read
 * on the first call. */
struct catalogue;
weir_status scorer_evaluate_retrieval(struct scorer *s, struct catalogue *catalogue, struct dataset *data, struct quality *out,
                                      weir_error *err);

#endif
