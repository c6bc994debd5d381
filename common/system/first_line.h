/* Small files of the system and of tools, which say one thing in one line. */
#ifndef WEIR_FIRST_LINE_H
#define WEIR_FIRST_LINE_H

#include <stdbool.h>
#include <stddef.h>

/* Reads the first line of FOLDER/NAME without its end, cut to `bytes` with the zero byte. False: it
 * cannot be read, or is empty. */
bool first_line_read(const char *folder, const char *name, char *out, size_t bytes);

#endif
