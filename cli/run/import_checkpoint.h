/* Imports weights from a checkpoint of any job: its rows, without optimizer slots, by logged
 * assignments. */
#ifndef WEIR_IMPORT_CHECKPOINT_H
#define WEIR_IMPORT_CHECKPOINT_H

#include "common/job/job.h"
#include "worker/train/batch/tables.h"

/* Tells whether a name denotes a checkpoint: an S3 location, a folder that is neither a model nor
 * adapters, or one checkpoint in either (PLACE/ck-NAME, its manifest). */
bool import_is_checkpoint(const char *from);
/* Checks that import_checkpoint can begin: the checkpoint exists and matches this model. */
weir_status import_checkpoint_check(const struct job *job, const char *from, const struct model *model, weir_error *err);
/* Returns the fingerprint of the job that wrote the checkpoint, in malloc'ed memory; *out stays
 * NULL if the checkpoint has none. */
weir_status import_checkpoint_fingerprint(const struct job *job, const char *from, char **out, weir_error *err);
/* Sets the model's tables in the job of `client`. From a folder it takes the latest checkpoint of
 * the job's name. `job` also gives the S3 settings. *rows: of keyed tables. E_INVALID: the
 * checkpoint is of another model; the text names the table. E_CORRUPT, E_NOT_FOUND as in
 * checkpoint_manifest_read. */
weir_status import_checkpoint(const struct job *job, const char *from, const struct tables *t, weir_client *client,
                              uint64_t *rows, weir_error *err);
/* Reads the values of one of the model's dense tables, (model_table_elements), instead. */
weir_status import_checkpoint_read(const struct job *job, const char *from, const struct model *model, enum model_table k,
                                   float *out, weir_error *err);

#endif
