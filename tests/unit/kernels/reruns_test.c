/* Equal inputs give equal bits on every run, also after other work has used the same memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/unit/kernels/op_cases.h"

#define RERUNS 3

static void try_again(struct backend *b, struct prng *rng)
{
	const uint64_t seed = prng_u64(rng);
	for (unsigned i = 0, more = 1; more; i++) {
		float *first = NULL;
		for (int run = 0; run <= RERUNS && more; run++) {
			struct prng inputs;
			prng_seed(&inputs, seed);
			float *out = calloc(OP_CASE_RESULTS, sizeof *out);
			assert_non_null(out);
			more = op_case_run(i, b, &inputs, out);
			if (first != NULL)
				check_same_bits("again", out, first, OP_CASE_RESULTS);
			free(first);
			first = out;
		}
		free(first);
	}
}

static void the_same_inputs_give_the_same_bits(void **state)
{
	(void)state;
	on_every_backend(701, try_again);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(the_same_inputs_give_the_same_bits)};
	return cmocka_run_group_tests_name("reruns", tests, NULL, NULL);
}
