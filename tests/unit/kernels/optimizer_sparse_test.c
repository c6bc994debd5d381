/* Rules on some elements of a row: the rule's bits on them; other elements stay. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/vector.h"
#include "tests/unit/kernels/check.h"
#include "tests/unit/kernels/check_optimizer.h"

#define WIDTH     20000
#define TILE      16384
#define PUSHES    9
#define PLANES    (1 + WEIR_OPTIMIZER_SLOTS_MAX)
#define COUNT_MAX TILE

struct row {
	float x[PLANES * WIDTH]; /* value, slots */
	struct row_state state;
};

static void first_row(struct row *row, const weir_optimizer *spec)
{
	struct prng r;
	prng_seed(&r, 51);
	row->state = (struct row_state){0};
	for (size_t i = 0; i < PLANES * WIDTH; i++)
		row->x[i] = (float)(prng_unit(&r) - 0.5);
	optimizer_init_slots(spec, row->x + WIDTH, WIDTH);
}

/* About one of `every` offsets, ascending. */
static size_t random_offsets(struct prng *r, uint64_t every, uint16_t *offsets, float *grad)
{
	size_t count = 0;
	for (uint32_t i = 0; i < TILE; i++)
		if (prng_below(r, every) == 0) {
			grad[count] = (float)(prng_unit(r) * 4 - 2);
			offsets[count++] = (uint16_t)i;
		}
	return count;
}

/* Element by element with the dense rule. */
static void push_one_by_one(const struct optimizer *o, const struct optimizer_scalars *s, struct row *row, size_t first,
                            const uint16_t *offsets, const float *grad, size_t count)
{
	optimizer_begin_row(o, &row->state);
	for (size_t i = 0; i < count; i++)
		optimizer_apply(o, s, &row->state, row->x, row->x + WIDTH, WIDTH, first + offsets[i], &grad[i], 1);
}

static void push_sparse(const struct optimizer *o, const struct optimizer_scalars *s, struct row *row, size_t first,
                        const uint16_t *offsets, const float *grad, size_t count)
{
	optimizer_begin_row(o, &row->state);
	optimizer_apply_sparse(o, s, &row->state, row->x, row->x + WIDTH, WIDTH, first, offsets, grad, count);
}

static void the_bits_are_those_of_the_rule(void **state)
{
	(void)state;
	static struct row want, got;
	static uint16_t offsets[COUNT_MAX];
	static uint8_t wire[COUNT_MAX * sizeof(float) + 1];
	static float grad[COUNT_MAX];
	static const uint64_t densities[PUSHES] = {100, 1000, 100, 20, 1, 3, 100, 30000, 50};
	static const size_t firsts[] = {0, 1, WIDTH - TILE};
	for (int kind = 0; kind < WEIR_OPTIMIZERS; kind++)
		for (unsigned v = 0; vector_ops_variant(v) != NULL; v++) {
			const weir_optimizer spec = check_optimizer((weir_optimizer_kind)kind);
			struct optimizer *plain = optimizer_create_with(vector_ops_variant(0), &spec, NULL);
			struct optimizer *o = optimizer_create_with(vector_ops_variant(v), &spec, NULL);
			struct prng r;
			static const weir_init_segment segments[] = {{.elements = 9000},
			                                             {.elements = 1, .undecayed = true},
			                                             {.elements = 3000, .undecayed = true},
			                                             {.elements = WIDTH - 12001}};
			assert_true(plain && o);
			assert_int_equal(optimizer_leave_out(plain, segments, 4, NULL), WEIR_OK);
			assert_int_equal(optimizer_leave_out(o, segments, 4, NULL), WEIR_OK);
			prng_seed(&r, 52);
			first_row(&want, &spec);
			first_row(&got, &spec);
			for (unsigned push = 0; optimizer_is_elementwise(o) && push < PUSHES; push++) {
				const struct optimizer_scalars s = {.lr = 0.05f / (float)(push + 1), .grad_scale = push % 2 ? 0.5f : 1};
				const size_t count = random_offsets(&r, densities[push], offsets, grad), first = firsts[push % 3];
				memcpy(wire + 1, grad, count * sizeof *grad); /* unaligned, as in a message */
				push_one_by_one(plain, &s, &want, first, offsets, grad, count);
				push_sparse(o, &s, &got, first, offsets, (const float *)(const void *)(wire + 1), count);
				check_same_bits(vector_ops_variant(v)->name, got.x, want.x, PLANES * WIDTH);
				assert_int_equal(got.state.steps, want.state.steps);
			}
			optimizer_destroy(plain);
			optimizer_destroy(o);
		}
}

static void rows_without_a_key_in_the_push_stay(void **state)
{
	(void)state;
	static struct row before, row;
	static const uint16_t offsets[] = {0, 7, 5000, TILE - 1};
	static const float grad[] = {1, -1, 2, -2};
	const struct optimizer_scalars s = {.lr = 0.1f, .grad_scale = 1};
	for (int kind = 0; kind < WEIR_OPTIMIZERS; kind++) {
		const weir_optimizer spec = check_optimizer((weir_optimizer_kind)kind);
		struct optimizer *o = optimizer_create(&spec, NULL);
		assert_non_null(o);
		first_row(&before, &spec);
		first_row(&row, &spec);
		if (optimizer_is_elementwise(o)) {
			push_sparse(o, &s, &row, 10, offsets, grad, 0);
			check_same_bits("no elements", row.x, before.x, PLANES * WIDTH);
			push_sparse(o, &s, &row, 10, offsets, grad, 4);
			for (size_t i = 0; i < 4; i++) {
				assert_true(row.x[10 + offsets[i]] != before.x[10 + offsets[i]]);
				for (size_t p = 0; p < PLANES; p++)
					row.x[p * WIDTH + 10 + offsets[i]] = before.x[p * WIDTH + 10 + offsets[i]];
			}
			check_same_bits("the others", row.x, before.x, PLANES * WIDTH);
		}
		optimizer_destroy(o);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_bits_are_those_of_the_rule),
	    cmocka_unit_test(rows_without_a_key_in_the_push_stay),
	};
	return cmocka_run_group_tests_name("optimizer_sparse", tests, NULL, NULL);
}
