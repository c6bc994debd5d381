/* Checks of a job before it starts: `weir check` and `weir train --dry-run`. They create, start and
 * delete nothing. */
#ifndef WEIR_CHECK_H
#define WEIR_CHECK_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "common/job/job.h"
#include "common/system/logger.h"

/* Checks data, models, the run directory, addresses, memory and disk, and prints a line about each:
 * "ok", "note" (a possible problem), or "WRONG" (training would not start). Returns the number of
 * WRONG lines. */
uint32_t check_job(const struct job *job, struct logger *logger, FILE *out);
/* Prints the actions of `weir train`. */
void check_print_plan(const struct job *job, bool resume, bool fresh, FILE *out);

#endif
