/* A trace: the operations of one program on the files of one folder, in order. interpose.c,
 * preloaded into the program, writes it. image.c builds the folders that a machine which dies at
 * some moment may leave.
 *
 * A trace file is a sequence of operations. Each is appended by one write, so that several
 * processes may mark the same trace:
 *
 *   struct trace_op
 *   text (text_bytes): one or two paths, each with its NUL, relative to the folder; or a mark
 *   data (data_bytes) */
#ifndef WEIR_DISK_TRACE_H
#define WEIR_DISK_TRACE_H

#include <stdint.h>

#define TRACE_MAGIC 0x43415254u /* "TRAC" */

enum disk_trace_kind {
	TRACE_OPEN,     /* text: path of an existing file; offset: its size */
	TRACE_CREATE,   /* text: path */
	TRACE_WRITE,    /* offset, bytes; data unless the trace has ranges only */
	TRACE_ALLOCATE, /* the file has at least offset + bytes; new bytes are zero */
	TRACE_RESIZE,   /* offset: the new size */
	/* covers: all operations on this file before that byte of the trace are on disk. */
	TRACE_SYNC,
	TRACE_RENAME,   /* text: from, to */
	TRACE_EXCHANGE, /* text: two paths, whose files change places */
	TRACE_LINK,     /* text: from, to */
	TRACE_REMOVE,   /* text: path of a file or folder */
	TRACE_MKDIR,    /* text: path */
	TRACE_SYNC_DIR, /* text: path; covers: the same for the names in it */
	TRACE_MARK      /* text: a fact that the test needs, such as "acknowledged 17" */
};

struct trace_op {
	uint32_t magic;
	uint32_t kind; /* enum disk_trace_kind */
	uint32_t text_bytes;
	uint32_t data_bytes; /* after the text */
	uint64_t inode;      /* of the file: identifies it until it is created anew */
	uint64_t offset, bytes;
	uint64_t covers; /* offset in the trace */
};

/* Environment of a program under interpose.c. */
/* The trace, outside the folder; %p stands for the process id. */
#define TRACE_FILE_ENV "WEIR_TRACE"
#define TRACE_ROOT_ENV "WEIR_TRACE_ROOT" /* absolute path of the folder */
/* Path prefixes, separated by colons, that are not recorded. */
#define TRACE_SKIP_ENV   "WEIR_TRACE_SKIP"
#define TRACE_RANGES_ENV "WEIR_TRACE_RANGES" /* if set: ranges without data, for long runs */

#endif
