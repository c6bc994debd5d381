/* The work units that a trainer holds, from lease to commit; and the residuals of error feedback,
 * which go out with the last of them. */
#ifndef WEIR_UNITS_H
#define WEIR_UNITS_H

#include "worker/data/prefetch.h"
#include "worker/train/batch/tables.h"
#include "worker/train/loop/trainer.h"

/* Held at once: one being computed, one being read, and those waiting for acknowledgements. */
#define UNITS_HELD    4u
#define UNITS_POLL_MS 100
/* How long a leaving worker waits, between passes, for a unit to push its residuals in. */
#define LAST_LEASE_MS 2000

struct held_unit {
	weir_unit lease;
	bool used, begun;
	uint32_t batches; /* with examples; residuals take one more */
	bool read;        /* its last batch has come from the reader */
	/* It cannot be read, for the reason in `why`: given back once its batches in the ring are
	 * done. */
	bool failed;
	uint32_t in_ring;
	uint64_t bad_lines; /* not reported yet */
	char why[WEIR_ERROR_TEXT_BYTES];
};

struct units {
	const struct trainer_options *options;
	const struct tables *tables;
	weir_client *const *client; /* the trainer's; another one after the job went back */
	struct prefetcher *prefetcher;
	const struct dataset *dataset;
	struct held_unit held[UNITS_HELD];
	bool finished; /* the ledger has no more work */
	bool behind;   /* the reader is in a unit that this worker has lost; logged once */
};

/* Takes one more unit when the reader would soon have nothing to read. */
weir_status units_lease_ahead(struct units *all, weir_error *err);
/* Notes the reader's item in its unit; *usable: the item holds a batch. */
weir_status units_note(struct units *all, const struct prefetched *item, bool *usable, weir_error *err);
/* Commits units whose batches are all acknowledged; gives back those that could not be read. */
weir_status units_close(struct units *all, weir_error *err);
bool units_any(const struct units *all);
void units_drop(struct units *all);
/* Pushes residuals in a held unit, or in any available one. A worker stopped while there is none
 * takes them along. */
weir_status units_leave_nothing(struct units *all, weir_error *err);

#endif
