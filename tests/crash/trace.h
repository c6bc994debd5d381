/* A trace: what one program did to the files under one folder, in the order it happened. interpose.c writes it (preloaded into the
 * program), image.c turns any moment of it into the folders that a machine which died then might leave.
 *
 * A trace file is operations one after another, each appended by one write, so that several processes may mark the same trace:
 *   struct trace_op | text (text_bytes: one path or two, each with its NUL, relative to the folder; a mark's words) | data (data_bytes) */
#ifndef WEIR_TRACE_H
#define WEIR_TRACE_H

#include <stdint.h>

#define TRACE_MAGIC 0x43415254u /* "TRAC" */

enum trace_kind {
	TRACE_OPEN,     /* text: path of a file that was there before; offset: its size */
	TRACE_CREATE,   /* text: path */
	TRACE_WRITE,    /* offset, bytes; data unless only ranges are recorded */
	TRACE_ALLOCATE, /* the file has at least offset + bytes, new ones zero */
	TRACE_RESIZE,   /* offset: the new size */
	TRACE_SYNC,     /* covers: every operation of the trace before that byte, on this file, is on the disk */
	TRACE_RENAME,   /* text: from, to */
	TRACE_EXCHANGE, /* text: two paths, whose files change places */
	TRACE_LINK,     /* text: from, to */
	TRACE_REMOVE,   /* text: path, of a file or folder */
	TRACE_MKDIR,    /* text: path */
	TRACE_SYNC_DIR, /* text: path; covers, as above, of the names in it */
	TRACE_MARK      /* text: what the test wants to know about this moment ("acknowledged 17") */
};

struct trace_op {
	uint32_t magic;
	uint32_t kind; /* enum trace_kind */
	uint32_t text_bytes;
	uint32_t data_bytes; /* behind the text */
	uint64_t inode;      /* of the file: its name until it is created anew */
	uint64_t offset, bytes;
	uint64_t covers; /* byte of the trace */
};

/* Environment of a program under interpose.c. */
#define TRACE_FILE_ENV "WEIR_TRACE"      /* the trace, outside the folder; %p in it is the process's id */
#define TRACE_ROOT_ENV "WEIR_TRACE_ROOT" /* the folder, absolute */
#define TRACE_SKIP_ENV \
	"WEIR_TRACE_SKIP" /* beginnings of paths, with colons between them: files that nobody reads, not recorded */
#define TRACE_RANGES_ENV "WEIR_TRACE_RANGES" /* set: ranges without data, for long runs */

#endif
