/* Writes CSV as RFC 4180 says, with LF. */
#ifndef WEIR_CSV_WRITE_H
#define WEIR_CSV_WRITE_H

#include <stddef.h>
#include <stdio.h>

/* Writes a cell, in quotes if it has a comma, a quote or a line end; a zero byte, which parts the
 * texts of a list, becomes a bar. */
void csv_write_cell(FILE *out, const char *text, size_t n);

#endif
