/* A job's weights in this process, as `weir export` and `weir generate` need them: the model, and its dense table. */
#ifndef WEIR_JOB_WEIGHTS_H
#define WEIR_JOB_WEIGHTS_H

#include "cli/verbs/scoring.h"
#include "worker/train/batch/tables.h"
#include "worker/train/score/snapshot.h"

struct job_weights {
	const struct job *job;
	struct backend *backend;
	struct model *model;
	struct snapshot *snapshot; /* NULL: of the running job, or of a checkpoint */
	struct tables tables;
	float *trained; /* (elements of the dense table) once they are read, the host's */
};

/* What scoring_open found. where: NULL: on the CPU, where fp32 is computed as fp32. Close *w also after an error. */
weir_status job_weights_open(struct job_weights *w, const struct scoring *s, const struct job *job,
                             const struct backend_options *where, weir_error *err) WEIR_MUST_CHECK;
weir_status job_weights_read(struct job_weights *w, const struct scoring *s, weir_error *err) WEIR_MUST_CHECK;
void job_weights_close(struct job_weights *w);

#endif
