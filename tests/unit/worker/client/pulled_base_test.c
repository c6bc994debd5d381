/* A trainer's delta base against a server's: with any requests, losses, repetitions and reordering,
 * both have the same numbers or the chunk is pulled whole. test_pulled_base [ROUNDS]: random walks
 * per codec */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/cmocka_check.h"

#include "common/base/little_endian.h"
#include "common/base/prng.h"
#include "proto/frame/frame.h"
#include "server/partition/delta_base.h"
#include "tests/rounds.h"
#include "worker/client/pulled_base.h"

enum { N = WEIR_CHUNK + 900, LAST = 900, ORIGIN = 5, CLIENTS = 3, IN_FLIGHT = 4, STEPS = 120, QUIET_MAX = 4000, ROUNDS = 3 };

static uint32_t walks;

static const weir_pull_coding codings[] = {
    {.codec = WEIR_CODEC_BF16},
    {.codec = WEIR_CODEC_FP16},
    {.codec = WEIR_CODEC_INT8},
    {.codec = WEIR_CODEC_FP8_E4M3},
    {.codec = WEIR_CODEC_FP8_E5M2},
    {.codec = WEIR_CODEC_INT4, .book = WEIR_BOOK_NF4},
    {.codec = WEIR_CODEC_INT4, .book = WEIR_BOOK_SEGMENTED},
    {.codec = WEIR_CODEC_TOPK, .values = WEIR_VALUES_FP32, .density = 0.03f},
    {.codec = WEIR_CODEC_TOPK, .values = WEIR_VALUES_BF16, .density = 0.03f, .every = 2},
    {.codec = WEIR_CODEC_TOPK, .values = WEIR_VALUES_INT8, .density = 0.03f},
    {.codec = WEIR_CODEC_TOPK, .values = WEIR_VALUES_LOG4, .density = 0.03f, .every = 3},
};
#define CODINGS (sizeof codings / sizeof *codings)

/* The tests use the last chunk of a table of two. */
struct world {
	weir_table_spec spec;
	struct delta_base *r;
	uint64_t origin;
	struct delta_base_work work;
	struct row_meta meta;
	float value[LAST];
	struct pulled_base *held[CLIENTS];
	uint8_t *scratch;
	struct prng random;
};

static void open_world(struct world *w, const weir_pull_coding *coding, uint64_t seed)
{
	weir_error err = {0};
	*w = (struct world){.spec = {.name = "t", .kind = WEIR_DENSE, .elements = N, .pull = *coding}, .origin = ORIGIN};
	w->r = delta_base_create(coding, 1, ORIGIN);
	w->work = (struct delta_base_work){.difference = malloc(WEIR_CHUNK * sizeof(float)), .coded = malloc(DIFFERENCE_BYTES_MAX)};
	w->scratch = malloc(HELD_SCRATCH_BYTES);
	assert_true(w->r && w->work.difference && w->work.coded && w->scratch);
	for (uint32_t i = 0; i < CLIENTS; i++)
		assert_non_null(w->held[i] = pulled_base_create(&w->spec, &err));
	prng_seed(&w->random, seed);
	for (size_t i = 0; i < LAST; i++)
		w->value[i] = prng_normal(&w->random);
}

static void close_world(struct world *w)
{
	for (uint32_t i = 0; i < CLIENTS; i++)
		pulled_base_destroy(w->held[i]);
	delta_base_destroy(w->r);
	free(w->work.difference);
	free(w->work.coded);
	free(w->scratch);
}

static void push(struct world *w)
{
	for (size_t i = 0; i < LAST; i++)
		if (prng_below(&w->random, 4) == 0)
			w->value[i] += 0.01f * prng_normal(&w->random);
	w->meta.version++;
	w->meta.count++;
}

/* Another server becomes primary. */
static void fail_over(struct world *w)
{
	delta_base_destroy(w->r);
	w->r = delta_base_create(&w->spec.pull, 1, ++w->origin);
	assert_non_null(w->r);
}

struct answer {
	uint64_t origin;
	struct message *m; /* NULL: lost */
};

static struct answer ask(struct world *w, struct pulled_base_version v)
{
	const uint64_t held = v.origin == w->origin ? v.version : 0;
	const struct delta_base_chunk c = {.value = w->value, .meta = &w->meta, .n = LAST};
	uint8_t *bytes;
	assert_int_equal(delta_base_ask(w->r, &c, held, &w->work), WEIR_OK);
	struct message *m = message_alloc(delta_base_answer_bytes(w->r, 0, held, LAST), &bytes);
	assert_non_null(m);
	(void)delta_base_answer(w->r, 0, held, LAST, bytes);
	return (struct answer){.origin = w->origin, .m = m};
}

static weir_status take(struct world *w, uint32_t client, struct answer *a, weir_error *err)
{
	struct cursor c = cursor_at(a->m);
	const weir_status status = pulled_base_take(w->held[client], 1, a->origin, &c, w->scratch, err);
	if (status == WEIR_OK)
		assert_int_equal(c.left, 0);
	message_release(a->m);
	a->m = NULL;
	return status;
}

static void check_equal(struct world *w, uint32_t client)
{
	const struct pulled_base_version v = pulled_base_version(w->held[client], 1);
	assert_int_equal(v.origin, w->origin);
	assert_int_equal(v.version, delta_base_version(w->r, 0));
	assert_memory_equal(pulled_base_values(w->held[client], 1), delta_base_value(w->r, 0), LAST * sizeof(float));
}

static void pull(struct world *w, uint32_t client)
{
	weir_error err = {0};
	struct answer a = ask(w, pulled_base_version(w->held[client], 1));
	CHECK_OK(take(w, client, &a, &err), err);
	check_equal(w, client);
}

/* --- Single cases */

static void answers_that_overlap_are_taken_once(void **state)
{
	(void)state;
	struct world w;
	weir_error err = {0};
	open_world(&w, &codings[2], 1);
	assert_int_equal(pulled_base_version(w.held[0], 1).version, 0);
	pull(&w, 0);
	const struct pulled_base_version before = pulled_base_version(w.held[0], 1);
	push(&w);
	struct answer first = ask(&w, before);
	push(&w);
	struct answer second = ask(&w, before);
	CHECK_OK(take(&w, 0, &second, &err), err);
	check_equal(&w, 0);
	CHECK_OK(take(&w, 0, &first, &err), err); /* its content is already applied */
	check_equal(&w, 0);
	assert_int_equal(pulled_base_version(w.held[0], 1).version, 3);
	close_world(&w);
}

static void an_older_refresh_changes_nothing(void **state)
{
	(void)state;
	struct world w;
	weir_error err = {0};
	open_world(&w, &codings[2], 2);
	struct answer old = ask(&w, (struct pulled_base_version){0});
	push(&w);
	pull(&w, 1); /* no client held the newest version, so the request made none */
	pull(&w, 0);
	push(&w);
	pull(&w, 0);
	CHECK_OK(take(&w, 0, &old, &err), err);
	check_equal(&w, 0);
	close_world(&w);
}

static void values_that_do_not_fit_are_asked_for_again(void **state)
{
	(void)state;
	struct world w;
	weir_error err = {0};
	open_world(&w, &codings[5], 3);
	pull(&w, 0);
	pull(&w, 1);
	push(&w);
	pull(&w, 1);
	push(&w);
	/* from 2 to 3, while client 0 has 1 */
	struct answer beyond = ask(&w, pulled_base_version(w.held[1], 1));
	assert_int_equal(take(&w, 0, &beyond, &err), WEIR_E_NOT_CURRENT);
	assert_int_equal(pulled_base_version(w.held[0], 1).version, 0);
	pull(&w, 0);
	/* A difference from another primary. */
	struct answer late = ask(&w, (struct pulled_base_version){.origin = w.origin, .version = 2});
	fail_over(&w);
	pull(&w, 0);
	assert_int_equal(take(&w, 0, &late, &err), WEIR_E_NOT_CURRENT);
	pull(&w, 0);
	/* "already held", meant for another client */
	struct answer same = ask(&w, pulled_base_version(w.held[0], 1));
	pulled_base_begin(w.held[0], 1);
	assert_int_equal(pulled_base_version(w.held[0], 1).version, 0);
	assert_int_equal(take(&w, 0, &same, &err), WEIR_E_NOT_CURRENT);
	pull(&w, 0);
	pulled_base_begin(w.held[0], 1); /* a repetition without news */
	check_equal(&w, 0);
	close_world(&w);
}

static void the_expected_version_follows_the_held_one(void **state)
{
	(void)state;
	struct world w;
	open_world(&w, &codings[8], 4);
	assert_int_equal(pulled_base_expected(w.held[0], 0), DIFFERENCES_HEADER_BYTES + WEIR_CHUNK * sizeof(float));
	assert_int_equal(pulled_base_expected(w.held[0], 1), DIFFERENCES_HEADER_BYTES + LAST * sizeof(float));
	pull(&w, 0);
	assert_true(pulled_base_expected(w.held[0], 1) < LAST * sizeof(float) / 10);
	close_world(&w);
}

/* --- Damage */

static void bad(struct world *w, const uint8_t *bytes, size_t n, const char *why)
{
	weir_error err = {0};
	const struct pulled_base_version before = pulled_base_version(w->held[0], 1);
	struct answer a = {.origin = ORIGIN, .m = message_copy(bytes, n)};
	assert_int_equal(take(w, 0, &a, &err), WEIR_E_CORRUPT);
	CHECK_CONTAINS(err.text, why);
	const struct pulled_base_version after = pulled_base_version(w->held[0], 1);
	assert_true(before.origin == after.origin && before.version == after.version);
	check_equal(w, 0);
}

static void damaged_answers_are_refused(void **state)
{
	(void)state;
	struct world w;
	static uint8_t bytes[DIFFERENCES_HEADER_BYTES + 4 * LAST + 8];
	open_world(&w, &codings[2], 5);
	pull(&w, 0);
	put64(bytes, 2);
	bad(&w, bytes, 15, "ends within 16 bytes");
	put32(bytes + 8, 4 * LAST);
	bad(&w, bytes, 16, "ends within 3600 bytes");
	put32(bytes + 8, 4 * LAST - 4);
	bad(&w, bytes, 16 + 4 * LAST, "version 2 of 3596 bytes, expected one from 1 of 3600");
	put32(bytes + 8, 4 * LAST);
	put64(bytes, 0);
	bad(&w, bytes, 16 + 4 * LAST, "version 0");
	put64(bytes, 2);
	put32(bytes + 12, 3);
	bad(&w, bytes, 16 + 4 * LAST, "3 differences to version 2");
	put32(bytes + 12, 1);
	put32(bytes + 8, 2);
	bad(&w, bytes, 18, "ends within 4 bytes");
	put32(bytes + 8, 4);
	put32(bytes + 16, 1);
	bad(&w, bytes, 20, "has 1 bytes, 0 are left");
	put32(bytes + 16, 0);
	bad(&w, bytes, 20, "a difference of 0 bytes");
	put32(bytes + 8, 4 + LAST);
	put32(bytes + 16, LAST);
	bad(&w, bytes, 20 + LAST, "a difference of 900 bytes, 900 elements take 908");
	put64(bytes, 1); /* nothing new, but with bytes */
	put32(bytes + 8, 8);
	put32(bytes + 12, 1);
	put32(bytes + 16, 0);
	bad(&w, bytes, 24, "4 bytes behind its differences");
	close_world(&w);
}

/* --- Random walks */

static void receive(struct world *w, uint32_t client, struct answer *in_flight)
{
	weir_error err = {0};
	const uint64_t origin = in_flight->origin;
	const struct pulled_base_version before = pulled_base_version(w->held[client], 1);
	const weir_status status = take(w, client, in_flight, &err);
	const struct pulled_base_version after = pulled_base_version(w->held[client], 1);
	if (status == WEIR_E_NOT_CURRENT) {
		assert_int_equal(after.version, 0);
		return;
	}
	CHECK_OK(status, err);
	assert_int_equal(after.origin, origin);
	assert_true(before.origin != origin || after.version >= before.version);
	if (origin == w->origin && after.version == delta_base_version(w->r, 0))
		check_equal(w, client);
}

/* Random pushes, requests and answers of several clients with several requests in flight. Some
 * answers are lost, and now and then the primary changes. */
static void walk(const weir_pull_coding *coding, uint64_t seed)
{
	struct world w;
	struct answer in_flight[CLIENTS][IN_FLIGHT] = {0};
	open_world(&w, coding, seed);
	for (uint32_t step = 0; step < STEPS; step++) {
		const uint32_t client = (uint32_t)prng_below(&w.random, CLIENTS), place = (uint32_t)prng_below(&w.random, IN_FLIGHT);
		struct answer *a = &in_flight[client][place];
		switch (prng_below(&w.random, 16)) {
		case 0:
			fail_over(&w);
			break;
		case 1:
			pulled_base_begin(w.held[client], step + 1);
			break;
		case 2:
			message_release(a->m);
			a->m = NULL;
			break;
		case 3:
		case 4:
		case 5:
			push(&w);
			break;
		default:
			if (a->m)
				receive(&w, client, a);
			else
				*a = ask(&w, pulled_base_version(w.held[client], 1));
		}
	}
	for (uint32_t i = 0; i < CLIENTS; i++)
		for (uint32_t k = 0; k < IN_FLIGHT; k++)
			message_release(in_flight[i][k].m);
	/* Without further pushes, pulls converge to the weights. */
	uint32_t quiet = 0;
	for (uint64_t last = 0; quiet < 8; quiet = pulled_base_version(w.held[0], 1).version == last ? quiet + 1 : 0) {
		last = pulled_base_version(w.held[0], 1).version;
		pull(&w, 0);
		assert_true(last < QUIET_MAX);
	}
	for (size_t i = 0; i < LAST; i++) {
		const double error = fabs((double)pulled_base_values(w.held[0], 1)[i] - (double)w.value[i]);
		if (error > (coding->codec == WEIR_CODEC_FP16 ? 6e-8 : 0))
			fail_msg("codec %d, seed %llu: element %zu is %g from its weight", coding->codec, (unsigned long long)seed, i, error);
	}
	for (uint32_t i = 1; i < CLIENTS; i++) {
		pull(&w, i);
		assert_memory_equal(pulled_base_values(w.held[i], 1), pulled_base_values(w.held[0], 1), LAST * sizeof(float));
	}
	close_world(&w);
}

static void whatever_happens_both_hold_the_same(void **state)
{
	(void)state;
	for (size_t c = 0; c < CODINGS; c++)
		for (uint32_t i = 0; i < walks; i++)
			walk(&codings[c], 100 * c + i);
}

int main(int argc, char **argv)
{
	walks = rounds(argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : ROUNDS);
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(answers_that_overlap_are_taken_once),
	    cmocka_unit_test(an_older_refresh_changes_nothing),
	    cmocka_unit_test(values_that_do_not_fit_are_asked_for_again),
	    cmocka_unit_test(the_expected_version_follows_the_held_one),
	    cmocka_unit_test(damaged_answers_are_refused),
	    cmocka_unit_test(whatever_happens_both_hold_the_same),
	};
	return cmocka_run_group_tests_name("pulled_base", tests, NULL, NULL);
}
