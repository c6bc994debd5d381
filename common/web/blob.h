/* Where checkpoints live, and data that are no files: named objects, written once and never changed, in a directory, in an S3 bucket, or, to be read only, on a
 * web server, behind one interface.
 *
 * A name is 1 to WEIR_BLOB_NAME_BYTES_MAX - 1 bytes of [A-Za-z0-9._-], in folders separated by single slashes; no part begins with a dot.
 * An object appears whole and durable, or not at all: readers never see one half-written. Writing a name again replaces it.
 * Errors name the place, the object, and what to do: E_NOT_FOUND for an object or bucket that is not there, E_NO_SPACE,
 * E_UNAVAILABLE for an endpoint that does not answer after the retries, E_IO for the rest.
 * One store may be used from several threads at once; one writer belongs to one thread. */
#ifndef WEIR_BLOB_H
#define WEIR_BLOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/limits.h"
#include "common/system/disk.h"
#include "weir/status.h"

struct blob_store;
struct blob_writer;
typedef weir_status (*blob_visit_fn)(void *arg, const char *name, weir_error *err); /* name: whole, with its folder */

struct blob_look {
	uint64_t bytes;
	char version[WEIR_BLOB_VERSION_BYTES]; /* another one is another object under the same name; "": not known */
};

struct blob_ops {
	weir_status (*create)(struct blob_store *self, const char *name, struct blob_writer **out, weir_error *err);
	weir_status (*write)(struct blob_writer *w, const void *data, size_t bytes, weir_error *err);
	weir_status (*commit)(struct blob_writer *w,
	                      weir_error *err); /* frees w, also on failure: then the object is as it was before */
	void (*abandon)(struct blob_writer *w); /* frees w; nothing is left of it */
	weir_status (*read_at)(struct blob_store *self, const char *name, uint64_t offset, void *out, size_t bytes, size_t *got,
	                       weir_error *err);
	weir_status (*look)(struct blob_store *self, const char *name, struct blob_look *out, weir_error *err);
	weir_status (*list)(struct blob_store *self, const char *folder, blob_visit_fn visit, void *arg, weir_error *err);
	weir_status (*remove)(struct blob_store *self, const char *name, weir_error *err);
	void (*destroy)(struct blob_store *self);
};
struct blob_store {
	const struct blob_ops *ops;
	char place[WEIR_PATH_BYTES_MAX]; /* as a person wrote it: "runs/demo/checkpoints", "s3://bucket/prefix" */
};
struct blob_writer {
	struct blob_store *store;
	char name[WEIR_BLOB_NAME_BYTES_MAX];
};

/* Who asks an S3 server. Empty texts: nobody; requests are not signed then. */
struct blob_credentials {
	char access_key[256], secret_key[256], session_token[4096];
};
/* From AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN. For the edge of a program, nowhere else. */
void blob_credentials_from_environment(struct blob_credentials *out);

struct blob_options {
	const char *place;                          /* a directory, s3://BUCKET[/PREFIX], or https://HOST[/PATH][?QUERY] */
	const char *endpoint;                       /* S3: "https://HOST[:PORT]"; NULL or "": Amazon's, of the region */
	const char *region;                         /* S3; NULL or "": us-east-1 */
	const struct blob_credentials *credentials; /* S3; copied; NULL: none */
	struct disk *disk;                          /* of a directory; borrowed; NULL: the system's */
	const char *section;                        /* S3: of the job file, whose keys errors name; NULL: checkpoint */
	uint32_t retry_first_ms; /* S3, web: the first pause before trying again, doubles; 0: WEIR_BLOB_RETRY_FIRST_MS */
};
/* A directory is made when the first object is written. */
weir_status blob_open(struct blob_store **out, const struct blob_options *options, weir_error *err);
void blob_close(struct blob_store *s); /* NULL is allowed */

/* A new object, to be written in pieces of any size, front to back. End it with commit or abandon. */
weir_status blob_create(struct blob_store *s, const char *name, struct blob_writer **out, weir_error *err) WEIR_MUST_CHECK;
weir_status blob_write(struct blob_writer *w, const void *data, size_t bytes, weir_error *err) WEIR_MUST_CHECK;
weir_status blob_commit(struct blob_writer *w, weir_error *err) WEIR_MUST_CHECK;
void blob_abandon(struct blob_writer *w); /* NULL is allowed */
/* A whole object from memory. */
weir_status blob_put(struct blob_store *s, const char *name, const void *data, size_t bytes, weir_error *err) WEIR_MUST_CHECK;
/* Up to `bytes` from `offset`; *got is less only at the end of the object. */
weir_status blob_read_at(struct blob_store *s, const char *name, uint64_t offset, void *out, size_t bytes, size_t *got,
                         weir_error *err) WEIR_MUST_CHECK;
/* A whole object of at most bytes_max into malloc'ed memory with a NUL after it. */
weir_status blob_get(struct blob_store *s, const char *name, size_t bytes_max, char **out, size_t *bytes,
                     weir_error *err) WEIR_MUST_CHECK;
weir_status blob_look(struct blob_store *s, const char *name, struct blob_look *out, weir_error *err) WEIR_MUST_CHECK;
weir_status blob_size(struct blob_store *s, const char *name, uint64_t *bytes, weir_error *err) WEIR_MUST_CHECK;
/* Visits the objects directly in a folder ("" is the place itself), in no order; a folder that is not there has none. What visit fails with ends it. A web server has no
 * lists, and takes nothing: E_UNSUPPORTED. */
weir_status blob_list(struct blob_store *s, const char *folder, blob_visit_fn visit, void *arg, weir_error *err) WEIR_MUST_CHECK;
/* One that is not there is fine. */
weir_status blob_remove(struct blob_store *s, const char *name, weir_error *err) WEIR_MUST_CHECK;

/* --- The implementations; use blob_open. */
weir_status blob_directory_open(struct blob_store **out, const struct blob_options *options, weir_error *err);
weir_status blob_web_open(struct blob_store **out, const struct blob_options *options, weir_error *err);
weir_status blob_s3_open(struct blob_store **out, const struct blob_options *options, weir_error *err);

#endif
