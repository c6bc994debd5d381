#include "cli/core/csv_write.h"

#include <string.h>

static const char special[] = {',', '"', '\r', '\n'};

void csv_write_cell(FILE *out, const char *text, size_t n)
{
	const char *end = text + n, *quote;
	int quoted = 0;
	for (size_t i = 0; i < sizeof special && !quoted; i++)
		quoted = memchr(text, special[i], n) != NULL;
	if (!quoted) {
		fwrite(text, 1, n, out);
		return;
	}
	fputc('"', out);
	for (; (quote = memchr(text, '"', (size_t)(end - text))) != NULL; text = quote + 1) {
		fwrite(text, 1, (size_t)(quote - text) + 1, out);
		fputc('"', out);
	}
	fwrite(text, 1, (size_t)(end - text), out);
	fputc('"', out);
}
