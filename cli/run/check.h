/* What can be known of a job before it is started: `weir check`, and `weir train --dry-run`.
 * Nothing is made, started or deleted. */
#ifndef WEIR_CHECK_H
#define WEIR_CHECK_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "common/job/job.h"
#include "common/system/logger.h"

/* Looks at data, models, the run directory, addresses, memory and disk, and prints a line about
 * each: "ok", "note" (it may go wrong), or "WRONG" (training would not begin). Returns how many are
 * wrong. */
uint32_t check_job(const struct job *job, struct logger *logger, FILE *out);
/* Prints what `weir train` would do. */
void check_print_plan(const struct job *job, bool resume, bool fresh, FILE *out);

#endif
