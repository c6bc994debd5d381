#include "common/system/temp_folder.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

weir_status temp_folder_make(const char *name, char *out, size_t bytes, weir_error *err)
{
	const char *tmp = getenv("TMPDIR");
	const char *in = tmp && *tmp ? tmp : "/tmp";
	const int length = snprintf(out, bytes, "%s/%s-XXXXXX", in, name);
	const bool fits = length >= 0 && (size_t)length < bytes;
	if (fits && mkdtemp(out))
		return WEIR_OK;
	out[0] = '\0';
	return weir_fail(err, WEIR_E_IO, "cannot make a temporary folder in %s: %s; TMPDIR names another place", in,
	                 fits ? strerror(errno) : "its path is too long");
}
