/* RUN_DIR/fingerprint.json: the fingerprint that the run began with, and the differences accepted
 * since:
 *
 *   {"version": 1, "fingerprint": "KEY=VALUE\n...", "units": 7,
 *    "accepted": [{"key": "data.seed", "was": "1", "is": "2"}]}
 *
 * units: the number of work units of the training data, which never changes. It is absent from a
 * run that was restored from a checkpoint taken before its first worker. */
#ifndef WEIR_RUN_FINGERPRINT_H
#define WEIR_RUN_FINGERPRINT_H

#include "cli/core/accepted.h"

/* Writes the file for a new run. */
weir_status run_fingerprint_begin(const char *run_dir, const char *fingerprint, uint32_t units, weir_error *err) WEIR_MUST_CHECK;
/* Rewrites the file for a run that is to resume from a checkpoint. fingerprint: the checkpoint's;
 * NULL: it has none, so the file is deleted. units: 0: the checkpoint does not have it. */
weir_status run_fingerprint_restore(const char *run_dir, const char *fingerprint, uint32_t units,
                                    weir_error *err) WEIR_MUST_CHECK;
/* Checks that a job may resume the run. A run without a fingerprint passes with a warning. */
weir_status run_fingerprint_check(const char *run_dir, const char *fingerprint, uint32_t units, struct accepted *a,
                                  weir_error *err) WEIR_MUST_CHECK;
/* Records that the job resumes the run: adds the differences that it accepts to the file. */
weir_status run_fingerprint_resume(const char *run_dir, const char *fingerprint, const struct accepted *a,
                                   weir_error *err) WEIR_MUST_CHECK;
/* Returns all accepted differences so far, {"accepted": [...]}; the caller owns it. NULL: none. */
struct json *run_fingerprint_accepted(const char *run_dir);

#endif
