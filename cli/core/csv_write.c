#include "cli/core/csv_write.h"

#include <stdbool.h>
#include <string.h>

static const char special[] = {',', '"', '\r', '\n'};

void csv_write_cell(FILE *out, const char *text, size_t n)
{
	bool quoted = false;
	for (size_t i = 0; i < sizeof special && !quoted; i++)
		quoted = memchr(text, special[i], n) != NULL;
	if (quoted)
		fputc('"', out);
	for (size_t i = 0; i < n; i++) {
		if (text[i] == '"')
			fputc('"', out);
		fputc(text[i] ? text[i] : '|', out);
	}
	if (quoted)
		fputc('"', out);
}
