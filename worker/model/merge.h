/* Several models of the same tensors become one, without training.
 *
 *   linear  the mean of the inputs by their weights (model soups, Wortsman et al. 2022)
 *   slerp   of two, along the arc between them: for each tensor, with the angle w between the inputs,
 *           sin((1 - t) w) / sin w * first + sin(t w) / sin w * second (Shoemake 1985); where they are nearly parallel, linear
 *   task    base + the sum of weight * (input - base) (task arithmetic, Ilharco et al. 2023): what inputs have learnt since is added, or taken away
 *
 * Names with and without the prefix of a whole model are one. A head that is its input's token
 * embedding may be there or not. Sums are taken in double. Whole numbers (keys of rows, clocks,
 * masks) are not merged: they must be the same in all. */
#ifndef WEIR_MERGE_H
#define WEIR_MERGE_H

#include "worker/model/safetensors.h"

#define MERGE_INPUTS_MAX   16u
#define MERGE_PARALLEL_COS 0.9995 /* of tensors that point in so nearly the same direction, the arc is a line */

enum merge_method { MERGE_LINEAR, MERGE_SLERP, MERGE_TASK };

struct merge {
	enum merge_method method;
	uint32_t count;
	const struct safetensors *inputs[MERGE_INPUTS_MAX];
	const char *names[MERGE_INPUTS_MAX]; /* for errors */
	double weights[MERGE_INPUTS_MAX];    /* linear: of any sum but 0; slerp: t is the second one; task: each on its own */
	const struct safetensors *base;      /* task */
	bool as_first;                       /* each tensor's elements are of the type that the first input's have, else of `type` */
	enum safetensor_type type;
};

/* Writes the merged tensors, with the first input's metadata. E_INVALID names the first tensor that is not in all, or not of one shape, or has a
 * number that the type does not reach. */
weir_status merge_write(const struct merge *m, const char *path, weir_error *err) WEIR_MUST_CHECK;

#endif
