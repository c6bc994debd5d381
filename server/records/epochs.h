/* When the epochs of a partition began. Every start of its server and every change of its primary
 * begins an epoch, at the index behind the end of the log at that time.
 *
 * An epoch of which no entry survives may be missing from the list.
 *
 * The list answers two questions. Is an entry that was acknowledged in an epoch still in the log?
 * An epoch continues the log that it finds, so entries of an older epoch at or above its start are
 * gone. How far are the logs of two replicas equal? A primary writes each index once. */
#ifndef WEIR_EPOCHS_H
#define WEIR_EPOCHS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/limits.h"

struct epochs {
	struct epoch_start {
		uint64_t epoch, first;  /* log index */
	} starts[WEIR_EPOCHS_KEPT]; /* (count) in rising order */
	uint32_t count;
};

/* Records the start of an epoch; does nothing when it is the newest already. At the limit it
 * forgets the oldest. */
void epochs_begin(struct epochs *e, uint64_t epoch, uint64_t first);
uint64_t epochs_now(const struct epochs *e); /* 0: no epoch has begun */
/* Whether the log still holds the entry `index` that was acknowledged in `epoch`. `last` is the
 * log's last index. True for index 0 (nothing was acknowledged). False when this is no longer
 * known. */
bool epochs_hold(const struct epochs *e, uint64_t epoch, uint64_t index, uint64_t last);

/* From now on the log ends at `last`: forgets the epochs that begin behind it. */
void epochs_truncate(struct epochs *e, uint64_t last);
/* Sets *common to the last index at which the follower's log equals the primary's. `last` is the
 * follower's last index. The primary is writing its newest epoch now: all that the follower has of
 * that epoch came from it. False when this is no longer known. */
bool epochs_common(const struct epochs *primary, const struct epochs *follower, uint64_t last, uint64_t *common);

#endif
