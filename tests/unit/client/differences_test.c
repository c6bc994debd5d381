/* Both ends of pulls as differences: a server's reference of one chunk and what clients hold of it, over answers that are late, lost, or come twice. Whatever comes,
 * a client that holds a version holds the reference of that version, bit for bit; and once pushes stop, what it holds becomes the value as far as the codec can tell. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cmocka_check.h"
#include "frame.h"
#include "held.h"
#include "prng.h"
#include "reference.h"
#include "rounds.h"

enum { ELEMENTS = 20000, CLIENTS = 3, VERSIONS = 4096, FLIGHT = 3, TURNS = 600, DRAINS = 3000 };

struct answer { /* on its way to a client */
	uint8_t *bytes;
	size_t size;
	uint64_t origin;
};

struct world {
	weir_table_spec spec;
	struct reference *reference;
	struct held *held[CLIENTS];
	struct answer flight[CLIENTS][FLIGHT];
	float *value; /* (ELEMENTS) */
	struct row_meta meta;
	float *history[VERSIONS]; /* of this origin, by version */
	uint64_t origin;
	struct prng random;
	float difference[WEIR_CHUNK];
	uint8_t coded[DIFFERENCE_BYTES_MAX], scratch[HELD_SCRATCH_BYTES];
	uint64_t refreshes, by_differences, gaps;
};

static void begin_reference(struct world *w)
{
	reference_destroy(w->reference);
	for (uint32_t i = 0; i < VERSIONS; i++) {
		free(w->history[i]);
		w->history[i] = NULL;
	}
	w->reference = reference_create(&w->spec.pull, 1, ++w->origin);
	assert_non_null(w->reference);
}

static struct world *world_open(const weir_pull_coding *pull, uint64_t seed)
{
	struct world *w = calloc(1, sizeof *w);
	weir_error err = {0};
	assert_non_null(w);
	w->spec = (weir_table_spec){.name = "dense", .kind = WEIR_DENSE, .elements = ELEMENTS, .pull = *pull};
	w->value = calloc(ELEMENTS, sizeof *w->value);
	w->meta.version = 1;
	prng_seed(&w->random, seed);
	for (uint32_t i = 0; i < ELEMENTS; i++)
		w->value[i] = (float)prng_normal(&w->random);
	begin_reference(w);
	for (uint32_t i = 0; i < CLIENTS; i++) {
		w->held[i] = held_create(&w->spec, &err);
		assert_non_null(w->held[i]);
		held_begin(w->held[i], 1);
	}
	return w;
}

static void world_close(struct world *w)
{
	for (uint32_t i = 0; i < CLIENTS; i++) {
		held_destroy(w->held[i]);
		for (uint32_t j = 0; j < FLIGHT; j++)
			free(w->flight[i][j].bytes);
	}
	begin_reference(w);
	reference_destroy(w->reference);
	free(w->value);
	free(w);
}

/* share: of the elements that it changes. */
static void push(struct world *w, double share)
{
	for (uint32_t i = 0; i < ELEMENTS; i++)
		if (prng_unit(&w->random) < share)
			w->value[i] += 0.05f * (float)prng_normal(&w->random);
	w->meta.version++;
	w->meta.count++;
}

static void ask(struct world *w, uint32_t client, uint32_t place)
{
	struct answer *a = &w->flight[client][place];
	const struct held_version v = held_version(w->held[client], 0);
	const uint64_t held = v.origin == w->origin ? v.version : 0;
	const struct reference_chunk c = {.value = w->value, .meta = &w->meta, .n = ELEMENTS};
	const struct reference_work work = {.difference = w->difference, .coded = w->coded};
	assert_int_equal(reference_ask(w->reference, &c, held, &work), WEIR_OK);
	const uint64_t version = reference_version(w->reference, 0);
	assert_true(version < VERSIONS);
	if (!w->history[version]) {
		w->history[version] = malloc(ELEMENTS * sizeof(float));
		memcpy(w->history[version], reference_value(w->reference, 0), ELEMENTS * sizeof(float));
	}
	assert_memory_equal(w->history[version], reference_value(w->reference, 0), ELEMENTS * sizeof(float));
	assert_true(reference_ring_bytes(w->reference, 0) <= ELEMENTS * sizeof(float));
	free(a->bytes);
	a->size = reference_answer_bytes(w->reference, 0, held, ELEMENTS);
	a->bytes = malloc(a->size);
	a->origin = w->origin;
	assert_int_equal(reference_answer(w->reference, 0, held, ELEMENTS, a->bytes), a->size);
}

static weir_status take(struct world *w, uint32_t client, struct answer *a, weir_error *err)
{
	struct message *whole = message_copy(a->bytes, a->size);
	struct cursor data = cursor_at(whole);
	const weir_status status = held_take(w->held[client], 0, a->origin, &data, w->scratch, err);
	if (!status)
		assert_int_equal(data.left, 0);
	message_release(whole);
	return status;
}

static void deliver(struct world *w, uint32_t client, uint32_t place, bool again)
{
	struct answer *a = &w->flight[client][place];
	weir_error err = {0};
	if (!a->bytes)
		return;
	const struct held_version before = held_version(w->held[client], 0);
	const weir_status status = take(w, client, a, &err);
	const struct held_version v = held_version(w->held[client], 0);
	w->gaps += status == WEIR_E_NOT_CURRENT;
	if (status) {
		assert_int_equal(status, WEIR_E_NOT_CURRENT);
		assert_true(v.version == 0);
	} else if (v.origin == before.origin) {
		assert_true(v.version >= before.version);
	}
	w->refreshes += !status && a->size > ELEMENTS * sizeof(float);
	w->by_differences += !status && a->size <= ELEMENTS * sizeof(float);
	if (v.version && v.origin == w->origin)
		assert_memory_equal(held_values(w->held[client], 0), w->history[v.version], ELEMENTS * sizeof(float));
	if (again)
		return;
	free(a->bytes);
	a->bytes = NULL;
}

static double furthest(const struct world *w, uint32_t client)
{
	double most = 0;
	for (uint32_t i = 0; i < ELEMENTS; i++)
		most = fmax(most, fabs((double)w->value[i] - (double)held_values(w->held[client], 0)[i]));
	return most;
}

static const weir_pull_coding codings[] = {
    {.codec = WEIR_CODEC_BF16, .every = 1},
    {.codec = WEIR_CODEC_FP16, .every = 1},
    {.codec = WEIR_CODEC_INT8, .every = 1},
    {.codec = WEIR_CODEC_INT8, .every = 3},
    {.codec = WEIR_CODEC_FP8_E4M3, .every = 1},
    {.codec = WEIR_CODEC_INT4, .book = WEIR_BOOK_NF4, .every = 1},
    {.codec = WEIR_CODEC_INT4, .book = WEIR_BOOK_SEGMENTED, .every = 2},
    {.codec = WEIR_CODEC_TOPK, .values = WEIR_VALUES_BF16, .density = 0.02f, .every = 1},
    {.codec = WEIR_CODEC_TOPK, .values = WEIR_VALUES_LOG4, .density = 0.1f, .every = 4},
};

static void what_is_held_is_the_reference(void **state)
{
	(void)state;
	for (size_t k = 0; k < sizeof codings / sizeof *codings; k++) {
		struct world *w = world_open(&codings[k], 100 + k);
		for (uint32_t turn = 0; turn < rounds(TURNS); turn++) {
			const uint32_t client = (uint32_t)prng_below(&w->random, CLIENTS), place = (uint32_t)prng_below(&w->random, FLIGHT);
			const uint64_t what = prng_below(&w->random, 100);
			if (what < 40)
				push(w, what < 20 ? 0.01 : 0.5);
			else if (what < 68)
				ask(w, client, place);
			else if (what < 97)
				deliver(w, client, place, what < 70);
			else if (what < 98)
				begin_reference(w); /* another is primary */
			else
				held_begin(w->held[client], 2 + turn); /* another incarnation */
		}
		for (uint32_t client = 0; client < CLIENTS; client++)
			for (uint32_t i = 0; i < DRAINS && (i < 4 || furthest(w, client) > 1e-5); i++) {
				ask(w, client, 0);
				deliver(w, client, 0, false);
			}
		for (uint32_t client = 0; client < CLIENTS; client++)
			if (furthest(w, client) > 1e-4)
				fail_msg("codec %u: client %u is %g from the value in the end", codings[k].codec, client, furthest(w, client));
		assert_true(w->refreshes > 0 && w->by_differences > 0);
		world_close(w);
	}
}

static void what_no_codec_can_tell_comes_as_it_is(void **state)
{
	(void)state;
	for (size_t k = 0; k < sizeof codings / sizeof *codings; k++) {
		struct world *w = world_open(&codings[k], 7);
		ask(w, 0, 0);
		deliver(w, 0, 0, false);
		w->value[5] = INFINITY;
		w->value[6] = NAN;
		w->value[7] = 1e-41f;
		w->value[8] = -3.0e38f;
		for (uint32_t i = 0; i < 4; i++)
			push(w, 0);
		for (uint32_t i = 0; i < 4; i++) {
			ask(w, 0, 0);
			deliver(w, 0, 0, false);
		}
		assert_memory_equal(held_values(w->held[0], 0), w->value, ELEMENTS * sizeof(float));
		world_close(w);
	}
}

static void nothing_new_costs_a_few_bytes(void **state)
{
	(void)state;
	struct world *w = world_open(&codings[2], 9);
	ask(w, 0, 0);
	assert_true(w->flight[0][0].size > ELEMENTS * sizeof(float));
	deliver(w, 0, 0, false);
	ask(w, 0, 0);
	assert_int_equal(w->flight[0][0].size, DIFFERENCES_HEADER_BYTES);
	push(w, 0.5);
	ask(w, 0, 0);
	assert_true(w->flight[0][0].size < ELEMENTS * 9 / 8);
	world_close(w);
}

/* The ring is as large as a refresh: who has been away for longer gets one. */
static void who_was_away_gets_all(void **state)
{
	(void)state;
	struct world *w = world_open(&codings[2], 11);
	ask(w, 0, 0);
	deliver(w, 0, 0, false);
	ask(w, 1, 0);
	deliver(w, 1, 0, false);
	for (uint32_t i = 0; i < 6; i++) {
		push(w, 0.5);
		ask(w, 0, 0);
		deliver(w, 0, 0, false);
		const size_t before = i ? w->flight[1][0].size : 0;
		ask(w, 1, 0);
		assert_true(w->flight[1][0].size > before || w->flight[1][0].size == ELEMENTS * sizeof(float) + DIFFERENCES_HEADER_BYTES);
	}
	assert_int_equal(w->flight[1][0].size, ELEMENTS * sizeof(float) + DIFFERENCES_HEADER_BYTES);
	world_close(w);
}

static void damage_is_told(void **state)
{
	(void)state;
	struct world *w = world_open(&codings[7], 13);
	uint64_t refused = 0;
	ask(w, 0, 0);
	deliver(w, 0, 0, false);
	for (uint32_t i = 0; i < rounds(2000); i++) {
		weir_error err = {0};
		struct answer *a = &w->flight[0][0];
		push(w, 0.01);
		ask(w, 0, 0);
		if (prng_below(&w->random, 2))
			a->size = (size_t)prng_below(&w->random, a->size);
		else
			a->bytes[prng_below(&w->random, a->size)] ^= (uint8_t)(1 + prng_below(&w->random, 255));
		const weir_status status = a->size ? take(w, 0, a, &err) : WEIR_E_CORRUPT;
		assert_true(status == WEIR_OK || status == WEIR_E_CORRUPT || status == WEIR_E_NOT_CURRENT);
		refused += status != WEIR_OK;
		held_begin(w->held[0], 2 + i); /* what was taken may be anything */
		ask(w, 0, 0);
		deliver(w, 0, 0, false);
	}
	assert_true(refused > rounds(2000) / 2);
	world_close(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(what_is_held_is_the_reference),
	    cmocka_unit_test(what_no_codec_can_tell_comes_as_it_is),
	    cmocka_unit_test(nothing_new_costs_a_few_bytes),
	    cmocka_unit_test(who_was_away_gets_all),
	    cmocka_unit_test(damage_is_told),
	};
	return cmocka_run_group_tests_name("differences", tests, NULL, NULL);
}
