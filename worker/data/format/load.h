/* Text to rows with several threads, delivered in the order of the text.
 *
 * Each thread in turn reads a chunk of whole lines (reading is serial and cheap), parses it alone,
 * and hands over its rows when all chunks before it have been. So the outcome does not depend on
 * the number of threads, nor does the error reported: the first in the text.
 *
 * Where the parser takes every line, each that is no row is delivered as a placeholder
 * (LABEL_BAD, LABEL_BLANK), so that rows are lines. */
#ifndef WEIR_LOAD_H
#define WEIR_LOAD_H

#include <stdint.h>

#include "common/system/logger.h"
#include "worker/data/format/line_split.h"
#include "worker/data/format/parse.h"
#include "worker/data/format/rows.h"

#define LOAD_PARTS            3u
#define LOAD_WRONG_LABELS_FEW 10u  /* rows may have a label that is none, and one */
#define LOAD_WRONG_LABELS_OF  100u /* of so many more */

struct load_range {
	const char *path;
	uint64_t begin, end; /* the lines that begin in these bytes; 0, UINT64_MAX: all. Compressed files: all. */
};

struct load_options {
	const struct parser *parser;
	struct split split;
	bool wanted[LOAD_PARTS]; /* lines of other parts are not parsed */
	uint32_t threads;
	struct logger *logger;     /* may be NULL */
	uint32_t bad_line_reports; /* bad lines logged with file:line */
	uint64_t bad_lines_max;    /* more: E_LIMIT */
	/* One thread at a time, in the order of the text. May take the rows (and leave rows_init'ed ones). */
	weir_status (*deliver)(void *context, enum split_part part, struct rows *rows, weir_error *err);
	void *context;
};

struct load_result {
	uint64_t rows, bad_lines;                  /* of the parts that are wanted */
	char first_bad[WEIR_ERROR_TEXT_BYTES / 2]; /* file:line: reason, where there is a bad line */
};

/* E_INVALID where many lines have labels that are none, and for the first line with more fields
 * than were counted. */
weir_status load_text(const struct load_options *o, const struct load_range *ranges, uint32_t count, struct load_result *result,
                      weir_error *err);

#endif
