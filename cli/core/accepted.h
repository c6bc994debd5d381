/* --accept KEY: known differences between two fingerprints (job_fingerprint.h), and their
 * record. */
#ifndef WEIR_ACCEPTED_H
#define WEIR_ACCEPTED_H

#include "cli/core/options.h"
#include "common/web/json.h"
#include "worker/train/job/job_fingerprint.h"

struct accepted {
	struct option_list keys; /* as given */
	/* {"accepted": [{"key": K, "was": A, "is": B}, ...]}; NULL: no difference */
	struct json *record;
};
_Static_assert(OPTION_LIST_MAX <= WEIR_ACCEPTED_KEYS_MAX, "what can be given can be told to the ledger");

#define ACCEPT_OPTION(a)                                                                                     \
	{                                                                                                        \
		"--accept", OPTION_LIST, &(a).keys, "KEY", "take another value of this key; may be given repeatedly" \
	}

/* Compares two fingerprints. Prints each accepted difference on stderr and records it. */
weir_status accepted_compare(struct accepted *a, const struct fingerprint_comparison *c, weir_error *err) WEIR_MUST_CHECK;
/* Appends the record to the list "accepted" of `into`. */
void accepted_put(const struct accepted *a, struct json *into);
void accepted_destroy(struct accepted *a);

/* The origin of weights, for the check before a job uses them. */
struct weights_origin {
	const struct job *job;
	const struct dataset *data; /* the job's data, or NULL */
	uint32_t vocabulary;        /* of the weights, if data is NULL; 0: unknown */
	const char *path;
	const char *was; /* the fingerprint of the weights; "": none */
	bool foreign;    /* other programs write such weights, so a missing fingerprint is normal */
	bool trained_on; /* the job trains these weights further; it initializes rows that they lack */
};
/* E_INVALID names the keys in which the job differs from the job that trained the weights. Weights
 * without a fingerprint pass, with a warning unless they are foreign. */
weir_status accepted_check_weights(struct accepted *a, const struct weights_origin *w, weir_error *err) WEIR_MUST_CHECK;

#endif
