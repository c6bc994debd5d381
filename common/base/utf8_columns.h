/* The width of UTF-8 text on a terminal, to pad columns by. */
#ifndef WEIR_UTF8_COLUMNS_H
#define WEIR_UTF8_COLUMNS_H

#include <stddef.h>

/* Columns that the text takes: 2 for a wide character, 0 for one that combines with the character
 * before it, 1 for a byte that is no UTF-8. Independent of the process's locale. */
size_t utf8_columns(const char *text);

#endif
