/* What config/reference.yaml, the documentation of job files, says of a key. It is part of the
 * program. */
#ifndef WEIR_JOB_REFERENCE_H
#define WEIR_JOB_REFERENCE_H

#include <stdbool.h>
#include <stddef.h>

/* The whole file. */
extern const char job_reference_yaml[];

/* Writes the comment behind a key or a map ("data.split"), on one line, cut at the end of out. Of
 * two tables or optimizers, the file explains the keys of the first. False: it has no comment. */
bool job_reference_comment(const char *path, char *out, size_t bytes);

#endif
