/* Mistakes in job files, by area, and what their sentences must have. */
#ifndef WEIR_TESTS_JOB_MISTAKES_H
#define WEIR_TESTS_JOB_MISTAKES_H

#include <stddef.h>

#include "weir/status.h"

struct mistake {
	const char *text;
	const char *set; /* one --set, or NULL */
	weir_status status;
	const char *parts[4]; /* of the sentence */
};

struct mistakes {
	const struct mistake *of;
	size_t count;
};

#define BASE   "job: x\ndata: {train: a}\n"
#define TOKENS "job: x\ndata: {format: tokens, train: a}\n"

extern const struct mistakes mistakes_of_file;
extern const struct mistakes mistakes_of_tables;
extern const struct mistakes mistakes_of_model;
extern const struct mistakes mistakes_of_cluster;

#endif
