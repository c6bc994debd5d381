/* What servers keep of a run, and a job that goes on with it cannot change: how many they are, its partitions, and the
 * descriptions of its tables, by which a log is replayed. Asked before the run is touched. */
#ifndef WEIR_KEPT_RUN_H
#define WEIR_KEPT_RUN_H

#include "cli/run/run_state.h"
#include "common/job/job.h"
#include "worker/data/dataset.h"

/* Whether the servers' data in run_dir are of as many servers and partitions. E_STATE names the key, with both values. */
weir_status kept_run_check_cluster(const struct job *job, weir_error *err) WEIR_MUST_CHECK;
/* Whether the weights that evaluation.json calls the best are there. */
weir_status kept_run_check_best(const struct job *job, weir_error *err) WEIR_MUST_CHECK;
/* Whether its tables are still those that the job's trainers register. train: the training part. Of a run that has not served since a
 * restore they are the checkpoint's. E_STATE names the table and the field, with both values. */
weir_status kept_run_check_tables(const struct job *job, const struct run_state *run, const struct dataset *train,
                                  weir_error *err) WEIR_MUST_CHECK;
/* Whether a key may differ at all (--accept): of a checkpoint, before the data are known. E_INVALID. */
weir_status kept_run_check_accepted(const char *key, weir_error *err) WEIR_MUST_CHECK;

#endif
