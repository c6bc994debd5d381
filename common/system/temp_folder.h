/* Folders for a while. */
#ifndef WEIR_TEMP_FOLDER_H
#define WEIR_TEMP_FOLDER_H

#include <stddef.h>

#include "weir/status.h"

/* Makes a folder of a new name, NAME-XXXXXX, in TMPDIR (/tmp). `out` gets its path; "" on an error.
 * E_IO: it cannot be made, or its path is longer than `bytes`. */
weir_status temp_folder_make(const char *name, char *out, size_t bytes, weir_error *err) WEIR_MUST_CHECK;

#endif
