/* Token and position embeddings: the look-up, and its gradient added in row order, bit for bit. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "check_backend.h"

struct sample {
	size_t vocabulary, rows, length, width;
	float *table, *positions, *dout;
	uint32_t *tokens;
};

static const struct sample shapes[] = {{1, 0, 3, 5, NULL, NULL, NULL, NULL},       {1, 1, 1, 1, NULL, NULL, NULL, NULL},
                                       {300, 14, 7, 3, NULL, NULL, NULL, NULL},    {5, 600, 100, 17, NULL, NULL, NULL, NULL},
                                       {1000, 90, 30, 64, NULL, NULL, NULL, NULL}, {40, 33, 33, 130, NULL, NULL, NULL, NULL}};

static struct sample sample_of(struct prng *rng, struct sample s)
{
	s.table = random_floats(rng, s.vocabulary * s.width, -1, 1);
	s.positions = random_floats(rng, s.length * s.width, -1, 1);
	s.dout = random_floats(rng, s.rows * s.width, -1, 1);
	s.tokens = malloc((s.rows + 1) * sizeof *s.tokens);
	for (size_t r = 0; r < s.rows; r++) /* often the last, and one token very often */
		s.tokens[r] = r % 3 == 0 ? (uint32_t)s.vocabulary - 1 : (uint32_t)prng_below(rng, s.vocabulary);
	return s;
}

static void sample_free(struct sample *s)
{
	free(s->table);
	free(s->positions);
	free(s->dout);
	free(s->tokens);
}

static void try_forward(struct backend *b, struct prng *rng)
{
	for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
		struct sample s = sample_of(rng, shapes[i]);
		const size_t n = s.rows * s.width;
		float *out = poisoned_floats(n), *want = poisoned_floats(n);
		for (int placed = 0; placed < 2; placed++) {
			for (size_t k = 0; k < n; k++) {
				const size_t r = k / s.width, j = k % s.width;
				want[k] = s.table[s.tokens[r] * s.width + j] + (placed ? s.positions[r % s.length * s.width + j] : 0);
			}
			b->ops->embed(b, out, s.table, placed ? s.positions : NULL, s.tokens, s.vocabulary, s.rows, s.length, s.width);
			check_same_bits("out", out, want, n);
		}
		free(out);
		free(want);
		sample_free(&s);
	}
}

static void try_backward(struct backend *b, struct prng *rng)
{
	for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
		struct sample s = sample_of(rng, shapes[i]);
		float *dtable = copy_floats(s.table, s.vocabulary * s.width), *alone = copy_floats(s.table, s.vocabulary * s.width),
		      *dpositions = copy_floats(s.positions, s.length * s.width);
		for (size_t k = 0; k < s.rows * s.width; k++) {
			const size_t r = k / s.width, j = k % s.width;
			s.table[s.tokens[r] * s.width + j] += s.dout[k];
			s.positions[r % s.length * s.width + j] += s.dout[k];
		}
		b->ops->embed_backward(b, dtable, dpositions, s.dout, s.tokens, s.vocabulary, s.rows, s.length, s.width);
		check_same_bits("dtable", dtable, s.table, s.vocabulary * s.width);
		check_same_bits("dpositions", dpositions, s.positions, s.length * s.width);
		b->ops->embed_backward(b, alone, NULL, s.dout, s.tokens, s.vocabulary, s.rows, s.length, s.width);
		check_same_bits("dtable without positions", alone, s.table, s.vocabulary * s.width);
		free(dtable);
		free(alone);
		free(dpositions);
		sample_free(&s);
	}
}

/* A token that is none: a device says so by NaN, and adds its gradient nowhere. */
static void try_no_token(struct backend *b, struct prng *rng)
{
	(void)rng;
	if (is_cpu(b)) /* asserts */
		return;
	float table[] = {1, 2, 3, 4}, out[6], dtable[4] = {0}, dout[] = {1, 1, 1, 1, 1, 1};
	const uint32_t tokens[] = {1, 2, 0xffffffffu};
	b->ops->embed(b, out, table, NULL, tokens, 2, 3, 3, 2);
	assert_true(out[0] == 3 && out[1] == 4);
	for (int i = 2; i < 6; i++)
		assert_true(isnan(out[i]));
	b->ops->embed_backward(b, dtable, NULL, dout, tokens, 2, 3, 3, 2);
	assert_true(dtable[0] == 0 && dtable[1] == 0 && dtable[2] == 1 && dtable[3] == 1);
}

static void rows_are_their_tokens_and_places(void **state)
{
	(void)state;
	on_every_backend(231, try_forward);
}
static void gradients_are_added_in_row_order(void **state)
{
	(void)state;
	on_every_backend(232, try_backward);
}
static void a_token_that_is_none_is_seen(void **state)
{
	(void)state;
	on_every_backend(233, try_no_token);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(rows_are_their_tokens_and_places),
	    cmocka_unit_test(gradients_are_added_in_row_order),
	    cmocka_unit_test(a_token_that_is_none_is_seen),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
