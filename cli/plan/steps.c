#include "cli/plan/steps.h"

#include <string.h>

/* A table of what a codec costs. Frappe, `sweep frappe-codecs` of 2026-11-24 (means of 3 seeds, 12
 * passes): no codec is further from fp32 than the seeds are from each other (.003 of AUC), so the
 * factors of 8 and 16 bits are 1. `sweep frappe-network` of the same day has coded training one
 * pass behind by .007 after a short run: top-k's factor, and half of that for 4 bits and below. */
static const struct {
	const char *codec;
	double factor;
} pushes[] = {{"fp32", 1}, {"bf16", 1}, {"fp16", 1}, {"int8", 1}, {"int4", 1.05}, {"int2", 1.15}, {"sign", 1.15}, {"topk", 1.15}};

/* Staleness: asynchronous training of Frappe by two workers needs as many batches as synchronous
 * (`sweep frappe-modes`, 2026-11-24), and that of a small Llama by four 4 % more in the logarithm
 * of the loss's excess (`llm 2`, 2026-11-25). tau = workers - 1. */
#define STALENESS 0.015
/* A synchronous step joins a batch of each worker: it is one step of a batch that many times as
 * large. Below the critical batch size (McCandlish et al. 2018, arXiv 1812.06162) examples count
 * the same; the share that is lost is for batches of some hundreds of rows. */
#define LARGER_BATCH 0.02
/* Rounds: averaging every 16 batches loses nothing on Frappe (`local-16-average`, 2026-11-24);
 * DiLoCo of 50 needs a few percent more (`llm 2`, 2026-11-25). One worker loses nothing, but has to
 * gain something to be worth the change. */
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
