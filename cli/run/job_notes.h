/* Lines about events of a running job that its user should see at once. */
#ifndef WEIR_JOB_NOTES_H
#define WEIR_JOB_NOTES_H

#include "cli/run/train.h"

/* Reports stalled workers, evaluations that are no numbers and failed checkpoints since t->seen. */
void job_notes_look(struct train *t, const struct overview *now);

#endif
