/* Update rules on dense tensors: on every backend, GPUs included, values, slots and accumulators
 * equal optimizer_apply's bit for bit. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/optimizer.h"
#include "kernels/vector.h"
#include "tests/unit/kernels/check_backend.h"
#include "tests/unit/kernels/check_optimizer.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))
#define STEPS    6 /* more than a window, and more than half of the next */

static const size_t sizes[] = {0, 1, 15, 1003, WEIR_CHUNK + 19, 2 * WEIR_CHUNK + 1024};

/* --- A tensor: as rows of optimizer_apply, or as the op's arrays */

struct tensor {
	struct row_state *states; /* (rows) */
	float *value, *slots, *accumulators;
	size_t n;
};

static struct tensor tensor_create(const weir_optimizer *o, const float *value, size_t n)
{
	const size_t rows = weir_chunks(n), slots = optimizer_slots(o->kind);
	struct tensor t = {calloc(rows + 1, sizeof *t.states), copy_floats(value, n), poisoned_floats(n * slots),
	                   poisoned_floats(rows), n};
	assert_non_null(t.states);
	optimizer_init_slots(o, t.slots, n);
	for (size_t i = 0; i < rows; i++)
		t.accumulators[i] = o->initial;
	return t;
}

static void tensor_free(struct tensor *t)
{
	free(t->states);
	free(t->value);
	free(t->slots);
	free(t->accumulators);
}

static void apply_rows(const struct optimizer *o, const struct optimizer_scalars *s, weir_optimizer_kind kind, struct tensor *t,
                       const float *grad)
{
	for (uint64_t row = 0; row < weir_chunks(t->n); row++) {
		const size_t at = row * WEIR_CHUNK, n = weir_chunk_elements(t->n, row);
		optimizer_begin_row(o, &t->states[row]);
		optimizer_apply(o, s, &t->states[row], t->value + at, t->slots + at * optimizer_slots(kind), n, 0, grad + at, n);
	}
}

static void check_tensor(const weir_optimizer *o, uint32_t step, const struct tensor *got, const struct tensor *want)
{
	const size_t slots = got->n * optimizer_slots(o->kind);
	char what[64];
	snprintf(what, sizeof what, "rule %d, %zu elements, step %u", (int)o->kind, got->n, step);
	check_same_bits(what, got->value, want->value, got->n);
	check_same_bits(what, got->slots, want->slots, slots);
	for (size_t row = 0; row < weir_chunks(got->n) && o->kind == WEIR_OPT_ROW_ADAGRAD; row++)
		check_same_bits(what, &got->accumulators[row], &want->states[row].accumulator, 1);
	assert_true(isnan(got->slots[slots]) && isnan(got->accumulators[weir_chunks(got->n)]));
}

static void update(struct backend *b, const struct optimizer *o, const struct optimizer_scalars *s, weir_optimizer_kind kind,
                   uint32_t steps, struct tensor *t, const float *grad)
{
	struct optimizer_step step = optimizer_step_of(o, s, steps);
	step.accumulator = t->accumulators;
	b->ops->update(b, &step, t->value, optimizer_slots(kind) > 0 ? t->slots : NULL, grad, t->n);
}

/* --- Tests */

static void try_rule(struct backend *b, struct prng *rng, weir_optimizer_kind kind, size_t n)
{
	const weir_optimizer spec = check_optimizer(kind);
	struct optimizer *o = optimizer_create(&spec, NULL);
	assert_non_null(o);
	float *first = random_floats(rng, n, -1, 1);
	struct tensor got = tensor_create(&spec, first, n), want = tensor_create(&spec, first, n);
	for (uint32_t step = 1; step <= STEPS; step++) {
		const struct optimizer_scalars scalars = {.lr = spec.lr / (float)step, .grad_scale = step % 2 ? 1 : 0.25f};
		float *grad = random_floats(rng, n, -2, 2);
		update(b, o, &scalars, kind, step, &got, grad);
		apply_rows(o, &scalars, kind, &want, grad);
		check_tensor(&spec, step, &got, &want);
		free(grad);
	}
	free(first);
	tensor_free(&got);
	tensor_free(&want);
	optimizer_destroy(o);
}

static void try_rules(struct backend *b, struct prng *rng)
{
	for (int kind = 0; kind < WEIR_OPTIMIZERS; kind++)
		for (size_t i = 0; i < COUNT(sizes); i++)
			try_rule(b, rng, (weir_optimizer_kind)kind, sizes[i]);
}

static void every_rule_gives_the_bits_of_rows(void **state)
{
	(void)state;
	on_every_backend(601, try_rules);
}

/* Arrays that start at any float. */
static void try_offsets(struct backend *b, struct prng *rng)
{
	enum { N = 1004, MORE = 3 };
	for (int kind = 0; kind < WEIR_OPTIMIZERS; kind++) {
		const weir_optimizer spec = check_optimizer((weir_optimizer_kind)kind);
		const struct optimizer_scalars scalars = {.lr = spec.lr, .grad_scale = 1};
		const size_t slots = N * optimizer_slots(spec.kind);
		struct optimizer *o = optimizer_create(&spec, NULL);
		float *all = random_floats(rng, (2 + WEIR_OPTIMIZER_SLOTS_MAX) * N + MORE, -1, 1), *at = all + MORE;
		struct tensor want = tensor_create(&spec, at + N, N);
		optimizer_init_slots(&spec, at + 2 * N, N);
		float accumulator = spec.initial;
		struct optimizer_step step = optimizer_step_of(o, &scalars, 1);
		step.accumulator = &accumulator;
		b->ops->update(b, &step, at + N, slots > 0 ? at + 2 * N : NULL, at, N);
		apply_rows(o, &scalars, spec.kind, &want, at);
		check_same_bits("value", at + N, want.value, N);
		check_same_bits("slots", at + 2 * N, want.slots, slots);
		free(all);
		tensor_free(&want);
		optimizer_destroy(o);
	}
}

static void arrays_begin_at_any_float(void **state)
{
	(void)state;
	on_every_backend(602, try_offsets);
}

/* A NaN stays in its element, or in its row if the rule reduces the row. */
static void try_nan(struct backend *b, struct prng *rng)
{
	enum { N = WEIR_CHUNK + 40 };
	for (int kind = 0; kind < WEIR_OPTIMIZERS; kind++) {
		const weir_optimizer spec = check_optimizer((weir_optimizer_kind)kind);
		const struct optimizer_scalars scalars = {.lr = spec.lr, .grad_scale = 1};
		struct optimizer *o = optimizer_create(&spec, NULL);
		float *first = random_floats(rng, N, 1, 2), *grad = random_floats(rng, N, 1, 2);
		const size_t at = WEIR_CHUNK + prng_below(rng, 40);
		struct tensor t = tensor_create(&spec, first, N);
		grad[at] = NAN;
		update(b, o, &scalars, spec.kind, 1, &t, grad);
		for (size_t i = 0; i < N; i++)
			assert_int_equal(isnan(t.value[i]) != 0, i == at || (kind == WEIR_OPT_ROW_ADAGRAD && i >= WEIR_CHUNK));
		free(first);
		free(grad);
		tensor_free(&t);
		optimizer_destroy(o);
	}
}

static void numbers_that_are_not_finite_stay_in_place(void **state)
{
	(void)state;
	on_every_backend(603, try_nan);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(every_rule_gives_the_bits_of_rows),
	    cmocka_unit_test(arrays_begin_at_any_float),
	    cmocka_unit_test(numbers_that_are_not_finite_stay_in_place),
	};
	return cmocka_run_group_tests_name("update", tests, NULL, NULL);
}
