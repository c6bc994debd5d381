/* One partition: dedup, the log and asynchronous tables. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/prng.h"
#include "kernels/codec.h"
#include "server/partition/dedup.h"
#include "tests/unit/server/partition/partition_fixture.h"

static const struct fixture_options sgd = {.optimizer = WEIR_OPT_SGD};

static weir_status push_one(struct fixture *f, uint32_t unit, uint32_t attempt, uint32_t batch, uint32_t part, float v)
{
	struct one_row x;
	struct rows rows = one_row(&x, ASYNC_ROWS, 10, v);
	struct record r = push_record(unit, attempt, batch, part, 0);
	return fixture_push(f, &r, &rows, 1);
}

static uint64_t fingerprint(uint32_t unit, uint32_t batch, uint32_t part)
{
	return frame_identity_hash(1, unit, batch, part);
}

static void a_push_counts_once(void **state)
{
	(void)state;
	struct fixture f;
	fixture_open(&f, &sgd);
	assert_int_equal(push_one(&f, 1, 1, 0, 0, 1), WEIR_OK);
	assert_int_equal(f.reply.applied, 1);
	assert_int_equal(f.reply.stable, 1);
	assert_int_equal(push_one(&f, 1, 1, 0, 0, 1), WEIR_E_DUPLICATE);
	assert_int_equal(push_one(&f, 1, 1, 0, 63, 1), WEIR_OK);
	assert_int_equal(push_one(&f, 1, 1, 1, 0, 1), WEIR_OK);
	assert_int_equal(push_one(&f, 2, 1, 0, 0, 1), WEIR_OK);
	assert_true(fixture_row(&f, ASYNC_ROWS, 10) == -4);
	const struct partition_counters *c = partition_get_counters(f.p);
	assert_int_equal(c->parts_applied, 4);
	assert_int_equal(c->fingerprint, fingerprint(1, 0, 0) + fingerprint(1, 0, 63) + fingerprint(1, 1, 0) + fingerprint(2, 0, 0));
	assert_int_equal(c->parts_double, 0);
	assert_int_equal(c->duplicates_refused, 1);
	assert_int_equal(c->units_open, 2);
	assert_int_equal(c->applied, 4);
	fixture_close(&f);
}

static void what_it_must_have_is_compared_with_what_it_has(void **state)
{
	(void)state;
	struct fixture f;
	fixture_open(&f, &sgd);
	const uint64_t closed = fingerprint(1, 0, 0) + fingerprint(1, 0, 63);
	assert_true(partition_has_parts(f.p, 0, 0));
	assert_false(partition_has_parts(f.p, 1, fingerprint(1, 0, 0)));
	assert_int_equal(push_one(&f, 1, 1, 0, 0, 1), WEIR_OK);
	assert_false(partition_has_parts(f.p, 2, closed)); /* one part is missing */
	assert_int_equal(push_one(&f, 1, 1, 0, 63, 1), WEIR_OK);
	assert_true(partition_has_parts(f.p, 2, closed));
	/* The count is right, the fingerprint is not. */
	assert_false(partition_has_parts(f.p, 2, closed + 1));
	assert_int_equal(push_one(&f, 2, 1, 0, 0, 1), WEIR_OK);
	assert_true(partition_has_parts(f.p, 2, closed)); /* and one part of an open unit */
	assert_int_equal(partition_closed_low(f.p), 0);
	assert_int_equal(fixture_retire(&f, 1, 2), WEIR_OK);
	assert_int_equal(partition_closed_low(f.p), dedup_key(1, 2));
	fixture_close(&f);
}

static void a_seal_refuses_older_attempts_and_tells_what_is_there(void **state)
{
	(void)state;
	struct fixture f;
	fixture_open(&f, &sgd);
	assert_int_equal(push_one(&f, 7, 1, 2, 3, 1), WEIR_OK);
	assert_int_equal(fixture_seal(&f, 1, 7, 2), WEIR_OK);
	assert_true(f.reply.bitmap_bits > frame_part_bit(2, 3));
	for (uint32_t bit = 0; bit < f.reply.bitmap_bits; bit++)
		assert_int_equal(f.bitmap[bit / 64] >> bit % 64 & 1, bit == frame_part_bit(2, 3));
	assert_int_equal(push_one(&f, 7, 1, 2, 4, 1), WEIR_E_STALE);
	assert_int_equal(push_one(&f, 7, 1, 2, 3, 1), WEIR_E_STALE);
	assert_int_equal(push_one(&f, 7, 2, 2, 3, 1), WEIR_E_DUPLICATE);
	assert_int_equal(push_one(&f, 7, 2, 2, 4, 1), WEIR_OK);
	uint64_t applied = partition_applied(f.p);
	/* A repetition: the same reply, no entry. */
	assert_int_equal(fixture_seal(&f, 1, 7, 2), WEIR_OK);
	assert_int_equal(partition_applied(f.p), applied);
	assert_int_equal(f.bitmap[2], 0x18);
	assert_int_equal(fixture_seal(&f, 1, 7, 1), WEIR_E_STALE);
	assert_int_equal(fixture_seal(&f, 1, 99, 2), WEIR_OK); /* no part arrived yet */
	assert_int_equal(f.reply.bitmap_bits, 0);
	assert_int_equal(push_one(&f, 99, 1, 0, 0, 1), WEIR_E_STALE);
	assert_int_equal(partition_get_counters(f.p)->stale_refused, 4);
	fixture_close(&f);
}

static void a_push_of_a_higher_attempt_raises_it(void **state)
{
	(void)state;
	struct fixture f;
	fixture_open(&f, &sgd);
	assert_int_equal(push_one(&f, 1, 1, 0, 0, 1), WEIR_OK);
	assert_int_equal(push_one(&f, 1, 3, 1, 0, 1), WEIR_OK);
	assert_int_equal(push_one(&f, 1, 2, 2, 0, 1), WEIR_E_STALE);
	assert_int_equal(push_one(&f, 1, 0, 2, 0, 1), WEIR_E_STALE);
	assert_int_equal(push_one(&f, 5, 0, 0, 0, 1), WEIR_E_INVALID);
	fixture_close(&f);
}

static void a_closed_unit_is_never_unknown(void **state)
{
	(void)state;
	struct fixture f;
	fixture_open(&f, &sgd);
	for (uint32_t unit = 0; unit < 6; unit++)
		assert_int_equal(push_one(&f, unit, 1, 0, 0, 1), WEIR_OK);
	assert_int_equal(fixture_retire(&f, 1, 2), WEIR_OK);
	assert_int_equal(fixture_retire_one(&f, 1, 4), WEIR_OK);
	assert_int_equal(partition_get_counters(f.p)->units_open, 3); /* 2, 3, 5 */
	for (uint32_t unit = 0; unit < 6; unit++)
		assert_int_equal(push_one(&f, unit, 1, 1, 0, 1), unit < 2 || unit == 4 ? WEIR_E_DUPLICATE : WEIR_OK);
	assert_int_equal(fixture_seal(&f, 1, 4, 9), WEIR_E_DUPLICATE);
	uint64_t applied = partition_applied(f.p);
	assert_int_equal(fixture_retire(&f, 1, 1), WEIR_OK); /* no change: no entry */
	assert_int_equal(fixture_retire_one(&f, 1, 4), WEIR_OK);
	assert_int_equal(partition_applied(f.p), applied);
	assert_int_equal(fixture_retire(&f, 2, 0), WEIR_OK);
	assert_int_equal(partition_get_counters(f.p)->units_open, 0);
	assert_int_equal(push_one(&f, 5, 7, 3, 0, 1), WEIR_E_DUPLICATE);
	assert_true(fixture_row(&f, ASYNC_ROWS, 10) == -9);
	fixture_close(&f);
}

/* A slow unit holds the low-water mark while other units close above it. */
static void the_closed_set_has_a_limit_that_the_low_water_mark_relieves(void **state)
{
	(void)state;
	struct fixture f;
	fixture_open(&f, &sgd);
	for (uint32_t unit = 1; unit <= WEIR_UNITS_OPEN_MAX; unit++)
		assert_int_equal(fixture_retire_one(&f, 0, unit), WEIR_OK);
	assert_int_equal(fixture_retire_one(&f, 0, WEIR_UNITS_OPEN_MAX + 1), WEIR_E_LIMIT);
	assert_int_equal(fixture_retire(&f, 0, WEIR_UNITS_OPEN_MAX), WEIR_OK);
	assert_int_equal(fixture_retire_one(&f, 0, WEIR_UNITS_OPEN_MAX + 1), WEIR_OK);
	fixture_close(&f);
}

static void staleness_is_counted_per_table(void **state)
{
	(void)state;
	struct fixture f;
	fixture_open(&f, &sgd);
	for (uint32_t batch = 0; batch < 5; batch++)
		assert_int_equal(push_one(&f, 1, 1, batch, 0, 1), WEIR_OK); /* all computed from index 0 */
	assert_int_equal(f.reply.staleness, 4);
	struct histogram *h = partition_staleness(f.p, ASYNC_ROWS);
	assert_int_equal(h->count, 5);
	for (uint64_t tau = 0; tau < 5; tau++)
		assert_int_equal(h->bucket[histogram_bucket_of(tau)], 1);
	assert_null(partition_staleness(f.p, ASYNC_DENSE)); /* no push */
	assert_null(partition_staleness(f.p, 77));
	fixture_close(&f);
}

/* Five pushes computed from the same values have 1, 1, 1/2, 1/3 and 1/4 of the table's rate. */
static void a_stale_push_has_a_smaller_rate_where_the_table_says_so(void **state)
{
	(void)state;
	const struct fixture_options rated = {.optimizer = WEIR_OPT_SGD, .staleness_rate = true};
	struct fixture f;
	fixture_open(&f, &rated);
	float expected = 0;
	for (uint32_t batch = 0; batch < 5; batch++) {
		assert_int_equal(push_one(&f, 1, 1, batch, 0, 1), WEIR_OK);
		expected -= 1 / (float)(batch > 1 ? batch : 1);
		assert_true(fixture_row(&f, ASYNC_ROWS, 10) == expected);
	}
	fixture_close(&f);
}

/* The sender's factor, within limits, goes into the entry's rates: replicas and replays need not
 * know its reason. */
static void a_push_may_scale_its_rates(void **state)
{
	(void)state;
	static const float bad[] = {-1, NAN, INFINITY, WEIR_WORKERS_MAX + 1};
	const float half = 0.5f;
	struct fixture f;
	struct one_row x;
	fixture_open(&f, &sgd);
	struct rows rows = one_row(&x, ASYNC_ROWS, 10, 1);
	struct record r = push_record(1, 1, 0, 0, 0);
	memcpy(&r.push.rate_scale, &half, sizeof r.push.rate_scale);
	assert_int_equal(fixture_push(&f, &r, &rows, 1), WEIR_OK);
	assert_true(fixture_row(&f, ASYNC_ROWS, 10) == -0.5f);
	for (uint32_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		r = push_record(1, 1, 1 + i, 0, 0);
		memcpy(&r.push.rate_scale, &bad[i], sizeof r.push.rate_scale);
		assert_int_equal(fixture_push(&f, &r, &rows, 1), WEIR_E_INVALID);
		assert_non_null(strstr(f.text, "rates are to be multiplied by"));
	}
	assert_int_equal(partition_applied(f.p), 1);
	fixture_close(&f);
}

static weir_status push_values(struct fixture *f, uint32_t batch, float bad)
{
	struct one_row x;
	float dense[DENSE_ELEMENTS];
	uint64_t chunk = 0;
	for (uint32_t i = 0; i < DENSE_ELEMENTS; i++)
		dense[i] = 1;
	dense[DENSE_ELEMENTS - 1] = bad;
	struct rows sections[2] = {
	    one_row(&x, ASYNC_ROWS, 10, 1),
	    {.table = ASYNC_DENSE, .width = WEIR_CHUNK, .count = 1, .keys = &chunk, .values = dense, .values_count = DENSE_ELEMENTS}};
	struct record r = push_record(1, 1, batch, 0, 0);
	return fixture_push(f, &r, sections, 2);
}

static void a_push_that_is_not_finite_is_refused_whole_and_done(void **state)
{
	(void)state;
	struct fixture f;
	fixture_open(&f, &sgd);
	assert_int_equal(push_values(&f, 0, NAN), WEIR_E_NOT_FINITE);
	assert_non_null(strstr(f.text, "async_dense"));
	assert_int_equal(push_values(&f, 1, -INFINITY), WEIR_E_NOT_FINITE);
	assert_int_equal(partition_applied(f.p), 2); /* refused pushes are entries */
	assert_int_equal(push_values(&f, 0, 1), WEIR_E_DUPLICATE);
	assert_true(fixture_row(&f, ASYNC_ROWS, 10) == 0 && fixture_dense(&f, ASYNC_DENSE, 0) == 0);
	assert_int_equal(partition_get_counters(f.p)->nonfinite_refused, 2);
	assert_int_equal(partition_get_counters(f.p)->rows, 0);
	assert_int_equal(push_values(&f, 2, 3), WEIR_OK);
	assert_true(fixture_dense(&f, ASYNC_DENSE, DENSE_ELEMENTS - 1) == -3 && fixture_row(&f, ASYNC_ROWS, 10) == -1);
	fixture_close(&f);
}

static void clip_counts_what_is_not_finite_as_zero(void **state)
{
	(void)state;
	struct fixture f;
	fixture_open(&f, &(struct fixture_options){.optimizer = WEIR_OPT_SGD, .not_finite = PARTITION_CLIP});
	assert_int_equal(push_values(&f, 0, NAN), WEIR_OK);
	assert_true(fixture_dense(&f, ASYNC_DENSE, DENSE_ELEMENTS - 1) == 0 && fixture_dense(&f, ASYNC_DENSE, 0) == -1);
	assert_true(fixture_row(&f, ASYNC_ROWS, 10) == -1);
	fixture_close(&f);
}

static void assigned_rows_are_what_was_sent(void **state)
{
	(void)state;
	struct fixture f;
	fixture_open(&f, &(struct fixture_options){.optimizer = WEIR_OPT_MOMENTUM});
	assert_int_equal(push_one(&f, 1, 1, 0, 0, 1), WEIR_OK);
	struct one_row x;
	struct rows rows = one_row(&x, ASYNC_ROWS, 10, 5);
	struct record r = {.kind = RECORD_ASSIGN};
	assert_int_equal(fixture_push(&f, &r, &rows, 1), WEIR_OK);
	assert_true(fixture_row(&f, ASYNC_ROWS, 10) == 5);
	assert_int_equal(push_one(&f, 1, 1, 1, 0, 1), WEIR_OK);
	assert_true(fixture_row(&f, ASYNC_ROWS, 10) == 4); /* momentum restarts at 0 */
	float with_slots[2 * ROW_WIDTH] = {1, 1, 1, 1, 10, 10, 10, 10};
	rows.values = with_slots;
	rows.values_count = 2 * ROW_WIDTH;
	assert_int_equal(fixture_push(&f, &r, &rows, 1), WEIR_E_INVALID);
	r.flags = RECORD_ASSIGN_SLOTS;
	assert_int_equal(fixture_push(&f, &r, &rows, 1), WEIR_OK);
	assert_int_equal(push_one(&f, 1, 1, 2, 0, 1), WEIR_OK);
	assert_true(fixture_row(&f, ASYNC_ROWS, 10) == 1 - (0.9f * 10 + 1));
	fixture_close(&f);
}

/* Also for numeric codecs: the record is refused before it is an entry. */
static void a_section_with_an_aux_that_its_codec_has_not_is_refused(void **state)
{
	(void)state;
	static const uint8_t kinds[] = {RECORD_PUSH, RECORD_ASSIGN};
	static const weir_codec codecs[] = {WEIR_CODEC_FP32, WEIR_CODEC_BF16, WEIR_CODEC_FP16, WEIR_CODEC_INT8};
	static const uint64_t key = 7;
	static const float values[ROW_WIDTH] = {1};
	struct fixture f;
	fixture_open(&f, &(struct fixture_options){0});
	for (size_t i = 0; i < sizeof kinds * sizeof codecs / sizeof *codecs; i++) {
		const struct section section = {.table = ASYNC_ROWS,
		                                .codec = (uint8_t)codecs[i / sizeof kinds],
		                                .rows = 1,
		                                .width = ROW_WIDTH,
		                                .index_bytes = sizeof key,
		                                .data_bytes = (uint32_t)codec_bytes(codecs[i / sizeof kinds], ROW_WIDTH),
		                                .aux = 1};
		struct record_writer *w = record_writer_create();
		struct built b = {0};
		struct frame_header h;
		record_writer_begin(w, &(struct record){.kind = kinds[i % sizeof kinds], .pass = 1, .unit = 1, .attempt = 1});
		assert_int_equal(record_writer_add(w, &section, &key, values, false), WEIR_OK);
		assert_int_equal(record_writer_end(w), WEIR_OK);
		b.frame = records_finish(w);
		record_writer_destroy(w);
		struct cursor c = cursor_at(b.frame);
		assert_int_equal(frame_open(&c, &h, NULL), WEIR_OK);
		assert_int_equal(frame_next_record(&c, true, &b.record, &b.body, NULL), WEIR_OK);
		assert_int_equal(fixture_submit(&f, &b), WEIR_E_UNSUPPORTED);
		assert_non_null(strstr(f.text, "async_rows"));
		records_free(&b);
	}
	assert_int_equal(partition_applied(f.p), 0);
	fixture_close(&f);
}

static void wrong_sections_are_refused_by_name(void **state)
{
	(void)state;
	struct fixture f;
	fixture_open(&f, &sgd);
	struct one_row x;
	const struct {
		struct rows rows;
		weir_status status;
		const char *text;
	} cases[] = {
	    {{.table = 9, .width = ROW_WIDTH, .count = 1, .keys = &x.key, .values = x.values, .values_count = ROW_WIDTH},
	     WEIR_E_NOT_FOUND,
	     "table 9 is not registered"},
	    {{.table = ASYNC_ROWS, .width = 3, .count = 1, .keys = &x.key, .values = x.values, .values_count = 3},
	     WEIR_E_INVALID,
	     "async_rows: rows of width 4, sent 3"},
	    {{.table = ASYNC_ROWS, .width = ROW_WIDTH, .count = 1, .keys = &x.key, .values = x.values, .values_count = 3},
	     WEIR_E_INVALID,
	     "12 data bytes for 1 rows, expected 16"},
	    {{.table = ASYNC_DENSE,
	      .width = WEIR_CHUNK,
	      .count = 1,
	      .keys = (const uint64_t[]){1},
	      .values = x.values,
	      .values_count = 4},
	     WEIR_E_NOT_FOUND,
	     "row 1 does not live in partition 0"},
	    {{.table = SYNC_ROWS, .width = ROW_WIDTH, .count = 1, .keys = &x.key, .values = x.values, .values_count = ROW_WIDTH},
	     WEIR_E_INVALID,
	     "without a step"},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		(void)one_row(&x, ASYNC_ROWS, 10, 1);
		struct record r = push_record(1, 1, 0, 0, 0);
		weir_status status = fixture_push(&f, &r, &cases[i].rows, 1);
		if (status != cases[i].status || !strstr(f.text, cases[i].text))
			fail_msg("case %zu: %s \"%s\", expected %s \"%s\"", i, weir_status_name(status), f.text,
			         weir_status_name(cases[i].status), cases[i].text);
	}
	assert_int_equal(partition_applied(f.p), 0);
	fixture_close(&f);
}

static void a_table_registered_twice_must_be_the_same(void **state)
{
	(void)state;
	struct fixture f;
	fixture_open(&f, &sgd);
	weir_table_spec spec = *store_table_spec(store_table(partition_store(f.p), ASYNC_ROWS));
	weir_error err = {0};
	assert_int_equal(partition_add_table(f.p, ASYNC_ROWS, &spec, &err), WEIR_OK);
	spec.width = 8;
	assert_int_equal(partition_add_table(f.p, ASYNC_ROWS, &spec, &err), WEIR_E_EXISTS);
	assert_non_null(strstr(err.text, "width"));
	fixture_close(&f);
}

/* bf16, odd slices, many rows, several optimizers: two partitions with the same records hold the
 * same bytes. */
static void the_same_entries_make_the_same_rows(void **state)
{
	(void)state;
	const weir_optimizer_kind kinds[] = {WEIR_OPT_SGD, WEIR_OPT_ADAGRAD, WEIR_OPT_ROW_ADAGRAD, WEIR_OPT_ADAM, WEIR_OPT_LAMB};
	for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
		struct fixture f[2];
		fixture_open(&f[0], &(struct fixture_options){.optimizer = kinds[k]});
		fixture_open(&f[1], &(struct fixture_options){.optimizer = kinds[k]});
		struct prng r;
		prng_seed(&r, 11);
		for (uint32_t batch = 0; batch < 30; batch++) {
			uint64_t keys[200], chunk = 0;
			float values[200 * ROW_WIDTH], dense[DENSE_ELEMENTS];
			for (uint32_t i = 0; i < 200; i++)
				keys[i] = i * 7 + prng_below(&r, 7);
			for (uint32_t i = 0; i < 200 * ROW_WIDTH; i++)
				values[i] = prng_normal(&r);
			for (uint32_t i = 0; i < DENSE_ELEMENTS; i++)
				dense[i] = prng_normal(&r);
			struct rows sections[2] = {{.table = ASYNC_ROWS,
			                            .codec = batch & 1 ? WEIR_CODEC_BF16 : WEIR_CODEC_FP32,
			                            .width = ROW_WIDTH,
			                            .count = 200,
			                            .keys = keys,
			                            .values = values,
			                            .values_count = 200 * ROW_WIDTH},
			                           {.table = ASYNC_DENSE,
			                            .codec = batch & 2 ? WEIR_CODEC_BF16 : WEIR_CODEC_FP32,
			                            .width = WEIR_CHUNK,
			                            .count = 1,
			                            .keys = &chunk,
			                            .values = dense,
			                            .values_count = DENSE_ELEMENTS}};
			struct record push = push_record(1, 1, batch, 0, 0);
			assert_int_equal(fixture_push(&f[0], &push, sections, 2), WEIR_OK);
			/* The second partition gets the record in other slices, and at times without coded
			 * keys. */
			sections[0].raw = batch % 3 == 0;
			struct built b = records_build(&push, sections, 2);
			struct message *other = records_slice(b.frame, 333);
			struct built c = {.frame = other};
			struct cursor at = cursor_at(other);
			struct frame_header h;
			assert_int_equal(frame_open(&at, &h, NULL), WEIR_OK);
			assert_int_equal(frame_next_record(&at, true, &c.record, &c.body, NULL), WEIR_OK);
			assert_int_equal(fixture_submit(&f[1], &c), WEIR_OK);
			records_free(&b);
			records_free(&c);
		}
		assert_true(partition_get_counters(f[0].p)->rows > 200);
		assert_int_equal(fixture_hash(&f[0]), fixture_hash(&f[1]));
		fixture_close(&f[0]);
		fixture_close(&f[1]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_push_counts_once),
	    cmocka_unit_test(a_seal_refuses_older_attempts_and_tells_what_is_there),
	    cmocka_unit_test(a_push_of_a_higher_attempt_raises_it),
	    cmocka_unit_test(a_closed_unit_is_never_unknown),
	    cmocka_unit_test(the_closed_set_has_a_limit_that_the_low_water_mark_relieves),
	    cmocka_unit_test(staleness_is_counted_per_table),
	    cmocka_unit_test(a_stale_push_has_a_smaller_rate_where_the_table_says_so),
	    cmocka_unit_test(a_push_may_scale_its_rates),
	    cmocka_unit_test(a_push_that_is_not_finite_is_refused_whole_and_done),
	    cmocka_unit_test(clip_counts_what_is_not_finite_as_zero),
	    cmocka_unit_test(assigned_rows_are_what_was_sent),
	    cmocka_unit_test(a_section_with_an_aux_that_its_codec_has_not_is_refused),
	    cmocka_unit_test(what_it_must_have_is_compared_with_what_it_has),
	    cmocka_unit_test(wrong_sections_are_refused_by_name),
	    cmocka_unit_test(a_table_registered_twice_must_be_the_same),
	    cmocka_unit_test(the_same_entries_make_the_same_rows),
	};
	return cmocka_run_group_tests_name("partition", tests, NULL, NULL);
}
