/* What a machine that dies leaves on its disk. A trace (trace.h), a moment (how many of its operations had happened) and a fate: what of the
 * operations no sync covers has reached the disk.
 *
 * The model is harsher than a journaling file system. Data of a file: everything before its last sync is there; of later writes any subset is,
 * in any order, the last one perhaps torn. Names in a folder: everything before the folder's last sync is there; later changes are lost from some point on. */
#ifndef WEIR_IMAGE_H
#define WEIR_IMAGE_H

#include <stddef.h>
#include <stdint.h>

#include "tests/crash/trace.h"

struct trace_event {
	const struct trace_op *op;
	const char *text, *text2; /* "" when the operation has none */
	const uint8_t *data;      /* NULL: only the range is known */
	uint64_t at;              /* byte of the trace */
};

struct trace {
	uint8_t *bytes;
	struct trace_event *events; /* (count) */
	size_t count;
};

/* Ends the process with a message when the file is no trace. An operation that is cut off at the end (the program was killed) is left out. */
struct trace *trace_load(const char *path);
void trace_free(struct trace *t);

/* How many fates image_build knows for the moment after `moment` operations. Of few unsynced writes: every subset, and all with one torn. Of many: all
 * lost, all kept, the last torn, each one lost alone, each one kept alone, some at random. Of unsynced changes of names: every
 * beginning, with all writes; and none, without. Never 0. */
size_t image_fates(const struct trace *t, size_t moment);
/* Makes `folder` (new or empty) what fate `fate` (below image_fates) of that moment leaves. Ends the process when it cannot. */
void image_build(const struct trace *t, size_t moment, size_t fate, const char *folder);
/* Appends a mark to the trace that this program, or another, is recorded in. Ends the process when it cannot. */
void image_mark(const char *trace_file, const char *text);
/* The marks before the moment: calls visit for each, in order. */
void image_marks(const struct trace *t, size_t moment, void (*visit)(void *arg, const char *text), void *arg);

/* A program under interpose.c was killed and `folder` is as it left it, everything in the page cache included: takes away what was not synced, or a part of
 * it that `seed` chooses. Returns the bytes taken away. The trace may be of ranges only. */
uint64_t image_drop_unsynced(const struct trace *t, const char *folder, uint64_t seed);

#endif
