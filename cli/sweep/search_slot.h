/* A slot runs one segment of a trial at a time: for each seed, `weir train` from the segment's
 * first step to its last, beginning with the checkpoint that the segment begins with. It has a run
 * directory of its own, OUT/slot-K, where packed and generated data stay for the next segment. All
 * else that lasts is in OUT/trials/NNNN-SEED: the trial's checkpoints, and a report for each step.
 *
 * OUT/slot-K/segment.json says which segment the run directory holds, once it is set up. A search
 * that was killed goes on with that run by `weir train --resume` if the servers' logs are on disk,
 * and repeats the segment from its checkpoint otherwise. A segment whose report is there is not run
 * again. */
#ifndef WEIR_SEARCH_SLOT_H
#define WEIR_SEARCH_SLOT_H

#include "cli/core/supervise.h"
#include "cli/sweep/search_book.h"

struct search_slot;
struct search_slot_options {
	const struct sweep *sweep;
	const struct search_book *book;
	uint32_t number;  /* K */
	uint32_t threads; /* train.threads; 0: as the job says */
};
/* NULL: out of memory. */
struct search_slot *search_slot_create(const struct search_slot_options *options);
void search_slot_destroy(struct search_slot *s); /* kills what runs */

/* Whether its run directory holds this segment, begun earlier. */
bool search_slot_holds(const struct search_slot *s, const struct search_segment *g);
/* Begins a segment. An error is the trial's, not the search's. */
weir_status search_slot_begin(struct search_slot *s, const struct search_segment *g, weir_error *err) WEIR_MUST_CHECK;
/* NULL: it is free */
const struct search_segment *search_slot_segment(const struct search_slot *s);
/* Looks after the segment. *ended: it is over, the slot is free, and *out is what it came to. An
 * error ends the segment. */
weir_status search_slot_poll(struct search_slot *s, bool *ended, struct segment_outcome *out, weir_error *err) WEIR_MUST_CHECK;
void search_slot_signal(struct search_slot *s, int signal);
/* Keeps the run directory of the segment that ended last, which failed, as
 * OUT/trial-NNNN.failed. */
void search_slot_put_aside(const struct search_slot *s);

/* The settings of a trial, KEY=VALUE, in the order of the space. Returns their number. */
typedef char search_settings[SPACE_DIMS_MAX][WEIR_ERROR_TEXT_BYTES / 4];
uint32_t search_settings_of(const struct sweep *s, const struct space_point *p, search_settings out);

#endif
