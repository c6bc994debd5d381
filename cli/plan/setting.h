/* A plan: a value for each key that the planner may choose. */
#ifndef WEIR_PLAN_SETTING_H
#define WEIR_PLAN_SETTING_H

#include "cli/plan/figures.h"

/* When pushes to the dense table take effect: one of these, or PLAN_LOCAL + H for rounds of H local
 * steps. */
enum { PLAN_ASYNC, PLAN_SSP, PLAN_SYNC, PLAN_LOCAL };
static inline uint32_t plan_mode_steps(uint32_t mode)
{
	return mode > PLAN_LOCAL ? mode - PLAN_LOCAL : 0;
}
/* "async", "local, steps 16" */
#define PLAN_MODE_BYTES 32u
void plan_mode_text(uint32_t mode, char out[PLAN_MODE_BYTES]);

/* Batches that a worker may be ahead of the slowest with ssp. */
#define PLAN_SSP_BOUND 4u

enum plan_key {
	PLAN_KEY_MODE,
	PLAN_KEY_WORKERS,
	PLAN_KEY_SERVERS,
	PLAN_KEY_EXECUTORS,
	PLAN_KEY_CACHE, /* whether workers keep rows of embeddings: 0 or 1 */
	PLAN_KEY_LEGS,
	PLAN_KEYS = PLAN_KEY_LEGS + PLAN_LEGS
};

/* Of each key: the mode, a number, or for a leg the place of a code in the figures. */
struct plan_setting {
	uint32_t of[PLAN_KEYS];
};

/* The candidates of each key, at least one. */
#define PLAN_VALUES_MAX 16u
struct plan_space {
	uint32_t values[PLAN_KEYS][PLAN_VALUES_MAX];
	uint32_t counts[PLAN_KEYS];
};

#endif
