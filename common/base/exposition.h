/* The parts of Prometheus' text exposition (version 0.0.4) that every page of series is made of. */
#ifndef WEIR_EXPOSITION_H
#define WEIR_EXPOSITION_H

#include <stdio.h>

/* What stands once before the samples of a name. type: counter, gauge or histogram. */
void exposition_header(FILE *out, const char *name, const char *type, const char *help);
/* Begins a sample's labels, `{label="value"`: others may follow after a comma, then `}`. Values are what people chose. */
void exposition_label(FILE *out, const char *label, const char *value);
/* Adds a label behind the first: `,label="value"`. */
void exposition_next_label(FILE *out, const char *label, const char *value);
/* A sample's value, behind a space, and the end of its line. */
void exposition_value(FILE *out, double value);
/* A name with one sample and no labels, header and all. */
void exposition_number(FILE *out, const char *name, const char *type, const char *help, double number);

#endif
