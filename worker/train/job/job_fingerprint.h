/* A job's fingerprint (fingerprint.h): every key of its schema that determines results, with what stands for it. Where the job file
 * leaves a value to its data or to a model folder, the value found there counts; for files and folders, their content. */
#ifndef WEIR_JOB_FINGERPRINT_H
#define WEIR_JOB_FINGERPRINT_H

#include "common/base/fingerprint.h"
#include "common/job/job.h"
#include "worker/data/dataset.h"

struct fingerprint_parts {
	const struct dataset *items[3]; /* of the job, opened by this process; NULL: none. What they would say is left out */
	/* Without a part: of the weights that are to be used. 0: unknown. */
	uint32_t vocabulary;
	bool begins;       /* of who begins a run: train.warm_start counts */
	bool weights_only; /* keys that say how weights compute and what ids mean, alone: of who takes the weights of a running job */
};
/* Free out->text. */
weir_status job_fingerprint(const struct job *job, const struct fingerprint_parts *parts, struct fingerprint *out,
                            weir_error *err) WEIR_MUST_CHECK;

/* Which keys count for a comparison (fingerprint_comparison.counts): */
/* those that say how weights compute and what ids mean, where rows that were never trained count, too; */
bool fingerprint_of_weights(const struct fingerprint_comparison *c, const char *key);
/* and where they do not, as the weights go into another training. */
bool fingerprint_of_tensors(const struct fingerprint_comparison *c, const char *key);
/* The fingerprint of a model that adapters were merged into: it has none, and needs no base. malloc'ed; NULL: out of memory. */
char *fingerprint_of_merged(const char *was);
/* E_INVALID names the key, and the nearest one that a fingerprint has. */
weir_status fingerprint_check_accepted(const char *const *keys, size_t count, weir_error *err) WEIR_MUST_CHECK;

#endif
