#include "common/system/first_line.h"

#include <stdio.h>
#include <string.h>

#include "common/base/limits.h"

bool first_line_read(const char *folder, const char *name, char *out, size_t bytes)
{
	char path[2 * WEIR_PATH_BYTES_MAX];
	if (snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path)
		return false;
	FILE *in = fopen(path, "re");
	const bool read = in && fgets(out, (int)bytes, in);
	if (in)
		fclose(in);
	if (read)
		out[strcspn(out, "\r\n")] = '\0';
	return read;
}
