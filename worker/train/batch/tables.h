/* The model's tables in a job: registers them and builds a batch's pulls and pushes. */
#ifndef WEIR_TABLES_H
#define WEIR_TABLES_H

#include "weir/weir.h"
#include "worker/data/dataset.h"
#include "worker/model/model.h"
#include "worker/train/batch/minibatch.h"

struct tables {
	const struct model *model;
	uint32_t ids[MODEL_TABLES];
	bool sync[MODEL_TABLES];  /* synchronous: must not be pulled ahead */
	bool keeps[MODEL_TABLES]; /* the worker may keep part of its gradients */
	bool local;               /* the worker has its own copy of the dense table (local_sgd.h) */
};

/* Length of the whole training. A schedule without a total of its own lasts as long. */
struct training_length {
	/* Of all passes; 0: not known, because text without a cache is read as it comes. */
	uint64_t batches;
	uint32_t workers; /* a step of a synchronous table joins a batch of each */
};

struct training_length training_length_of(const struct job *job, const struct dataset *data);

/* The spec that trainers register for one of the model's tables; its segments are the model's.
 * E_INVALID: its schedule is to last the whole training, whose length is not known. */
weir_status tables_spec(weir_table_spec *out, const struct model *model, enum model_table k, const struct training_length *length,
                        weir_error *err) WEIR_MUST_CHECK;
/* Trainers create the tables, or find them if another trainer came first. E_EXISTS if the job has a
 * table of another shape. */
weir_status tables_register(struct tables *t, const struct model *model, const struct training_length *length,
                            weir_client *client, weir_error *err);
/* Evaluators and observers find them. E_NOT_FOUND until a trainer has registered them. */
weir_status tables_find(struct tables *t, const struct model *model, weir_client *client, weir_error *err);

/* Reads a flat table as the servers hold it now: (model_table_elements). */
weir_status tables_read_flat(const struct tables *t, enum model_table k, weir_client *client, float *out, weir_error *err);

enum pull_set { PULL_ASYNC, PULL_SYNC, PULL_ALL };
/* The pulls of a minibatch: fills items (MODEL_TABLES), returns their number. `training` leaves out
 * the statistics, which training does not read, and a dense table that is the worker's own. */
size_t tables_pull_items(const struct tables *t, const struct minibatch *m, enum pull_set set, bool training,
                         weir_pull_item *items);
/* Its pushes. For a dense table that is the worker's own: chunks (count); with no chunks the
 * statistics wait, too. */
size_t tables_push_items(const struct tables *t, const struct minibatch *m, const uint64_t *chunks, size_t count,
                         weir_push_item *items);
/* tables_keep_residuals: whether the worker may keep part of gradients. tables_push_residuals sends
 * that part, as the push of a batch of its own. A drop because the step is over is not an error. In
 * the middle of a synchronous round, which already has its step, it sends only the residuals of
 * asynchronous tables. */
bool tables_keep_residuals(const struct tables *t);
weir_status tables_push_residuals(const struct tables *t, weir_client *client, const weir_batch *batch, weir_error *err);
/* The inner optimizer of the job's dense table, with the total of its schedule. */
weir_status tables_inner(weir_optimizer *out, const struct job *job, const struct training_length *length, weir_error *err);

#endif
