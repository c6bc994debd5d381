#include "common/base/exposition.h"

#include <math.h>

/* Escapes line ends, backslashes, and the character `quote`. */
static void put_escaped(FILE *out, const char *text, char quote)
{
	for (; *text; text++) {
		if (*text == '\n')
			fputs("\\n", out);
		else
			fprintf(out, *text == '\\' || *text == quote ? "\\%c" : "%c", *text);
	}
}

void exposition_header(FILE *out, const char *name, const char *type, const char *help)
{
	fprintf(out, "# HELP %s ", name);
	put_escaped(out, help, '\\');
	fprintf(out, "\n# TYPE %s %s\n", name, type);
}

void exposition_label(FILE *out, const char *label, const char *value)
{
	fprintf(out, "{%s=\"", label);
	put_escaped(out, value, '"');
	fputc('"', out);
}

void exposition_next_label(FILE *out, const char *label, const char *value)
{
	fprintf(out, ",%s=\"", label);
	put_escaped(out, value, '"');
	fputc('"', out);
}

void exposition_value(FILE *out, double value)
{
	/* printf writes the sign of a NaN, for which Prometheus rejects the whole page */
	if (isnan(value))
		fputs(" NaN\n", out);
	else
		fprintf(out, " %.17g\n", value);
}

void exposition_number(FILE *out, const char *name, const char *type, const char *help, double number)
{
	exposition_header(out, name, type, help);
	fputs(name, out);
	exposition_value(out, number);
}
