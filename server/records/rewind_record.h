/* What follows a generation of the job: the coordinator's record `next` of it (authority_format.h), put once and never changed. What it means is rewind.h's. */
#ifndef WEIR_REWIND_RECORD_H
#define WEIR_REWIND_RECORD_H

#include <stdint.h>

#include "common/base/limits.h"

struct rewind_record {
	uint64_t generation;                             /* the next one, above that which it follows */
	char checkpoint[WEIR_CHECKPOINT_NAME_BYTES_MAX]; /* that it begins with, */
	uint64_t step;                                   /* after so many batches of the whole job */
	char why[WEIR_REWIND_WHY_BYTES_MAX];
};

#endif
