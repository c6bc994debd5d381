/* A job's weights in this process, for `weir export` and `weir generate`: the model and its dense
 * table. */
#ifndef WEIR_JOB_WEIGHTS_H
#define WEIR_JOB_WEIGHTS_H

#include "cli/verbs/scoring.h"
#include "worker/train/batch/tables.h"
#include "worker/train/score/snapshot.h"

struct job_weights {
	const struct job *job;
	struct backend *backend;
	struct model *model;
	struct snapshot *snapshot; /* NULL: weights of the running job, or of a checkpoint */
	struct tables tables;
	float *trained; /* (elements of the dense table) in host memory, once read */
};

/* Opens the weights that scoring_open found. where: NULL: on the CPU, which computes fp32 as fp32.
 * The caller closes *w, also after an error. */
weir_status job_weights_open(struct job_weights *w, const struct scoring *s, const struct job *job,
                             const struct backend_options *where, weir_error *err) WEIR_MUST_CHECK;
weir_status job_weights_read(struct job_weights *w, const struct scoring *s, weir_error *err) WEIR_MUST_CHECK;
void job_weights_close(struct job_weights *w);

#endif
