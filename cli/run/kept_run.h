/* The properties of a run that its servers keep and a resumed job cannot change: the number of
 * servers, the partitions, and the table descriptions, which log replay uses. Checked before the
 * run is modified. */
#ifndef WEIR_KEPT_RUN_H
#define WEIR_KEPT_RUN_H

#include "cli/run/run_state.h"
#include "common/job/job.h"
#include "worker/data/dataset.h"

/* Checks that the servers' data in run_dir have the same numbers of servers and partitions. E_STATE
 * names the key, with both values. */
weir_status kept_run_check_cluster(const struct job *job, weir_error *err) WEIR_MUST_CHECK;
/* Checks that the weights that evaluation.json calls the best exist. */
weir_status kept_run_check_best(const struct job *job, weir_error *err) WEIR_MUST_CHECK;
/* Checks that the run's tables are the tables that the job's trainers register. train: the training
 * part. If the run has not served since a restore, the tables are those of the checkpoint. E_STATE
 * names the table and the field, with both values. */
weir_status kept_run_check_tables(const struct job *job, const struct run_state *run, const struct dataset *train,
                                  weir_error *err) WEIR_MUST_CHECK;
/* Checks, for a checkpoint and before the data are known, that a key may differ at all (--accept).
 * E_INVALID. */
weir_status kept_run_check_accepted(const char *key, weir_error *err) WEIR_MUST_CHECK;

#endif
