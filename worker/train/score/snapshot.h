/* A model's weights as one safetensors file: `<table>.keys` (n) and `<table>.values` (n, width) of keyed tables, and the flat tables' tensors by
 * their names and shapes. Rows that were never pushed are not in it: they have their initial values, which the metadata's table ids
 * and the job's seed give; of a table with full decay, after the steps that `<table>.steps` and `<table>.rates` (1) tell. The metadata
 * also have the model's facts (model.h), and the job's fingerprint. */
#ifndef WEIR_SNAPSHOT_H
#define WEIR_SNAPSHOT_H

#include "worker/train/batch/minibatch.h"
#include "worker/train/batch/tables.h"

/* Saves what the servers hold now. Trainers should be at rest (between passes), or it is a mixture of moments.
 * Rows go through files, not memory: while it writes it needs twice the file's size on its disk. */
weir_status snapshot_save(const char *path, const struct tables *tables, weir_client *client, uint32_t fields, uint32_t dense_dim,
                          const char *fingerprint, weir_error *err);

struct snapshot;
/* Any safetensors file, a model folder (model_folder.h) or one of adapters (adapter_folder.h); what does not fit shows when a model is bound. */
weir_status snapshot_open(struct snapshot **out, const char *path, weir_error *err);
void snapshot_close(struct snapshot *s);
bool snapshot_is_folder(const struct snapshot *s);
/* Of the job that trained the weights (fingerprint.h); "": they do not say. */
const char *snapshot_fingerprint(const struct snapshot *s);
/* What the model saw when it was saved: model_create needs it. 0: weir did not write the file. */
uint32_t snapshot_fields(const struct snapshot *s);
uint32_t snapshot_dense_dim(const struct snapshot *s);
uint32_t
snapshot_vocabulary(const struct snapshot *s); /* of a transformer; else 0. A folder of adapters leaves it to their model. */
/* The fingerprint was compared: what bind would refuse for the model's facts alone is known, and accepted. */
void snapshot_trust(struct snapshot *s);
/* Prepares for a model. E_INVALID when the file is of another model, naming what differs (the key of the job file with both values) or the tensor. */
weir_status snapshot_bind(struct snapshot *s, const struct model *model, weir_error *err);
/* A flat table's values: (model_table_elements). */
void snapshot_read_flat(const struct snapshot *s, enum model_table k, float *out);
/* Fills the flat tables, or the rows of a loaded minibatch's keys. */
void snapshot_fill_flat(const struct snapshot *s, struct minibatch *m);
void snapshot_fill_rows(const struct snapshot *s, struct minibatch *m);

/* Sets a job's rows to those of a bound snapshot, by logged assignments; optimizer slots begin anew, rows that the file does not have stay as they are.
 * *rows: of keyed tables. */
weir_status snapshot_assign(const struct snapshot *s, const struct tables *t, weir_client *client, uint64_t *rows,
                            weir_error *err);

#endif
