/* Finds the checkpoints of a job by name. */
#ifndef WEIR_CHECKPOINT_FIND_H
#define WEIR_CHECKPOINT_FIND_H

#include "common/job/job.h"
#include "server/checkpoint/checkpoint_manifest.h"

/* Opens the job's checkpoint.dir and reads the manifest of `from`; NULL or "latest": the last one.
 * The caller closes *store and frees *out, also after an error. */
weir_status checkpoint_find(const struct job *job, const char *from, struct blob_store **store, struct checkpoint_manifest *out,
                            weir_error *err) WEIR_MUST_CHECK;
/* Returns the name of the last checkpoint. E_NOT_FOUND: none. */
weir_status checkpoint_find_latest(const struct job *job, char name[WEIR_CHECKPOINT_NAME_BYTES_MAX],
                                   weir_error *err) WEIR_MUST_CHECK;
/* Whether a path ends with the name of a checkpoint (PLACE/ck-NAME), or of its manifest, too. */
bool checkpoint_is_name(const char *from);
/* Whether it is that of the manifest (PLACE/ck-NAME.json). */
bool checkpoint_names_manifest(const char *from);
/* The same as checkpoint_find for another place: from is PLACE/ck-NAME, or PLACE for the last
 * checkpoint of the job's name. `job` gives the settings of S3. */
weir_status checkpoint_find_at(const struct job *job, const char *from, struct blob_store **store,
                               struct checkpoint_manifest *out, weir_error *err) WEIR_MUST_CHECK;

#endif
