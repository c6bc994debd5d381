#include "cli/plan/steps.h"

#include <string.h>

/* Frappe, `sweep frappe-codecs` of 2026-11-24 (means of 3 seeds, 12 passes): the AUC of no codec is
 * further from fp32's than the seeds are from each other, .003. So 8 and 16 bits count as fp32. In
 * one pass of `sweep frappe-network` of that day, coded training (top-k 1 %) ends .007 behind: the
 * factors of 4 bits and below are a guess from that. */
static const struct {
	const char *codec;
	double factor;
} pushes[] = {{"fp32", 1}, {"bf16", 1}, {"fp16", 1}, {"int8", 1}, {"int4", 1.05}, {"int2", 1.15}, {"sign", 1.15}, {"topk", 1.15}};

/* Of each other worker whose pushes make values stale. As many batches give Frappe the same AUC
 * with two workers, asynchronous .9547, synchronous .9536 (`sweep frappe-modes`, 2026-11-24); a
 * small Llama's loss is 1.5 % higher with four (1.6466, 1.6225: `llm 2`, 2026-11-25). */
#define STALENESS 0.015
/* Of each other worker whose batch a synchronous step joins to one larger batch: fewer steps. Below
 * the critical batch size examples count nearly the same (McCandlish et al. 2018, arXiv
 * 1812.06162); a guess. */
#define LARGER_BATCH 0.02
/* Of each further batch of a round. Averaging every 16 batches loses nothing on Frappe
 * (`local-16-average`, 2026-11-24); DiLoCo of 50 ends .7 % to 1 % above synchronous loss (`llm 2`,
 * 2026-11-25). One worker loses nothing, but has to gain something to be worth the change. */
#define ROUND_STEP 0.002

double plan_steps_of_codec(enum plan_leg leg, const char *codec)
{
	const bool dense = leg == PLAN_DENSE_PUSH || leg == PLAN_DENSE_PULL;
	for (size_t i = 0; i < sizeof pushes / sizeof *pushes; i++)
		if (strcmp(pushes[i].codec, codec) == 0)
			return dense ? pushes[i].factor : 1;
	return 1;
}

double plan_steps_of_mode(uint32_t mode, uint32_t workers)
{
	const double others = workers - 1.0;
	const uint32_t steps = plan_mode_steps(mode);
	if (steps > 0)
		return 1 + ROUND_STEP * (steps - 1.0);
	return 1 + (mode == PLAN_SYNC ? LARGER_BATCH : STALENESS) * others;
}
