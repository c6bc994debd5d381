/* A fork: a copy of another run's checkpoint in this job's place, with this job's numbers in the
 * tables' optimizers. Restored there, it begins a run that goes on from that checkpoint at another
 * rate. The log of a restored run begins anew, so no entry is replayed by a description that it was
 * not written under. */
#ifndef WEIR_CHECKPOINT_FORK_H
#define WEIR_CHECKPOINT_FORK_H

#include "common/job/job.h"
#include "server/checkpoint/checkpoint_manifest.h"

/* Whether a fork may change a key: tables.{embedding,dense}.optimizer.{lr, momentum, beta1, beta2,
 * eps, weight_decay, l1}. A row that catches up by tables.embedding.optimizer.decay: full takes the
 * new rate for the steps that it had left out. */
bool checkpoint_fork_takes(const char *key);
/* Copies the checkpoint at `from` (PLACE/ck-NAME, or PLACE for the last one of the job's name) into
 * the job's checkpoint.dir, under the same name, with the job's values of the keys above. The
 * manifest comes last. name: of the checkpoint. E_INVALID names another key that differs from the
 * job, unless it is in `accepted` (accepted_count). */
weir_status checkpoint_fork(const struct job *job, const char *from, const char *const *accepted, size_t accepted_count,
                            char name[WEIR_CHECKPOINT_NAME_BYTES_MAX], weir_error *err) WEIR_MUST_CHECK;

#endif
