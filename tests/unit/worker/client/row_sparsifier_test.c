/* The choice of a push's rows, and that the other rows come later. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/limits.h"
#include "common/base/prng.h"
#include "tests/cmocka_check.h"
#include "worker/client/row_sparsifier.h"

enum { KEYS = 300, WIDTH = 5, PIECE = 200, ROUNDS = 60 };

static struct row_sparsifier *open_rows(uint32_t width, float share)
{
	const weir_table_spec spec = {.name = "t", .width = width, .push = {.rows = share}};
	weir_error err = {0};
	struct row_sparsifier *k = row_sparsifier_create(&spec, &err);
	assert_non_null(k);
	return k;
}

/* A section: ascending keys, some of them twice; values in another order. */
struct drawn_rows {
	uint64_t keys[PIECE];
	uint32_t order[PIECE];
	float values[PIECE * WIDTH];
	uint32_t count, distinct;
};

static void draw(struct drawn_rows *p, struct prng *random)
{
	*p = (struct drawn_rows){.count = 0};
	for (uint64_t key = 0; key < KEYS && p->count < PIECE - 1; key++) {
		const uint64_t times = prng_below(random, 4) ? prng_below(random, 2) : 2;
		p->distinct += times > 0;
		for (uint64_t i = 0; i < times; i++)
			p->keys[p->count++] = key;
	}
	for (uint32_t i = 0; i < p->count; i++)
		p->order[i] = p->count - 1 - i;
	for (uint32_t i = 0; i < p->count * WIDTH; i++)
		p->values[i] = (float)(prng_normal(random) * exp(prng_normal(random)));
}

static double norm_of(const double *row)
{
	double sum = 0;
	for (uint32_t i = 0; i < WIDTH; i++)
		sum += row[i] * row[i];
	return sqrt(sum);
}

/* Sent and kept rows sum to all gradients; the largest rows of a section are sent. */
static void kept_rows_come_later(void **state)
{
	(void)state;
	static double owed[KEYS][WIDTH]; /* gradients so far, minus the sent ones */
	static struct drawn_rows p;
	struct row_sparsifier *k = open_rows(WIDTH, 0.25f);
	struct prng random;
	weir_error err = {0};
	prng_seed(&random, 21);
	memset(owed, 0, sizeof owed);
	for (int round = 0; round < ROUNDS; round++) {
		bool sent[KEYS] = {false};
		double least = INFINITY, most = 0, rest = 0;
		draw(&p, &random);
		for (uint32_t i = 0; i < p.count; i++)
			for (uint32_t j = 0; j < WIDTH; j++)
				owed[p.keys[i]][j] += (double)p.values[p.order[i] * WIDTH + j];
		CHECK_OK(row_sparsifier_begin(k, p.count, &err), err);
		const struct rows all = {.keys = p.keys, .order = p.order, .values = p.values, .count = p.count};
		const struct rows out = row_sparsifier_select(k, &all);
		row_sparsifier_end(k);
		assert_int_equal(out.count, (p.distinct + 3) / 4);
		assert_null(out.order);
		for (uint32_t i = 0; i < out.count; i++) {
			assert_true(i == 0 || out.keys[i] > out.keys[i - 1]);
			sent[out.keys[i]] = true;
			least = fmin(least, norm_of(owed[out.keys[i]]));
			for (uint32_t j = 0; j < WIDTH; j++) {
				assert_true(fabs(owed[out.keys[i]][j] - (double)out.values[i * WIDTH + j]) < 1e-4);
				owed[out.keys[i]][j] -= (double)out.values[i * WIDTH + j];
			}
		}
		for (uint32_t i = 0; i < p.count; i++)
			if (!sent[p.keys[i]])
				most = fmax(most, norm_of(owed[p.keys[i]]));
		assert_true(least >= most * (1 - 1e-5));
		for (uint32_t key = 0; key < KEYS; key++)
			rest += norm_of(owed[key]) * norm_of(owed[key]);
		weir_encoder_stats s;
		row_sparsifier_get_stats(k, &s);
		assert_true(fabs(s.residual_norm - sqrt(rest)) < 1e-3 * sqrt(rest));
		assert_true(s.error > 0.25 && s.error < 1 && s.pushes == (uint64_t)round + 1);
	}
	const size_t count = row_sparsifier_count(k);
	uint64_t keys[KEYS];
	float values[KEYS * WIDTH];
	assert_in_range(count, 1, KEYS);
	row_sparsifier_copy(k, keys, values);
	for (size_t i = 0; i < count; i++) {
		for (uint32_t j = 0; j < WIDTH; j++)
			assert_true(fabs(owed[keys[i]][j] - (double)values[i * WIDTH + j]) < 1e-4);
		row_sparsifier_take(k, keys[i]);
	}
	weir_encoder_stats s;
	row_sparsifier_get_stats(k, &s);
	assert_true(row_sparsifier_count(k) == 0 && s.residual_norm < 1e-3);
	row_sparsifier_destroy(k);
}

struct scored {
	uint64_t keys[2];  /* of the rows to be sent */
	float first, last; /* their values */
};

/* Repeats the same push; each must send the expected rows. */
static void push_scored(struct row_sparsifier *k, const struct rows *all, const struct scored *expected, size_t pushes)
{
	weir_error err = {0};
	for (size_t i = 0; i < pushes; i++) {
		CHECK_OK(row_sparsifier_begin(k, all->count, &err), err);
		const struct rows out = row_sparsifier_select(k, all);
		row_sparsifier_end(k);
		assert_int_equal(out.count, 2);
		assert_memory_equal(out.keys, expected[i].keys, sizeof expected[i].keys);
		assert_true(out.values[0] == expected[i].first && out.values[WIDTH] == expected[i].last);
	}
	row_sparsifier_destroy(k);
}

/* The highest scores are sent, whatever the gradients. A row's scores accumulate until it is
 * sent. */
static void scores_choose(void **state)
{
	(void)state;
	enum { TOKENS = 5 };
	const uint64_t keys[TOKENS] = {10, 20, 30, 40, 50};
	const uint32_t order[TOKENS] = {4, 3, 2, 1, 0};
	const float scores[TOKENS] = {0, .4f, .3f, 1, .1f}; /* for keys 50, 40, 30, 20, 10 */
	const struct scored expected[] = {{{20, 40}, 1, 1}, {{20, 30}, 1, 2}, {{20, 40}, 1, 2}};
	float values[TOKENS * WIDTH];
	for (uint32_t i = 0; i < TOKENS * WIDTH; i++)
		values[i] = i < WIDTH ? 1000 : 1; /* key 50 has by far the largest gradient */
	const struct rows all = {.keys = keys, .order = order, .values = values, .scores = scores, .count = TOKENS};
	push_scored(open_rows(WIDTH, 0.375f), &all, expected, 3);
}

/* Of equal scores only the share is sent, lowest keys first. The scores of one key add up. */
static void equal_scores_keep_to_the_share(void **state)
{
	(void)state;
	enum { TOKENS = 10 };
	const uint64_t keys[TOKENS] = {1, 2, 3, 4, 5, 6, 7, 8, 8, 8};
	const float scores[TOKENS] = {1, 1, 1, 1, 1, 1, 1, .5f, .25f, .5f}, zeros[TOKENS * WIDTH] = {0};
	const struct scored expected[] = {{{1, 8}, 0, 0}, {{2, 3}, 0, 0}, {{4, 5}, 0, 0}};
	const struct rows all = {.keys = keys, .values = zeros, .scores = scores, .count = TOKENS};
	push_scored(open_rows(WIDTH, 0.25f), &all, expected, 3);
}

static void a_row_at_least_is_sent(void **state)
{
	(void)state;
	const uint64_t keys[3] = {7, 8, 9};
	const float zeros[3 * WIDTH] = {0};
	struct row_sparsifier *k = open_rows(WIDTH, 0.01f);
	weir_error err = {0};
	CHECK_OK(row_sparsifier_begin(k, 3, &err), err);
	assert_int_equal(row_sparsifier_select(k, &(struct rows){.keys = keys, .values = zeros, .count = 3}).count, 1);
	row_sparsifier_end(k);
	row_sparsifier_forget(k);
	assert_int_equal(row_sparsifier_count(k), 0);
	row_sparsifier_destroy(k);
}

static void rows_without_room_are_sent(void **state)
{
	(void)state;
	enum { WIDE = 65536, MANY = 200, MOST = WEIR_KEPT_ROWS_BYTES_MAX / (8 + WIDE * 4) };
	uint64_t keys[MANY];
	float *values = malloc((size_t)MANY * WIDE * sizeof *values);
	struct row_sparsifier *k = open_rows(WIDE, 0.05f);
	weir_error err = {0};
	assert_non_null(values);
	for (size_t i = 0; i < MANY; i++)
		keys[i] = i;
	for (size_t i = 0; i < (size_t)MANY * WIDE; i++)
		values[i] = (float)(i / WIDE + 1);
	CHECK_OK(row_sparsifier_begin(k, MANY, &err), err);
	const struct rows out = row_sparsifier_select(k, &(struct rows){.keys = keys, .values = values, .count = MANY});
	row_sparsifier_end(k);
	assert_true(MOST < MANY - MANY / 20);
	assert_int_equal(row_sparsifier_count(k), MOST);
	assert_int_equal(out.count, MANY - MOST);
	assert_int_equal(out.keys[0], MOST); /* the first ones are kept */
	assert_true(out.values[0] == (float)(MOST + 1));
	row_sparsifier_destroy(k);
	free(values);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(kept_rows_come_later),           cmocka_unit_test(scores_choose),
	    cmocka_unit_test(equal_scores_keep_to_the_share), cmocka_unit_test(a_row_at_least_is_sent),
	    cmocka_unit_test(rows_without_room_are_sent),
	};
	return cmocka_run_group_tests_name("row_sparsifier", tests, NULL, NULL);
}
