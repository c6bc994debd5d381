/* Scores a part of the data with a model's weights: those of a running job, through libweir, or
 * those of a file from snapshot_save. */
#ifndef WEIR_SCORER_H
#define WEIR_SCORER_H

#include "common/job/job.h"
#include "weir/weir.h"
#include "worker/data/dataset.h"
#include "worker/data/quality/quality.h"
#include "worker/model/model.h"

struct scorer;

struct scorer_options {
	const struct job *job; /* outlives the scorer */
	uint32_t threads;      /* compute threads; 0: all cores */
	uint32_t turn;         /* index for this machine's devices (device.h) */
	/* One of: */
	weir_client *client; /* of a running job whose tables exist (E_NOT_FOUND otherwise); borrowed */
	const char *path;    /* of a safetensors file */
	/* With client: the shape of the job's data (dataset_get_info). With path the file has it. */
	struct model_data data;
	bool trusted;            /* with path: snapshot_trust */
	const char *fingerprint; /* with client: of the job, for scorer_save; may be NULL */
};

weir_status scorer_open(struct scorer **out, const struct scorer_options *options, weir_error *err);
void scorer_close(struct scorer *s);
/* The required shape of the data. */
const struct model_data *scorer_data(const struct scorer *s);

/* scores, in the order of the files. Clicks: (rows, tasks) the probability of each label; of
 * retrieval (rows) the logit of user and item. Text: (rows) the
 * logarithm of the probability of the next byte. Tokens: (rows, sequence) that of each target, 0
 * for TARGET_NONE. A status other than WEIR_OK ends the run with it. */
typedef weir_status (*scorer_rows_fn)(void *arg, const struct batch *batch, const float *scores, weir_error *err);
weir_status scorer_run(struct scorer *s, struct dataset *data, scorer_rows_fn rows, void *arg, weir_error *err);

/* Of retrieval: retrieval.c. Else rows count by their weights. The lists' figures are taken at
 * train.rank_at. Of several tasks, out has the figures of train.best_task, and the main ones of
 * each. */
weir_status scorer_evaluate(struct scorer *s, struct dataset *data, struct quality *out, weir_error *err);
/* Saves a running job's weights (snapshot.h). Needs a client. */
weir_status scorer_save(struct scorer *s, const char *path, weir_error *err);

#endif
