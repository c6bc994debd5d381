/* When the epochs of a partition began: every start of its server, and every change of its primary, begins one at the index behind what was there. It tells
 * whether an entry that was acknowledged in an epoch is still there: the log of an older epoch is what the next one found, and no more; and how far
 * two replicas' logs are the same, since what one primary wrote at an index is written once. */
#ifndef WEIR_EPOCHS_H
#define WEIR_EPOCHS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/limits.h"

struct epochs {
	struct epoch_start {
		uint64_t epoch, first;  /* log index */
	} starts[WEIR_EPOCHS_KEPT]; /* (count) rising; one that wrote nothing that survived may be missing */
	uint32_t count;
};

/* Does nothing when it has begun already. The oldest is forgotten at the limit. */
void epochs_begin(struct epochs *e, uint64_t epoch, uint64_t first);
uint64_t epochs_now(const struct epochs *e); /* 0: none has begun */
/* Whether the log, whose last index is `last`, holds what index `index` was acknowledged for in `epoch` (0, 0: nothing was). False when it cannot be
 * known any more. */
bool epochs_hold(const struct epochs *e, uint64_t epoch, uint64_t index, uint64_t last);

/* The log ends at `last` from now on: epochs that would begin behind it have not begun. */
void epochs_truncate(struct epochs *e, uint64_t last);
/* *common: the last index at which the follower's log, whose last index is `last`, is the primary's. The primary's newest epoch is the one that it writes
 * now: all that the follower has of that epoch came from it. False when it cannot be known any more. */
bool epochs_common(const struct epochs *primary, const struct epochs *follower, uint64_t last, uint64_t *common);

#endif
