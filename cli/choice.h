/* Which pass's weights a job will keep, said before it trains: the best by the validation part, or the last where that cannot tell. */
#ifndef WEIR_CHOICE_H
#define WEIR_CHOICE_H

#include "dataset.h"
#include "job.h"
#include "live.h"

/* Says so where it is not the best by the job's metric. valid: the validation part, NULL: there is none. Reads rows of it until both classes are seen. */
weir_status choice_note(struct live *live, const struct job *job, struct dataset *valid, weir_error *err) WEIR_MUST_CHECK;

#endif
