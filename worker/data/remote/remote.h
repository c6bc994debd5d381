/* Data that are on a web server or in an S3 bucket: https://HOST/PATH, http://..., s3://BUCKET/KEY. Each object is copied into a folder before it is used, once by one process while
 * others on the machine wait, and again when it is another object under the same name. A copy that was broken off goes on where it was. */
#ifndef WEIR_REMOTE_H
#define WEIR_REMOTE_H

#include <stdbool.h>

#include "common/base/limits.h"
#include "common/system/logger.h"
#include "weir/status.h"

struct remote_options {
	const char *dir;               /* where the copies are; made if need be */
	const char *endpoint, *region; /* S3: as blob_options' */
	struct logger *logger;         /* may be NULL */
};

bool remote_is(const char *pattern);

typedef weir_status (*remote_visit_fn)(void *arg, const char *path, weir_error *err);
/* Copies all that match, and visits the copies: DIR/remote/HASH/NAME, in no order. {a,b} and {first..last} of numbers make several addresses of one; of S3, * ? and [...] in the
 * last part of a key match objects. E_NOT_FOUND names what is not there. */
weir_status remote_find(const struct remote_options *o, const char *pattern, remote_visit_fn visit, void *arg, weir_error *err);

/* {a,b} and {first..last} of a text, each outcome visited: "d{08..10}.gz" is d08.gz, d09.gz, d10.gz. E_INVALID: a brace without its other one; E_LIMIT: of more than
 * WEIR_DATA_FILES_MAX numbers. */
weir_status remote_expand(const char *pattern, remote_visit_fn visit, void *arg, weir_error *err);

#endif
