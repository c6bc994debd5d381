/* How many times more batches a setting needs to reach the same validation value. No run has
 * measured that: the constants are judged by how the runs of docs/BENCHMARKS.md end; steps.c names
 * run and date of each. They rank settings, and nothing else depends on them. */
#ifndef WEIR_PLAN_STEPS_H
#define WEIR_PLAN_STEPS_H

#include "cli/plan/setting.h"

/* Of a leg's codec, from 1. Unknown names count as fp32. */
double plan_steps_of_codec(enum plan_leg leg, const char *codec);
/* Of a mode with that many workers: rounds of local steps, and staleness. */
double plan_steps_of_mode(uint32_t mode, uint32_t workers);

#endif
