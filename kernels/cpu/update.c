/* A step of an update rule on a dense tensor: row by row, each on one thread, as optimizer_apply
 * does. */
#include "kernels/cpu/ops.h"

extern const struct vector_ops ISA(vector_ops);

struct update {
	const struct optimizer_step *step;
	float *value, *slots;
	const float *grad;
	size_t n;
};

static void update_range(void *args, size_t begin, size_t end)
{
	const struct update *u = args;
	const rule_fn rule = ISA(vector_ops).rules[u->step->kind];
	const uint32_t slots = optimizer_slots(u->step->kind);
	struct optimizer_step step = *u->step;
	for (size_t row = begin; row < end; row++) {
		const size_t at = row * WEIR_CHUNK, n = least(WEIR_CHUNK, u->n - at);
		float *slot0 = slots > 0 ? u->slots + at * slots : NULL, *slot1 = slots > 1 ? slot0 + n : NULL;
		if (u->step->accumulator)
			step.accumulator = u->step->accumulator + row;
		rule(&step, u->value + at, slot0, slot1, u->grad + at, n);
	}
}

void ISA(cpu_update)(struct backend *b, const struct optimizer_step *step, float *value, float *slots, const float *grad,
                     size_t n)
{
	struct update u = {step, value, slots, grad, n};
	cpu_parallel(b, weir_chunks(n), 1, update_range, &u);
}
