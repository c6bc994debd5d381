/* What a run's folder keeps so that others can tell how it came about, and repeat it:
 *
 *   resolved-job.yaml  the job file with --set applied; its comments have the defaults. `weir train
 *                      RUN_DIR/resolved-job.yaml --set run_dir=ELSEWHERE`, in the same working
 *                      folder, does the same again
 *   provenance.json    each start: version, time, host, working folder and its git commit, seeds,
 *                      and a hash of the fingerprint, which is in fingerprint.json
 *   status.json        at the end: the job's last state, as `weir status --json` shows it
 *
 * Files of an earlier release are missing in runs that it began. */
#ifndef WEIR_RUN_RECORD_H
#define WEIR_RUN_RECORD_H

#include "cli/run/train.h"

/* Resolves the settings to t->resolved, and writes the first two. The job and its fingerprint are
 * known. */
weir_status run_record_begin(struct train *t, weir_error *err) WEIR_MUST_CHECK;
/* Writes the last one. A failure is only told. */
void run_record_end(struct train *t);

/* A hash of all that determines results; "": there is no fingerprint. */
#define RUN_RECORD_HASH_BYTES 17u
void run_record_hash(const struct train *t, char out[RUN_RECORD_HASH_BYTES]);

#endif
