/* The generation that follows a generation of the job. It is the coordinator's record `next` of the
 * older generation (coord_records_format.h), put once and never changed. rewind.h explains its
 * use. */
#ifndef WEIR_REWIND_RECORD_H
#define WEIR_REWIND_RECORD_H

#include <stdint.h>

#include "common/base/limits.h"

struct rewind_record {
	uint64_t generation; /* of the next one; larger than the one it follows */
	/* That the next generation begins with. */
	char checkpoint[WEIR_CHECKPOINT_NAME_BYTES_MAX];
	uint64_t step; /* of the checkpoint, in batches of the whole job */
	char why[WEIR_REWIND_WHY_BYTES_MAX];
};

#endif
