/* runs/<job>/run.json: identifies the run of the job in this folder, so that it can be resumed.
 *
 *   {"version": 1, "uuid": "32 hex digits", "generation": 2, "restore": "ck-...",
 *    "warm_start": "", "servers": 2, "replicas": 1, "finished": false}
 *
 * `weir train` writes it when it starts servers for the first time. `weir train --resume` starts
 * them again with the same uuid and generation, and repeats an interrupted import of weights. `weir
 * restore` sets a new generation and the checkpoint from which servers of that generation start. */
#ifndef WEIR_RUN_STATE_H
#define WEIR_RUN_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/limits.h"
#include "weir/status.h"

struct run_state {
	uint8_t uuid[16];
	uint64_t generation;                          /* from 1 */
	char restore[WEIR_CHECKPOINT_NAME_BYTES_MAX]; /* "": this generation started empty */
	/* weights to import before workers start; "": none, or the import is done */
	char warm_start[WEIR_PATH_BYTES_MAX];
	/* number of servers that have served in this generation, and so hold what was trained since; 0:
	 * none yet */
	uint32_t servers;
	/* replicas of each partition when last served; 0: unknown, an earlier version began the
	 * generation */
	uint32_t replicas;
	bool finished; /* nothing was left to train when `weir train` ended */
};

/* E_NOT_FOUND: the folder holds no run. E_CORRUPT and E_VERSION give the path. */
weir_status run_state_read(const char *run_dir, struct run_state *out, weir_error *err) WEIR_MUST_CHECK;
/* Writes the file atomically. */
weir_status run_state_write(const char *run_dir, const struct run_state *state, weir_error *err) WEIR_MUST_CHECK;
void run_state_uuid_text(const struct run_state *state, char out[33]);

#endif
