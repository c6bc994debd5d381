/* An output that a person names: --out, --report.
 *
 * A writer makes a whole file at `path`, under a temporary name that becomes its own. Renaming onto
 * a device, a FIFO or a symbolic link would replace it by a regular file, so `path` is the file
 * behind all links. Where the name is no regular file, or is one of this process's descriptors ("-"
 * and /dev/stdout, /dev/fd/N), `path` is a file in a temporary folder, and output_end copies it
 * into what was named: a reader of a pipe gets a whole output or nothing. SIGINT, SIGTERM and SIGHUP
 * meanwhile remove what is half written, and end the process as they always do. One output at a time. */
#ifndef WEIR_OUTPUT_H
#define WEIR_OUTPUT_H

#include <stdio.h>

#include "common/base/limits.h"
#include "weir/status.h"

struct output {
	char path[WEIR_PATH_BYTES_MAX];   /* where to write the file */
	char name[WEIR_PATH_BYTES_MAX];   /* as it was given, for messages */
	char folder[WEIR_PATH_BYTES_MAX]; /* temporary, with `path` in it; "": none */
	int fd;                           /* to copy into, open; -1: none */
	unsigned mode;                    /* permissions of the file that is replaced; 0: there is none */
};

/* E_INVALID: a folder has the name; E_IO: it cannot be written. */
weir_status output_begin(struct output *o, const char *name, weir_error *err) WEIR_MUST_CHECK;
/* After `written`, the status of what was written at `path`. Returns the first failure, whose text
 * names the output as it was given in place of `path` or `path`.tmp. */
weir_status output_end(struct output *o, weir_status written, weir_error *err) WEIR_MUST_CHECK;
/* Whether output_begin would take the name and its folder can be written: asked before hours of
 * work. Nothing is opened or made. */
weir_status output_check(const char *name, weir_error *err) WEIR_MUST_CHECK;
/* Replaces path by what its last component links to, as long as that is a link. E_LIMIT: it goes
 * round. */
weir_status output_follow_links(char path[WEIR_PATH_BYTES_MAX], weir_error *err) WEIR_MUST_CHECK;
/* Where to say what else there is to say: stdout, or stderr when the output goes to stdout. */
FILE *output_words(const char *name);
/* The name as people read it: "stdout" for "-". */
const char *output_label(const char *name);

#endif
