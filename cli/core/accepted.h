/* --accept KEY: differences between two fingerprints (fingerprint.h) that are taken knowingly, and
 * their record. */
#ifndef WEIR_ACCEPTED_H
#define WEIR_ACCEPTED_H

#include "cli/core/options.h"
#include "common/web/json.h"
#include "worker/train/job/job_fingerprint.h"

struct accepted {
	struct option_list keys; /* as given */
	struct json *record;     /* {"accepted": [{"key": K, "was": A, "is": B}, ...]}; NULL: there was no difference */
};
_Static_assert(OPTION_LIST_MAX <= WEIR_ACCEPTED_KEYS_MAX, "what can be given can be told to the ledger");

#define ACCEPT_OPTION(a)                                                                                     \
	{                                                                                                        \
		"--accept", OPTION_LIST, &(a).keys, "KEY", "take another value of this key; may be given repeatedly" \
	}

/* Compares; tells each accepted difference on stderr, and records it. */
weir_status accepted_compare(struct accepted *a, const struct fingerprint_comparison *c, weir_error *err) WEIR_MUST_CHECK;
/* Appends the record to the list "accepted" of `into`. */
void accepted_put(const struct accepted *a, struct json *into);
void accepted_free(struct accepted *a);

/* Weights, before they are used in a job. */
struct weights_origin {
	const struct job *job;
	const struct dataset *data; /* of the job, or NULL */
	uint32_t vocabulary;        /* of the weights, where data is NULL; 0: unknown */
	const char *path;
	const char *was; /* their fingerprint; "": they have none */
	bool foreign;    /* other programs write such weights: a fingerprint is not expected */
	bool trained_on; /* by the job: rows that the weights lack begin as the job says */
};
/* E_INVALID names the keys in which the job differs from the one that trained the weights. Weights
 * without a fingerprint are taken with a warning. */
weir_status accepted_check_weights(struct accepted *a, const struct weights_origin *w, weir_error *err) WEIR_MUST_CHECK;

#endif
