/* Reports before training which pass's weights a job will keep: the best pass by the validation
 * part, or the last pass if that part cannot decide. */
#ifndef WEIR_CHOICE_H
#define WEIR_CHOICE_H

#include "cli/core/progress_line.h"
#include "common/job/job.h"
#include "worker/data/dataset.h"

/* Prints a line unless the job's metric chooses the pass. valid: the validation part, or NULL.
 * Reads its rows until both classes have occurred. */
weir_status choice_note(struct progress_line *progress, const struct job *job, struct dataset *valid,
                        weir_error *err) WEIR_MUST_CHECK;

#endif
