/* The model's tables in a job: registering them and building a batch's pulls and pushes. */
#ifndef WEIR_TRAIN_TABLES_H
#define WEIR_TRAIN_TABLES_H

#include "weir/weir.h"
#include "worker/data/dataset.h"
#include "worker/model/model.h"
#include "worker/train/batch/minibatch.h"

struct tables {
	const struct model *model;
	uint32_t ids[MODEL_TABLES];
	bool sync[MODEL_TABLES];  /* synchronous: not to be pulled ahead */
	bool keeps[MODEL_TABLES]; /* something of its gradients may stay with the worker */
	bool local;               /* the worker has a dense table of its own (local.h) */
};

/* How long the whole training is: what a schedule without a total of its own lasts. */
struct training_length {
	uint64_t batches; /* of all passes; 0: not known, for text without a cache is read as it comes */
	uint32_t workers; /* a step of a synchronous table joins a batch of each */
};

struct training_length training_length_of(const struct job *job, const struct dataset *data);

/* What trainers register of one of the model's tables; its segments are the model's. E_INVALID: its schedule is to last the whole
 * training, whose length is not known. */
weir_status tables_spec(weir_table_spec *out, const struct model *model, enum model_table k, const struct training_length *length,
                        weir_error *err) WEIR_MUST_CHECK;
/* Trainers create the tables, or find them when another trainer came first. E_EXISTS when the job holds one of another shape. */
weir_status tables_register(struct tables *t, const struct model *model, const struct training_length *length,
                            weir_client *client, weir_error *err);
/* Evaluators and observers find them. E_NOT_FOUND while no trainer has registered them. */
weir_status tables_find(struct tables *t, const struct model *model, weir_client *client, weir_error *err);

/* A flat table as the servers hold it now: (model_table_elements). */
weir_status tables_read_flat(const struct tables *t, enum model_table k, weir_client *client, float *out, weir_error *err);

enum pull_set { PULL_ASYNC, PULL_SYNC, PULL_ALL };
/* What a minibatch must pull: fills items (MODEL_TABLES), returns how many. `training` leaves out the statistics, which training does not read, and a dense table that is
 * the worker's own. */
size_t tables_pull_items(const struct tables *t, const struct minibatch *m, enum pull_set set, bool training,
                         weir_pull_item *items);
/* What it pushes. Of a dense table that is the worker's own: chunks (count); with none of them the statistics wait, too. */
size_t tables_push_items(const struct tables *t, const struct minibatch *m, const uint64_t *chunks, size_t count,
                         weir_push_item *items);
/* Whether something of gradients may stay with the worker; and what sends it, as the push of a batch of its own. What was dropped since the step is over is no error. In
 * the middle of a synchronous round, which has its step already, only what asynchronous tables have kept back goes out. */
bool tables_keep_residuals(const struct tables *t);
weir_status tables_push_residuals(const struct tables *t, weir_client *client, const weir_batch *batch, weir_error *err);
/* The inner optimizer of the job's dense table, its schedule's total filled in. */
weir_status tables_inner(weir_optimizer *out, const struct job *job, const struct training_length *length, weir_error *err);

#endif
