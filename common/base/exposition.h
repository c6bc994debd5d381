/* Building blocks of Prometheus' text exposition (version 0.0.4), for all pages of series. */
#ifndef WEIR_EXPOSITION_H
#define WEIR_EXPOSITION_H

#include <stdio.h>

/* Writes the header that comes once before the samples of a name. type: counter, gauge or
 * histogram. */
void exposition_header(FILE *out, const char *name, const char *type, const char *help);
/* Begins a sample's labels, `{label="value"`. The caller adds more labels after a comma, then `}`.
 * Values may be any text that people choose. */
void exposition_label(FILE *out, const char *label, const char *value);
/* Adds another label: `,label="value"`. */
void exposition_next_label(FILE *out, const char *label, const char *value);
/* Writes a space, the value of a sample, and the end of its line. */
void exposition_value(FILE *out, double value);
/* Writes a name with one sample and no labels, including the header. */
void exposition_number(FILE *out, const char *name, const char *type, const char *help, double number);

#endif
