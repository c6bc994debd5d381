/* A job's fingerprint (fingerprint.h): every key of its schema that determines results, with its
 * value. If the job file leaves a value to its data or to a model folder, the value found there
 * counts; for files and folders, their content. */
#ifndef WEIR_JOB_FINGERPRINT_H
#define WEIR_JOB_FINGERPRINT_H

#include "common/base/fingerprint.h"
#include "common/job/job.h"
#include "worker/data/dataset.h"

struct fingerprint_parts {
	/* The job's datasets that this process has opened; NULL: none. Values that only they could give
	 * are left out. */
	const struct dataset *items[3];
	/* Without a part: of the weights to be used. 0: unknown. */
	uint32_t vocabulary;
	bool begins; /* this process begins a run: train.warm_start counts */
	/* Only keys that say how weights compute and what ids mean, for a process that takes the
	 * weights of a running job. */
	bool weights_only;
};
/* Free out->text. */
weir_status job_fingerprint(const struct job *job, const struct fingerprint_parts *parts, struct fingerprint *out,
                            weir_error *err) WEIR_MUST_CHECK;

/* Whether a key counts in a comparison (fingerprint_comparison.counts): keys that say how weights
 * compute and what ids mean do. Rows that were never trained count. */
bool fingerprint_of_weights(const struct fingerprint_comparison *c, const char *key);
/* The same for weights that go into another training: rows that were never trained do not count. */
bool fingerprint_of_tensors(const struct fingerprint_comparison *c, const char *key);
/* The fingerprint of a model with merged adapters: without their keys, and without the base, which
 * it no longer needs. malloc'ed; NULL: out of memory. */
char *fingerprint_of_merged(const char *was);
/* E_INVALID names the key, and the nearest one in a fingerprint. */
weir_status fingerprint_check_accepted(const char *const *keys, size_t count, weir_error *err) WEIR_MUST_CHECK;

#endif
