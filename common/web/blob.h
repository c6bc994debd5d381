/* Storage for checkpoints, and for data that are not files: named objects, written once and never
 * changed. One interface covers a directory, an S3 bucket, and a web server (read only).
 *
 * A name is 1 to WEIR_BLOB_NAME_BYTES_MAX - 1 bytes of [A-Za-z0-9._=-], in folders separated by
 * single slashes; no part begins with a dot. An object appears whole and durable, or not at all:
 * readers never see a half-written one. Writing a name again replaces the object.
 *
 * Errors name the place, the object, and what to do: E_NOT_FOUND for a missing object or bucket,
 * E_NO_SPACE, E_UNAVAILABLE for an endpoint that does not answer after the retries, E_IO for the
 * rest.
 *
 * Several threads may use one store at once; one writer belongs to one thread. */
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
/* name: complete, with its folder */
typedef weir_status (*blob_visit_fn)(void *arg, const char *name, weir_error *err);

struct blob_look {
	uint64_t bytes;
	/* a change means that the object was replaced; "": unknown */
	char version[WEIR_BLOB_VERSION_BYTES];
};

struct blob_ops {
	weir_status (*create)(struct blob_store *self, const char *name, struct blob_writer **out, weir_error *err);
	weir_status (*write)(struct blob_writer *w, const void *data, size_t bytes, weir_error *err);
	/* frees w, also on failure; then the object stays as it was */
	weir_status (*commit)(struct blob_writer *w, weir_error *err);
	void (*abandon)(struct blob_writer *w); /* frees w and leaves nothing behind */
	weir_status (*read_at)(struct blob_store *self, const char *name, uint64_t offset, void *out, size_t bytes, size_t *got,
	                       weir_error *err);
	weir_status (*look)(struct blob_store *self, const char *name, struct blob_look *out, weir_error *err);
	weir_status (*list)(struct blob_store *self, const char *folder, blob_visit_fn visit, void *arg, weir_error *err);
	/* NULL: cannot */
	weir_status (*list_below)(struct blob_store *self, blob_visit_fn visit, void *arg, weir_error *err);
	weir_status (*remove)(struct blob_store *self, const char *name, weir_error *err);
	void (*destroy)(struct blob_store *self);
};
struct blob_store {
	const struct blob_ops *ops;
	/* as given by a person: "runs/demo/checkpoints", "s3://bucket/prefix" */
	char place[WEIR_PATH_BYTES_MAX];
};
struct blob_writer {
	struct blob_store *store;
	char name[WEIR_BLOB_NAME_BYTES_MAX];
};

/* The identity for an S3 server. Empty texts: anonymous; requests are not signed. */
struct blob_credentials {
	char access_key[256], secret_key[256], session_token[4096];
};
/* Reads AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN. Call it only at the edge of
 * a program. */
void blob_credentials_from_environment(struct blob_credentials *out);

struct blob_options {
	/* a directory, s3://BUCKET[/PREFIX], or https://HOST[/PATH][?QUERY] */
	const char *place;
	/* S3: "https://HOST[:PORT]"; NULL or "": Amazon's, of the region */
	const char *endpoint;
	const char *region;                         /* S3; NULL or "": us-east-1 */
	const struct blob_credentials *credentials; /* S3; copied; NULL: anonymous */
	struct disk *disk;                          /* for a directory; borrowed; NULL: the system's */
	/* S3: section of the job file whose keys errors name; NULL: checkpoint */
	const char *section;
	/* S3, web: pause before the first retry; doubles each time; 0: WEIR_BLOB_RETRY_FIRST_MS */
	uint32_t retry_first_ms;
};
/* The first write creates a directory that does not exist. */
weir_status blob_open(struct blob_store **out, const struct blob_options *options, weir_error *err);
void blob_close(struct blob_store *s); /* NULL is allowed */

/* Begins a new object. Write it front to back in pieces of any size, and end with commit or
 * abandon. */
weir_status blob_create(struct blob_store *s, const char *name, struct blob_writer **out, weir_error *err) WEIR_MUST_CHECK;
weir_status blob_write(struct blob_writer *w, const void *data, size_t bytes, weir_error *err) WEIR_MUST_CHECK;
weir_status blob_commit(struct blob_writer *w, weir_error *err) WEIR_MUST_CHECK;
void blob_abandon(struct blob_writer *w); /* NULL is allowed */
/* Writes a whole object from memory. */
weir_status blob_put(struct blob_store *s, const char *name, const void *data, size_t bytes, weir_error *err) WEIR_MUST_CHECK;
/* Reads up to `bytes` bytes from `offset`. *got is less only at the end of the object. */
weir_status blob_read_at(struct blob_store *s, const char *name, uint64_t offset, void *out, size_t bytes, size_t *got,
                         weir_error *err) WEIR_MUST_CHECK;
/* Reads a whole object of at most bytes_max into malloc'ed memory, with a NUL after it. */
weir_status blob_get(struct blob_store *s, const char *name, size_t bytes_max, char **out, size_t *bytes,
                     weir_error *err) WEIR_MUST_CHECK;
weir_status blob_look(struct blob_store *s, const char *name, struct blob_look *out, weir_error *err) WEIR_MUST_CHECK;
weir_status blob_size(struct blob_store *s, const char *name, uint64_t *bytes, weir_error *err) WEIR_MUST_CHECK;
/* Visits the objects directly in a folder ("" is the place itself), in no particular order. A
 * missing folder has no objects. An error of `visit` ends the listing. A web server cannot list or
 * write: E_UNSUPPORTED. */
weir_status blob_list(struct blob_store *s, const char *folder, blob_visit_fn visit, void *arg, weir_error *err) WEIR_MUST_CHECK;
/* Visits the objects in the place and in all folders below it, which a bucket alone can list: else
 * E_UNSUPPORTED. E_LIMIT: an object has a longer name than stores have. */
weir_status blob_list_below(struct blob_store *s, blob_visit_fn visit, void *arg, weir_error *err) WEIR_MUST_CHECK;
/* A missing object is not an error. */
weir_status blob_remove(struct blob_store *s, const char *name, weir_error *err) WEIR_MUST_CHECK;

/* --- The implementations; use blob_open. */
weir_status blob_directory_open(struct blob_store **out, const struct blob_options *options, weir_error *err);
weir_status blob_web_open(struct blob_store **out, const struct blob_options *options, weir_error *err);
weir_status blob_s3_open(struct blob_store **out, const struct blob_options *options, weir_error *err);

#endif
