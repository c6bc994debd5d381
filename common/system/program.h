/* Programs of other packages that Weir starts. Weir looks for them in advance, so that a missing
 * one causes a clear error and not a failed exec. */
#ifndef WEIR_PROGRAM_H
#define WEIR_PROGRAM_H

#include <stddef.h>

#include "weir/status.h"

/* Writes the path of the first executable file `name` in the folders of `path` (the variable PATH;
 * NULL: as if empty) to out (out_bytes). E_NOT_FOUND: no such file; the text names the Debian
 * package that has it. E_LIMIT: out is too small. */
weir_status program_find(char *out, size_t out_bytes, const char *name, const char *package, const char *path,
                         weir_error *err) WEIR_MUST_CHECK;

#endif
