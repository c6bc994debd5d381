/* Token and position embeddings: look-up, and gradient in the order of sums that backend.h
 * promises, bit for bit. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/kernels/check_backend.h"

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
	for (size_t r = 0; r < s.rows; r++) /* often the last token, and one token very often */
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

/* of a token; a device adds more rows in runs of this length */
#define ROWS_IN_ORDER_ON_DEVICE 256u

/* dtable += the rows of each token, in row order within runs of `run` rows. The first run continues
 * dtable's value; the other runs' sums follow in order. */
static void add_in_runs(const struct sample *s, float *dtable, size_t run)
{
	for (size_t token = 0; token < s->vocabulary; token++)
		for (size_t j = 0; j < s->width; j++) {
			float *to = &dtable[token * s->width + j], sum = 0;
			size_t uses = 0;
			for (size_t r = 0; r < s->rows; r++) {
				if (s->tokens[r] != token)
					continue;
				float *of = uses++ < run ? to : &sum;
				*of += s->dout[r * s->width + j];
				if (uses % run == 0) {
					*to += sum;
					sum = 0;
				}
			}
			if (uses > run)
				*to += sum;
		}
}

static void check_backward(struct backend *b, const struct sample *s)
{
	const size_t n = s->vocabulary * s->width, of_positions = s->length * s->width;
	float *dtable = copy_floats(s->table, n), *alone = copy_floats(s->table, n), *want = copy_floats(s->table, n),
	      *dpositions = copy_floats(s->positions, of_positions), *want_positions = copy_floats(s->positions, of_positions);
	add_in_runs(s, want, is_cpu(b) ? s->rows + 1 : ROWS_IN_ORDER_ON_DEVICE);
	for (size_t k = 0; k < s->rows * s->width; k++)
		want_positions[k / s->width % s->length * s->width + k % s->width] += s->dout[k];
	b->ops->embed_backward(b, dtable, dpositions, s->dout, s->tokens, s->vocabulary, s->rows, s->length, s->width);
	check_same_bits("dtable", dtable, want, n);
	check_same_bits("dpositions", dpositions, want_positions, of_positions);
	b->ops->embed_backward(b, alone, NULL, s->dout, s->tokens, s->vocabulary, s->rows, s->length, s->width);
	check_same_bits("dtable without positions", alone, want, n);
	free(dtable);
	free(alone);
	free(want);
	free(dpositions);
	free(want_positions);
}

static void try_backward(struct backend *b, struct prng *rng)
{
	for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
		struct sample s = sample_of(rng, shapes[i]);
		check_backward(b, &s);
		sample_free(&s);
	}
}

/* One token in every second row, and tokens with about as many rows as a device adds in one run. */
static void try_a_popular_token(struct backend *b, struct prng *rng)
{
	static const size_t widths[] = {3, 8};
	for (size_t w = 0; w < sizeof widths / sizeof *widths; w++) {
		static const uint32_t rows_of[] = {1, 255, 256, 257, 511, 512, 513, 0, 3};
		enum { OTHERS = sizeof rows_of / sizeof *rows_of, ROWS = 2 * (1 + 255 + 256 + 257 + 511 + 512 + 513 + 3) };
		struct sample s = {.vocabulary = OTHERS + 1, .rows = ROWS, .length = ROWS, .width = widths[w]};
		s = sample_of(rng, s);
		for (size_t token = 0, i = 0; token < OTHERS; token++)
			for (size_t k = 0; k < rows_of[token]; k++)
				s.tokens[i++] = (uint32_t)token;
		for (size_t i = ROWS / 2; i < ROWS; i++)
			s.tokens[i] = OTHERS;
		for (size_t i = ROWS; i > 1; i--) { /* in any order */
			const size_t other = prng_below(rng, i);
			const uint32_t kept = s.tokens[i - 1];
			s.tokens[i - 1] = s.tokens[other];
			s.tokens[other] = kept;
		}
		check_backward(b, &s);
		sample_free(&s);
	}
}

/* An invalid token: a device returns NaN and drops its gradient. */
static void try_no_token(struct backend *b, struct prng *rng)
{
	(void)rng;
	if (is_cpu(b)) /* the CPU asserts */
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
static void gradients_are_added_in_order(void **state)
{
	(void)state;
	on_every_backend(232, try_backward);
}
static void a_popular_token_is_added_in_runs(void **state)
{
	(void)state;
	on_every_backend(234, try_a_popular_token);
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
	    cmocka_unit_test(gradients_are_added_in_order),
	    cmocka_unit_test(a_popular_token_is_added_in_runs),
	    cmocka_unit_test(a_token_that_is_none_is_seen),
	};
	return cmocka_run_group_tests_name("embed", tests, NULL, NULL);
}
