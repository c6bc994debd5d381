/* The end of a run: its report, and the exit status. For `weir train` and `weir launch`. */
#ifndef WEIR_RUN_END_H
#define WEIR_RUN_END_H

#include "cli/run/train.h"

/* Writes the checkpoint of the finished job that --checkpoint-at-end asks for. The servers still
 * run. Sets t->failure if it fails. */
void run_take_checkpoint(struct train *t);
/* Completes the report, prints it and writes its files. The servers still run. */
weir_status run_report(struct train *t, struct report *r, weir_error *err) WEIR_MUST_CHECK;
/* Prints the first failure as the last line on stderr and returns the exit status. */
int run_verdict(struct train *t, const struct report *r);

#endif
