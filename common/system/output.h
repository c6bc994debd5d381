/* An output file that a person names: --out, --report.
 *
 * A writer creates a whole file at `path`, under a temporary name that it then renames. Renaming
 * onto a device, a FIFO or a symbolic link would replace it by a regular file. So `path` is the
 * file behind all links. If the name is not a regular file, or is a descriptor of this process ("-"
 * and /dev/stdout, /dev/fd/N), `path` is a file in a temporary folder, and output_end copies it to
 * the named output: the reader of a pipe gets the whole output or nothing. Until output_end,
 * SIGINT, SIGTERM and SIGHUP remove the half-written file and end the process as usual. Only one
 * output may be open at a time. */
#ifndef WEIR_OUTPUT_H
#define WEIR_OUTPUT_H

#include <stdio.h>

#include "common/base/limits.h"
#include "weir/status.h"

struct output {
	char path[WEIR_PATH_BYTES_MAX];   /* where to write the file */
	char name[WEIR_PATH_BYTES_MAX];   /* as given, for messages */
	char folder[WEIR_PATH_BYTES_MAX]; /* temporary, contains `path`; "": no folder */
	int fd;                           /* descriptor to copy into, open; -1: none */
	/* permissions of the file that is replaced; 0: no such file */
	unsigned mode;
};

/* E_INVALID: the name is a folder; E_IO: the output cannot be written. */
weir_status output_begin(struct output *o, const char *name, weir_error *err) WEIR_MUST_CHECK;
/* Ends the output. `written`: the status of writing `path`. Returns the first failure; its text
 * names the output as given, instead of `path` or `path`.tmp. */
weir_status output_end(struct output *o, weir_status written, weir_error *err) WEIR_MUST_CHECK;
/* Checks that output_begin would accept the name and that its folder can be written. Call it before
 * hours of work. Opens and creates nothing. */
weir_status output_check(const char *name, weir_error *err) WEIR_MUST_CHECK;
/* For a folder of files that is complete only later: until output_forget_folder, these signals
 * remove it with its files and end the process as usual. No output may be open meanwhile. */
void output_watch_folder(const char *path);
void output_forget_folder(void);
/* Replaces path by the target of its last component while that is a link. E_LIMIT: the links form a
 * loop. */
weir_status output_follow_links(char path[WEIR_PATH_BYTES_MAX], weir_error *err) WEIR_MUST_CHECK;
/* The stream for other messages: stdout, or stderr if the output goes to stdout. */
FILE *output_words(const char *name);
/* The name for messages: "stdout" for "-". */
const char *output_label(const char *name);

#endif
