/* Recognises how a CSV file is written: its delimiter, and whether its first row is a header. */
#ifndef WEIR_CSV_DIALECT_H
#define WEIR_CSV_DIALECT_H

#include <stdbool.h>
#include <stddef.h>

#include "weir/status.h"
#include "worker/data/format/csv_scan.h"

struct csv_dialect {
	struct csv_marks marks;
	/* The first row has names: no cell is a number, and none but the first is empty. */
	bool header;
};

/* Looks at the first rows of a text, at most CSV_DIALECT_ROWS. The delimiter is that of comma, tab,
 * semicolon, bar and \x01 by which most of these rows have as many cells as the first one, if that
 * is more than one; else the comma. known: its delimiter
 * may be 0: recognise it. PARSE_SLACK writable
 * bytes must follow the text, whose first becomes a newline. E_MEMORY. */
#define CSV_DIALECT_ROWS 1000u
weir_status csv_dialect_find(struct csv_dialect *out, char *text, size_t n, struct csv_marks known,
                             weir_error *err) WEIR_MUST_CHECK;

/* Whether a text is a decimal number. */
bool csv_is_number(const char *text, size_t n, double *out);

#endif
