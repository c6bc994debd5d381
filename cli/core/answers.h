/* The planner's answers to the keys of a job that say `auto`. A run is planned once, when it
 * begins; RUN_DIR/plan.json keeps the answers for everything that follows:
 *
 *     {"samples_per_s": 51000,
 *      "answers": [{"key": "cluster.servers", "set": "cluster.servers=2"}, ...]}
 */
#ifndef WEIR_ANSWERS_H
#define WEIR_ANSWERS_H

#include "cli/core/options.h"

#define ANSWERS_MAX  16u
#define ANSWER_BYTES 1024u
#define ANSWERS_FILE "plan.json"

struct answer {
	const char *key; /* of the schema */
	/* "KEY=VALUE", as --set takes it. KEY may be another one that goes with `key`. */
	char set[ANSWER_BYTES];
};

struct answers {
	uint32_t count;
	double samples_per_s; /* predicted */
	struct answer items[ANSWERS_MAX];
};

/* E_NOT_FOUND: the folder has none. */
weir_status answers_read(const char *run_dir, struct answers *out, weir_error *err) WEIR_MUST_CHECK;
weir_status answers_write(const char *run_dir, const struct answers *a, weir_error *err) WEIR_MUST_CHECK;
/* Appends the answers to what the job asks. Borrows a. E_LIMIT: there are too many settings. */
weir_status answers_give(const struct answers *a, const struct job *job, struct option_list *sets,
                         weir_error *err) WEIR_MUST_CHECK;

#endif
