/* A job's weights from a checkpoint, of whatever job: its rows, without optimizer slots, by logged assignments. */
#ifndef WEIR_IMPORT_CHECKPOINT_H
#define WEIR_IMPORT_CHECKPOINT_H

#include "common/job/job.h"
#include "worker/train/batch/tables.h"

/* Whether a name says a checkpoint: an S3 place, a folder that is none of a model or of adapters, or one of the checkpoints in either (PLACE/ck-NAME, its manifest). */
bool import_is_checkpoint(const char *from);
/* Whether import_checkpoint can begin: the checkpoint is there, and of this model. */
weir_status import_checkpoint_check(const struct job *job, const char *from, const struct model *model, weir_error *err);
/* The fingerprint of the job that it is of, in malloc'ed memory; *out stays NULL: the checkpoint has none. */
weir_status import_checkpoint_fingerprint(const struct job *job, const char *from, char **out, weir_error *err);
/* Sets the model's tables in the job of `client`. Of a folder the latest of the job's name is taken; `job` also says how S3 is reached. *rows: of keyed
 * tables. E_INVALID when it is of another model, naming the table; E_CORRUPT, E_NOT_FOUND as checkpoint_manifest_read. */
weir_status import_checkpoint(const struct job *job, const char *from, const struct tables *t, weir_client *client,
                              uint64_t *rows, weir_error *err);
/* The values of one of the model's dense tables, (model_table_elements), instead. */
weir_status import_checkpoint_read(const struct job *job, const char *from, const struct model *model, enum model_table k,
                                   float *out, weir_error *err);

#endif
