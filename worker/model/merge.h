/* Merges several models with the same tensors into one, without training.
 *
 *   linear  the mean of the inputs, by their weights (model soups, Wortsman et al. 2022)
 *   slerp   two inputs, along the arc between them (Shoemake 1985). For each tensor, with the
 *           angle w between the inputs:
 *           sin((1 - t) w) / sin w * first + sin(t w) / sin w * second; linear if nearly parallel
 *   task    base + the sum of weight * (input - base) (task arithmetic, Ilharco et al. 2023):
 *           adds or removes what the inputs have learnt since the base
 *
 * Names match with and without the prefix of a whole model. A head that is its input's token
 * embedding may be present or absent. Sums are in double. Integers (keys of rows, clocks, masks)
 * are not merged: they must be equal in all inputs. */
#ifndef WEIR_MERGE_H
#define WEIR_MERGE_H

#include "worker/model/safetensors/safetensors.h"

#define MERGE_INPUTS_MAX   16u
#define MERGE_PARALLEL_COS 0.9995 /* |cos| above which slerp takes the arc for a line */

enum merge_method { MERGE_LINEAR, MERGE_SLERP, MERGE_TASK };

struct merge {
	enum merge_method method;
	uint32_t count;
	const struct safetensors *inputs[MERGE_INPUTS_MAX];
	const char *names[MERGE_INPUTS_MAX]; /* for errors */
	/* linear: any sum but 0; slerp: t is the second one; task: independent */
	double weights[MERGE_INPUTS_MAX];
	const struct safetensors *base; /* task only */
	/* Each tensor keeps the first input's element type; else `type`. */
	bool as_first;
	enum safetensor_type type;
};

/* Writes the merged tensors with the first input's metadata. E_INVALID names the first tensor that
 * is not in all inputs, differs in shape, or has a value outside the range of its type. */
weir_status merge_write(const struct merge *m, const char *path, weir_error *err) WEIR_MUST_CHECK;

#endif
