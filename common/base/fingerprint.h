/* A fingerprint: what determines a job's results, as text. Each line is KEY=VALUE: a key of the job file and its value in canonical
 * form. Data files, model folders and tokenizers stand in it by their content, not by where they lie.
 *
 * The job's first trainer registers its fingerprint with the ledger. Whoever joins, resumes or takes weights later is compared with
 * it, key by key. A key that only one side has is not compared: an evaluator does not read the training data, and an earlier
 * release did not know every key. */
#ifndef WEIR_FINGERPRINT_H
#define WEIR_FINGERPRINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/limits.h"
#include "weir/status.h"

/* A fingerprint in the making. All zero is an empty one; free `text`. */
struct fingerprint {
	char *text; /* malloc'ed; NULL: empty */
	size_t bytes;
};
/* Appends a line. What is no character, or controls a terminal, becomes '?'. E_LIMIT beyond WEIR_FINGERPRINT_BYTES_MAX. */
weir_status fingerprint_add(struct fingerprint *f, const char *key, const char *value, weir_error *err) WEIR_MUST_CHECK;
/* Whether somebody else's text is a fingerprint: within the limit, and lines of KEY=VALUE. */
bool fingerprint_is_valid(const char *text);
/* The value of a key, borrowed and not terminated; NULL: the text has none. */
const char *fingerprint_value(const char *text, const char *key, size_t *bytes);
bool fingerprint_value_is(const char *text, const char *key, const char *value);

struct fingerprint_comparison {
	const char *was, *is; /* fingerprints, "" for none */
	const char *what;     /* begins the message: "worker-1", "--resume", a path */
	bool (*counts)(const struct fingerprint_comparison *c, const char *key); /* NULL: every key does */
	const char *const *accepted;                                             /* (accepted_count) keys that may differ */
	size_t accepted_count;
	/* Told of each difference that is accepted; may be NULL. */
	void (*differs)(void *arg, const char *key, const char *was, const char *is);
	void *arg;
};
/* E_INVALID names the keys that differ, with both values. */
weir_status fingerprint_compare(const struct fingerprint_comparison *c, weir_error *err) WEIR_MUST_CHECK;
/* What both say, `is` where they differ, in malloc'ed memory. NULL: out of memory, or beyond the limit. */
char *fingerprint_join(const char *was, const char *is);

#endif
