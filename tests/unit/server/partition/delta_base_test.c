/* The delta base of a table: when it makes a version, which replies are differences and which are
 * values, and how it treats numbers that no difference can reach. */
#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "tests/cmocka_check.h"

#include "common/base/little_endian.h"
#include "common/base/prng.h"
#include "proto/frame/frame.h"
#include "server/partition/delta_base.h"

enum { N = 3000, ORIGIN = 77 };

struct world {
	struct delta_base *r;
	weir_pull_coding coding;
	struct delta_base_work work;
	struct row_meta meta;
	float value[N];
	struct prng random;
};

static void setup(struct world *w, weir_pull_coding coding)
{
	*w = (struct world){.coding = coding, .r = delta_base_create(&coding, 2, ORIGIN)};
	w->work = (struct delta_base_work){.difference = malloc(WEIR_CHUNK * sizeof(float)), .coded = malloc(DIFFERENCE_BYTES_MAX)};
	assert_true(w->r && w->work.difference && w->work.coded);
	prng_seed(&w->random, 21);
	for (size_t i = 0; i < N; i++)
		w->value[i] = prng_normal(&w->random);
}

static void teardown(struct world *w)
{
	delta_base_destroy(w->r);
	free(w->work.difference);
	free(w->work.coded);
}

static void push(struct world *w)
{
	for (size_t i = 0; i < N; i++)
		w->value[i] += 0.01f * prng_normal(&w->random);
	w->meta.version++;
	w->meta.count++;
}

struct answer {
	uint64_t version;
	uint32_t bytes, differences;
};

/* Asks for chunk 1. Checks the announced length of the answer. body (the bytes behind its header)
 * may be NULL. */
static struct answer ask(struct world *w, uint64_t held, uint8_t **body)
{
	const struct delta_base_chunk c = {.number = 1, .value = w->value, .meta = w->meta.version ? &w->meta : NULL, .n = N};
	assert_int_equal(delta_base_ask(w->r, &c, held, &w->work), WEIR_OK);
	const size_t bytes = delta_base_answer_bytes(w->r, 1, held, N);
	assert_true(bytes <= DIFFERENCES_HEADER_BYTES + N * sizeof(float));
	uint8_t *out = malloc(bytes);
	assert_non_null(out);
	assert_int_equal(delta_base_answer(w->r, 1, held, N, out), bytes);
	const struct answer a = {get64(out), get32(out + 8), get32(out + 12)};
	assert_int_equal(a.bytes, bytes - DIFFERENCES_HEADER_BYTES);
	assert_int_equal(a.version, delta_base_version(w->r, 1));
	if (body) {
		memmove(out, out + DIFFERENCES_HEADER_BYTES, a.bytes);
		*body = out;
	} else {
		free(out);
	}
	return a;
}

static void check_answer(struct world *w, uint64_t held, uint64_t version, bool whole, uint32_t differences)
{
	const struct answer a = ask(w, held, NULL);
	assert_int_equal(a.version, version);
	assert_int_equal(a.differences, differences);
	assert_int_equal(a.bytes == N * sizeof(float), whole);
	if (!whole)
		assert_int_equal(a.bytes > 0, differences > 0);
}

static void a_client_without_values_gets_all(void **state)
{
	(void)state;
	struct world w;
	uint8_t *body;
	setup(&w, (weir_pull_coding){.codec = WEIR_CODEC_INT8});
	assert_int_equal(delta_base_version(w.r, 1), 0);
	assert_null(delta_base_value(w.r, 1));
	const struct answer a = ask(&w, 0, &body);
	assert_int_equal(a.version, 1);
	assert_int_equal(a.differences, 0);
	assert_int_equal(a.bytes, sizeof w.value);
	assert_memory_equal(body, w.value, sizeof w.value);
	free(body);
	check_answer(&w, 1, 1, false, 0); /* no change */
	check_answer(&w, 0, 1, true, 0);
	assert_int_equal(delta_base_version(w.r, 0), 0); /* the other chunk */
	teardown(&w);
}

static void a_version_is_made_with_a_push_and_told_in_differences(void **state)
{
	(void)state;
	struct world w;
	setup(&w, (weir_pull_coding){.codec = WEIR_CODEC_INT4, .book = WEIR_BOOK_NF4});
	check_answer(&w, 0, 1, true, 0);
	push(&w);
	check_answer(&w, 1, 2, false, 1);
	check_answer(&w, 1, 2, false, 1); /* the same bytes for another reader; no new version */
	push(&w);
	push(&w);
	check_answer(&w, 2, 3, false, 1); /* of both pushes */
	check_answer(&w, 1, 3, false, 2);
	check_answer(&w, 4, 3, true, 0); /* a future version: nobody has it */
	check_answer(&w, UINT64_MAX, 3, true, 0);
	teardown(&w);
}

static void some_pushes_make_one_version(void **state)
{
	(void)state;
	struct world w;
	setup(&w, (weir_pull_coding){.codec = WEIR_CODEC_BF16, .every = 3});
	check_answer(&w, 0, 1, true, 0);
	push(&w);
	push(&w);
	check_answer(&w, 1, 1, false, 0);
	push(&w);
	check_answer(&w, 1, 2, false, 1);
	/* One push alone: a reader gets it after enough vain requests. */
	push(&w);
	check_answer(&w, 2, 2, false, 0);
	check_answer(&w, 1, 2, false, 1);
	check_answer(&w, 2, 2, false, 0);
	check_answer(&w, 2, 3, false, 1);
	teardown(&w);
}

static void a_client_that_asks_again_gets_the_values(void **state)
{
	(void)state;
	struct world w;
	uint64_t held = 1;
	setup(&w, (weir_pull_coding){.codec = WEIR_CODEC_TOPK, .values = WEIR_VALUES_LOG4, .density = 0.1f});
	check_answer(&w, 0, 1, true, 0);
	push(&w);
	for (uint64_t next; (next = ask(&w, held, NULL).version) != held; held = next)
		assert_true(next == held + 1 && next < 500);
	for (size_t i = 0; i < N; i++)
		assert_true(delta_base_value(w.r, 1)[i] == w.value[i]);
	assert_true(held > 10);
	check_answer(&w, held, held, false, 0);
	push(&w);
	check_answer(&w, held, held + 1, false, 1);
	teardown(&w);
}

static void differences_beyond_the_ring_are_sent_as_values(void **state)
{
	(void)state;
	struct world w;
	setup(&w, (weir_pull_coding){.codec = WEIR_CODEC_INT8});
	check_answer(&w, 0, 1, true, 0);
	for (uint64_t held = 1; held <= 10; held++) {
		push(&w);
		check_answer(&w, held, held + 1, false, 1);
		assert_true(delta_base_ring_bytes(w.r, 1) <= N * sizeof(float));
	}
	const uint32_t kept = N * sizeof(float) / (DIFFERENCE_LENGTH_BYTES + N + 2 * ((N + 255) / 256));
	assert_int_equal(kept, 3);
	check_answer(&w, 11 - kept, 11, false, kept);
	check_answer(&w, 11 - kept - 1, 11, true, 0);
	teardown(&w);
	/* Small differences: the ring has a maximum number of them. */
	setup(&w, (weir_pull_coding){.codec = WEIR_CODEC_TOPK, .values = WEIR_VALUES_BF16, .density = 0.0003f});
	check_answer(&w, 0, 1, true, 0);
	for (uint64_t held = 1; held <= 100; held++) {
		push(&w);
		check_answer(&w, held, held + 1, false, 1);
	}
	check_answer(&w, 101 - REFERENCE_DIFFERENCES_MAX, 101, false, REFERENCE_DIFFERENCES_MAX);
	check_answer(&w, 101 - REFERENCE_DIFFERENCES_MAX - 1, 101, true, 0);
	teardown(&w);
}

static void check_whole_is_exact(struct world *w, uint64_t held, uint64_t version)
{
	uint8_t *body;
	const struct answer a = ask(w, held, &body);
	assert_int_equal(a.version, version);
	assert_int_equal(a.differences, 0);
	assert_int_equal(a.bytes, sizeof w->value);
	assert_memory_equal(body, w->value, sizeof w->value);
	free(body);
}

static void numbers_that_are_not_finite_arrive_unchanged(void **state)
{
	(void)state;
	static const float strange[] = {NAN, INFINITY, -INFINITY, -NAN};
	struct world w;
	setup(&w, (weir_pull_coding){.codec = WEIR_CODEC_INT8});
	check_answer(&w, 0, 1, true, 0);
	uint64_t version = 1;
	for (size_t i = 0; i < sizeof strange / sizeof *strange; i++) {
		push(&w);
		w.value[17] = strange[i];
		check_whole_is_exact(&w, version, version + 1);
		version++;
		check_answer(&w, version, version, false, 0);
		check_answer(&w, version - 1, version, true, 0);
	}
	push(&w);
	w.value[17] = 0.25f; /* no difference leads away from infinity either */
	check_whole_is_exact(&w, version, version + 1);
	push(&w);
	check_answer(&w, version + 1, version + 2, false, 1);
	w.value[3] = FLT_MAX; /* a difference of twice FLT_MAX would be infinite */
	push(&w);
	check_answer(&w, version + 2, version + 3, false, 1);
	for (uint64_t held = version + 3, next; (next = ask(&w, held, NULL).version) != held; held = next)
		assert_true(next < version + 100);
	assert_true(delta_base_value(w.r, 1)[3] == w.value[3]);
	w.value[3] = -FLT_MAX;
	w.meta.version++;
	w.meta.count++;
	const uint64_t now = delta_base_version(w.r, 1);
	check_whole_is_exact(&w, now, now + 1);
	teardown(&w);
}

static void values_too_small_for_a_difference_end_the_asking(void **state)
{
	(void)state;
	struct world w;
	setup(&w, (weir_pull_coding){.codec = WEIR_CODEC_INT8});
	memset(w.value, 0, sizeof w.value);
	check_answer(&w, 0, 1, true, 0);
	w.value[5] = FLT_TRUE_MIN;
	w.meta.version++;
	w.meta.count++;
	check_answer(&w, 1, 1, false, 0); /* the difference has no code */
	check_answer(&w, 1, 1, false, 0);
	check_answer(&w, 0, 1, true, 0);
	teardown(&w);
}

/* As for imported weights: the row changes, but no push counts. */
static void assigned_rows_are_sent_at_once(void **state)
{
	(void)state;
	struct world w;
	setup(&w, (weir_pull_coding){.codec = WEIR_CODEC_FP16, .every = 5});
	check_answer(&w, 0, 1, true, 0);
	for (size_t i = 0; i < N; i++)
		w.value[i] = 2;
	w.meta.version = 9;
	check_answer(&w, 1, 2, false, 1);
	teardown(&w);
}

static void a_count_at_its_end_still_makes_versions(void **state)
{
	(void)state;
	struct world w;
	setup(&w, (weir_pull_coding){.codec = WEIR_CODEC_INT8, .every = 2});
	w.meta = (struct row_meta){.version = 5, .count = UINT32_MAX};
	check_answer(&w, 0, 1, true, 0);
	push(&w);
	w.meta.count = UINT32_MAX;
	check_answer(&w, 1, 2, false, 1);
	teardown(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_client_without_values_gets_all),
	    cmocka_unit_test(a_version_is_made_with_a_push_and_told_in_differences),
	    cmocka_unit_test(some_pushes_make_one_version),
	    cmocka_unit_test(a_client_that_asks_again_gets_the_values),
	    cmocka_unit_test(differences_beyond_the_ring_are_sent_as_values),
	    cmocka_unit_test(numbers_that_are_not_finite_arrive_unchanged),
	    cmocka_unit_test(values_too_small_for_a_difference_end_the_asking),
	    cmocka_unit_test(assigned_rows_are_sent_at_once),
	    cmocka_unit_test(a_count_at_its_end_still_makes_versions),
	};
	return cmocka_run_group_tests_name("reference", tests, NULL, NULL);
}
