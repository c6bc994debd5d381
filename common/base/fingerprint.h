/* A fingerprint: the settings that determine a job's results, as text. Each line is KEY=VALUE: a
 * key of the job file and its value in canonical form. Data files, model folders and tokenizers are
 * identified by their content, not by their path.
 *
 * The job's first trainer registers its fingerprint with the ledger. Every process that later
 * joins, resumes or takes weights is compared with it, key by key. A key that only one side has is
 * not compared: an evaluator does not read the training data, and earlier releases did not have
 * every key. */
#ifndef WEIR_FINGERPRINT_H
#define WEIR_FINGERPRINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/limits.h"
#include "weir/status.h"

/* A fingerprint under construction. All zero is an empty one; free `text`. */
struct fingerprint {
	char *text; /* malloc'ed; NULL: empty */
	size_t bytes;
};
/* Appends a line. Replaces invalid UTF-8 and terminal control characters by '?'. E_LIMIT beyond
 * WEIR_FINGERPRINT_BYTES_MAX. */
weir_status fingerprint_add(struct fingerprint *f, const char *key, const char *value, weir_error *err) WEIR_MUST_CHECK;
/* Whether a text from another process is a fingerprint: within the limit, and lines of
 * KEY=VALUE. */
bool fingerprint_is_valid(const char *text);
/* The value of a key, borrowed and not terminated; NULL: the text does not have the key. */
const char *fingerprint_value(const char *text, const char *key, size_t *bytes);
bool fingerprint_value_is(const char *text, const char *key, const char *value);

struct fingerprint_comparison {
	const char *was, *is; /* fingerprints, "" for none */
	const char *what;     /* first words of the message: "worker-1", "--resume", a path */
	/* selects the keys to compare; NULL: all keys */
	bool (*counts)(const struct fingerprint_comparison *c, const char *key);
	/* (accepted_count) keys that may differ */
	const char *const *accepted;
	size_t accepted_count;
	/* Called for each accepted difference; may be NULL. */
	void (*differs)(void *arg, const char *key, const char *was, const char *is);
	void *arg;
};
/* E_INVALID: the message names the keys that differ, with both values. */
weir_status fingerprint_compare(const struct fingerprint_comparison *c, weir_error *err) WEIR_MUST_CHECK;
/* Merges two fingerprints into malloc'ed memory; where they differ, `is` wins. NULL: out of memory,
 * or beyond the limit. */
char *fingerprint_join(const char *was, const char *is);

#endif
