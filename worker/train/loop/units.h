/* The work units that a trainer holds, from lease to commit; and what error feedback keeps back, which goes out with the last of them. */
#ifndef WEIR_TRAIN_UNITS_H
#define WEIR_TRAIN_UNITS_H

#include "worker/data/prefetch.h"
#include "worker/train/batch/tables.h"
#include "worker/train/loop/trainer.h"

/* Held at once: one being computed, one being read, and those waiting for acknowledgements. */
#define UNITS_HELD    4u
#define UNITS_POLL_MS 100
#define LAST_LEASE_MS 2000 /* who leaves waits so long for a unit to leave its residuals with: from pass to pass */

struct held_unit {
	weir_unit lease;
	bool used, begun;
	uint32_t batches; /* with examples; what error feedback keeps back has one more */
	bool read;        /* its last batch has come from the reader */
	bool failed;      /* it cannot be read, `why` says why: given back once its batches in the ring are through */
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
/* What the reader's item says about its unit; *usable: it holds a batch. */
weir_status units_note(struct units *all, const struct prefetched *item, bool *usable, weir_error *err);
/* Commits units whose batches are all acknowledged; gives back those that could not be read. */
weir_status units_close(struct units *all, weir_error *err);
bool units_any(const struct units *all);
void units_drop(struct units *all);
/* What was kept back goes out in a unit that is held, or in any that there is; a worker that is stopped while there is none takes it along. */
weir_status units_leave_nothing(struct units *all, weir_error *err);

#endif
