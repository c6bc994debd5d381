/* RUN_DIR/fingerprint.json: what the run in it was begun with, and what was changed knowingly since:
 *
 *   {"version": 1, "fingerprint": "KEY=VALUE\n...", "units": 7, "accepted": [{"key": "data.seed", "was": "1", "is": "2"}]}
 *
 * units: how many work units the training data are cut into, which nothing changes. A run that was
 * restored from a checkpoint of before its first worker does not say. */
#ifndef WEIR_RUN_FINGERPRINT_H
#define WEIR_RUN_FINGERPRINT_H

#include "cli/core/accepted.h"

/* A new run. */
weir_status run_fingerprint_begin(const char *run_dir, const char *fingerprint, uint32_t units, weir_error *err) WEIR_MUST_CHECK;
/* A run that is to go on from a checkpoint. fingerprint: the checkpoint's; NULL: it has none, and
 * the run's is forgotten. units: 0: the checkpoint does not say. */
weir_status run_fingerprint_restore(const char *run_dir, const char *fingerprint, uint32_t units,
                                    weir_error *err) WEIR_MUST_CHECK;
/* Whether a job may go on with the run. A run without a fingerprint is taken with a warning. */
weir_status run_fingerprint_check(const char *run_dir, const char *fingerprint, uint32_t units, struct accepted *a,
                                  weir_error *err) WEIR_MUST_CHECK;
/* It does go on: what it accepts is in the file. */
weir_status run_fingerprint_resume(const char *run_dir, const char *fingerprint, const struct accepted *a,
                                   weir_error *err) WEIR_MUST_CHECK;
/* All that was accepted so far, {"accepted": [...]}: the caller's; NULL: nothing was. */
struct json *run_fingerprint_accepted(const char *run_dir);

#endif
