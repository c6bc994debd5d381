/* Parses text into rows with several threads and delivers them in the order of the text.
 *
 * Each thread repeats three steps: read a chunk of whole lines (serial and cheap), parse it alone,
 * and deliver its rows after those of all earlier chunks. So the number of threads changes neither
 * the result nor the reported error, which is the first one in the text.
 *
 * If the parser takes every line, lines that are not rows are delivered as placeholders (LABEL_BAD,
 * LABEL_BLANK), so that rows correspond to lines. */
#ifndef WEIR_LOAD_H
#define WEIR_LOAD_H

#include <stdint.h>

#include "common/system/logger.h"
#include "worker/data/format/line_split.h"
#include "worker/data/format/parse.h"
#include "worker/data/format/rows.h"

#define LOAD_PARTS            3u
#define LOAD_WRONG_LABELS_FEW 10u  /* invalid labels that are tolerated */
#define LOAD_WRONG_LABELS_OF  100u /* one more is tolerated per this many rows */

struct load_range {
	const char *path;
	/* Selects the lines that begin in these bytes, of Parquet and Arrow files these rows; 0 and
	 * UINT64_MAX select all. Compressed files allow only that. */
	uint64_t begin, end;
};

struct load_options {
	const struct parser *parser;
	struct split split;
	bool wanted[LOAD_PARTS]; /* false: lines of this part are not parsed */
	uint32_t threads;
	struct logger *logger;     /* may be NULL */
	uint32_t bad_line_reports; /* number of bad lines to log with file:line */
	uint64_t bad_lines_max;    /* more bad lines: E_LIMIT */
	/* Called by one thread at a time, in the order of the text. May take the rows; it must then
	 * leave rows that are initialised by rows_init. */
	weir_status (*deliver)(void *context, enum split_part part, struct rows *rows, weir_error *err);
	void *context;
};

struct load_result {
	uint64_t rows, bad_lines;                  /* in the wanted parts only */
	char first_bad[WEIR_ERROR_TEXT_BYTES / 2]; /* file:line: reason; "" if there is no bad line */
};

/* E_INVALID if too many lines have an invalid label, or at the first line with more fields than
 * were counted. */
weir_status load_text(const struct load_options *o, const struct load_range *ranges, uint32_t count, struct load_result *result,
                      weir_error *err);

#endif
