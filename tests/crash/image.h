/* The disk of a machine that dies. Its content follows from a trace (trace.h), a moment (the number
 * of completed operations) and a fate: which of the operations that no sync covers reached the
 * disk.
 *
 * The model is harsher than a journaling file system. All of a file's data before its last sync
 * survives. Of later writes any subset survives, in any order, and the last one may be torn. All
 * names in a folder before the folder's last sync survive. Later changes of names are lost from
 * some point on. */
#ifndef WEIR_IMAGE_H
#define WEIR_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/crash/trace.h"

struct trace_event {
	const struct trace_op *op;
	const char *text, *text2; /* "" when the operation has none */
	const uint8_t *data;      /* NULL: the trace has only the range */
	uint64_t at;              /* offset in the trace */
};

struct disk_trace {
	uint8_t *bytes;
	struct trace_event *events; /* (count) */
	size_t count;
};

/* Loads a trace. An operation that was cut off at the end, when the program was killed, is left
 * out. Ends the process with a message if the file is not a trace. */
struct disk_trace *trace_load(const char *path);
void trace_free(struct disk_trace *t);

/* The number of fates for the moment after `moment` operations; never 0. Few unsynced writes: every
 * subset, and all with one torn. Many: all lost, all kept, the last torn, each one lost alone, each
 * one kept alone, some random subsets. Unsynced name changes: every prefix with all writes, and
 * none without writes. */
size_t image_fates(const struct disk_trace *t, size_t moment);
/* Fills `folder` (new or empty) with what fate `fate` (below image_fates) of that moment leaves.
 * Ends the process on failure. */
void image_build(const struct disk_trace *t, size_t moment, size_t fate, const char *folder);
/* True if the next moment has the same folders and more reports, because a mark changes no disk. */
bool image_is_seen_later(const struct disk_trace *t, size_t moment);
/* Appends a mark to the trace of this or another program. Ends the process on failure. */
void image_mark(const char *trace_file, const char *text);
/* Calls visit for each mark before the moment, in order. */
void image_marks(const struct disk_trace *t, size_t moment, void (*visit)(void *arg, const char *text), void *arg);

/* Removes unsynced data, or a part of it that `seed` chooses, from the folder of a killed program
 * that ran under interpose.c. The folder still has everything from the page cache. Returns the
 * number of bytes removed. The trace may have ranges only. */
uint64_t image_drop_unsynced(const struct disk_trace *t, const char *folder, uint64_t seed);

#endif
