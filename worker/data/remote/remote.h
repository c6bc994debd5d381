/* Data on a web server or in an S3 bucket: https://HOST/PATH, http://..., s3://BUCKET/KEY.
 *
 * Each object is copied into a folder before use. One process copies it while others on the machine
 * wait. A changed object under the same name is copied again. An interrupted copy resumes where it
 * stopped.
 *
 * A copy lies below the folders NAME=VALUE that its address has: they are columns of its rows.
 *
 * Objects that are read by ranges are not copied: a note stands for each (remote_file.h). */
#ifndef WEIR_REMOTE_H
#define WEIR_REMOTE_H

#include <stdbool.h>

#include "common/base/limits.h"
#include "common/system/logger.h"
#include "weir/status.h"

struct remote_options {
	const char *dir;               /* holds the copies; created if missing */
	const char *endpoint, *region; /* S3: see blob_options */
	bool by_ranges;                /* notes in place of copies that are not there yet */
	struct logger *logger;         /* may be NULL */
};

bool remote_is(const char *pattern);

typedef weir_status (*remote_visit_fn)(void *arg, const char *path, weir_error *err);
/* Copies all matching objects and visits the copies or notes, DIR/remote/HASH/.../NAME, in no
 * particular order.
 * {a,b} and numeric {first..last} expand one address into several. In S3, * ? and [...] match
 * within a part of a key, and a / at the end means all objects below a folder, except those that
 * Hive hides: _SUCCESS, .x, _log/x. E_NOT_FOUND names the missing object. */
weir_status remote_find(const struct remote_options *o, const char *pattern, remote_visit_fn visit, void *arg, weir_error *err);

/* Visits each expansion of {a,b} and {first..last} in a text: "d{08..10}.gz" is d08.gz, d09.gz,
 * d10.gz. E_INVALID: a brace has no counterpart. E_LIMIT: a range is descending or has more than
 * WEIR_DATA_FILES_MAX numbers. */
weir_status remote_expand(const char *pattern, remote_visit_fn visit, void *arg, weir_error *err);

#endif
