/* The trainers that one `weir launch` starts, of the cluster.workers of its job. Trainer R has rank
 * R and the name worker-R. Launches on several machines start a range each. */
#ifndef WEIR_RANKS_H
#define WEIR_RANKS_H

#include "overview/overview.h"

struct ranks {
	uint32_t first, count;
};

/* Reads "4-7" or "4". E_INVALID: no such range, or a rank is not below `workers`. */
weir_status ranks_parse(struct ranks *out, const char *text, uint32_t workers, weir_error *err) WEIR_MUST_CHECK;
void ranks_name(uint32_t rank, char out[WEIR_NAME_BYTES_MAX]);
/* Returns the number of live trainers, by their names, that other launches of the job have
 * started. */
uint32_t ranks_live_elsewhere(const struct ranks *here, uint32_t workers, const struct overview *seen);

#endif
