/* Looks up a program as execvp does. */
#include "common/system/program.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

weir_status program_find(char *out, size_t out_bytes, const char *name, const char *package, const char *path, weir_error *err)
{
	for (const char *at = path ? path : ""; *at; at += strcspn(at, ":"), at += *at == ':') {
		struct stat st;
		int folder_bytes = (int)strcspn(at, ":");
		int n = snprintf(out, out_bytes, "%.*s/%s", folder_bytes ? folder_bytes : 1, folder_bytes ? at : ".", name);
		if (n < 0 || (size_t)n >= out_bytes)
			return weir_fail(err, WEIR_E_LIMIT, "%s: a folder of PATH has %d bytes, too many", name, folder_bytes);
		if (stat(out, &st) == 0 && S_ISREG(st.st_mode) && access(out, X_OK) == 0)
			return WEIR_OK;
	}
	return weir_fail(err, WEIR_E_NOT_FOUND, "the program %s is not on PATH: install the Debian package %s (apt-get install %s)",
	                 name, package, package);
}
