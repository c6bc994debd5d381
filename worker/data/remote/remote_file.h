/* An object on a web server or in an S3 bucket that is read by ranges, in place of a copy: for
 * formats of which a job needs only some columns. A note stands where the copy would be, and has
 * the address and the object's version.
 *
 *     weir-remote 1
 *     BYTES
 *     VERSION
 *     PLACE
 *     NAME
 *     ENDPOINT
 *     REGION */
#ifndef WEIR_REMOTE_FILE_H
#define WEIR_REMOTE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/web/blob.h"
#include "weir/status.h"

struct remote_note {
	struct blob_look look; /* of the object */
	char place[WEIR_PATH_BYTES_MAX], name[WEIR_BLOB_NAME_BYTES_MAX], endpoint[WEIR_PATH_BYTES_MAX], region[128];
};

/* Whether a file is a note; then *out is what it says. */
bool remote_note_read(struct remote_note *out, const char *path);
weir_status remote_note_write(const struct remote_note *note, const char *path, weir_error *err) WEIR_MUST_CHECK;

struct remote_file;
/* E_IO: the object has changed since the note was written. Credentials are those of the
 * environment. */
weir_status remote_file_open(struct remote_file **out, const struct remote_note *note, weir_error *err) WEIR_MUST_CHECK;
/* Reads [offset, offset + bytes), which must be inside the object. Thread-safe. */
weir_status remote_file_read(struct remote_file *f, uint64_t offset, void *out, size_t bytes, weir_error *err) WEIR_MUST_CHECK;
void remote_file_close(struct remote_file *f); /* NULL is allowed */

#endif
