/* Negatives that join a batch: how often each item is drawn, what its rows hold, and that a seed
 * determines them. */
#include "tests/unit/worker/data/fixture.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker/data/item_counts.h"
#include "worker/data/negatives.h"

enum { USER, ITEM, FIELDS, ROWS = 10, DRAWN = 4000 };

/* Item a is in six rows, b in three, c in one; the last row is no positive one. */
static const char rows[] =
    "y,u,i,price\n1,x,a,1\n1,y,a,1\n1,z,a,1\n1,x,a,1\n1,y,a,1\n1,z,a,1\n1,x,b,2\n1,y,b,2\n1,z,b,2\n1,x,c,3\n";

struct opened {
	struct job *job;
	struct dataset *data;
	struct item_index counts;
	struct negatives negatives;
	struct batch batch;
};

static void take_first(struct opened *o)
{
	weir_error err = {0};
	struct unit_reader *unit;
	CHECK_OK(unit_open(&unit, o->data, 0, 0, &err), err);
	CHECK_OK(unit_read(unit, 0, &o->batch, &err), err);
	unit_close(unit);
}

static void open_with(struct opened *o, const struct folder *f, const char *power)
{
	char path[256], text[1024];
	weir_error err = {0};
	write_bytes(f, "rows.csv", rows, strlen(rows), path);
	snprintf(
	    text, sizeof text,
	    "job: towers\nrun_dir: %s/run\ndata: {format: csv, train: '%s', batch: 16, shuffle: false, columns: [{name: y, kind: "
	    "label}, {name: u, kind: categorical}, {name: i, kind: categorical}, {name: price, kind: numeric}]}\n"
	    "model: {kind: two_tower, user: [u], item: [i, price], negatives: %d, negatives_power: %s}\n",
	    f->path, path, DRAWN, power);
	*o = (struct opened){0};
	CHECK_OK(job_parse(text, "towers", NULL, 0, &o->job, &err), err);
	o->data = open_part(o->job, SPLIT_TRAIN);
	CHECK_OK(item_counts_read(&o->counts, o->data, ITEM, &err), err);
	CHECK_OK(negatives_open(&o->negatives, o->job, ITEM, &o->counts, &err), err);
	take_first(o);
	assert_int_equal(o->batch.rows, ROWS);
}

static void close_all(struct opened *o)
{
	batch_destroy(&o->batch);
	negatives_destroy(&o->negatives);
	item_index_destroy(&o->counts);
	dataset_close(o->data);
	job_destroy(o->job);
}

/* The item's key in a row of the batch. */
static uint64_t item_of(const struct batch *b, uint32_t row)
{
	return b->keys[b->offsets[(size_t)row * FIELDS + ITEM]];
}

static void items_are_drawn_by_their_counts_to_a_power(void **state)
{
	static const struct {
		const char *power;
		double chances[3]; /* of a, b and c */
	} cases[] = {{"0", {1.0 / 3, 1.0 / 3, 1.0 / 3}}, {"1", {0.6, 0.3, 0.1}}, {"0.5", {0.4727, 0.3343, 0.1930}}};
	for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
		struct opened o;
		struct batch joined = {0};
		weir_error err = {0};
		uint32_t drawn[3] = {0};
		open_with(&o, *state, cases[c].power);
		const uint64_t keys[3] = {item_of(&o.batch, 0), item_of(&o.batch, 6), item_of(&o.batch, 9)};
		CHECK_OK(negatives_join(&o.negatives, &o.batch, 7, &joined, &err), err);
		for (uint32_t r = ROWS; r < joined.rows; r++)
			for (int i = 0; i < 3; i++)
				drawn[i] += item_of(&joined, r) == keys[i];
		assert_int_equal(drawn[0] + drawn[1] + drawn[2], DRAWN);
		for (int i = 0; i < 3; i++) {
			const double chance = cases[c].chances[i], deviation = sqrt(chance * (1 - chance) / DRAWN);
			assert_true(fabs(negatives_chance(&o.negatives, keys[i]) - chance) < 1e-4);
			assert_true(fabs(drawn[i] / (double)DRAWN - chance) < 4 * deviation);
		}
		assert_true(negatives_chance(&o.negatives, keys[0] + 1) == 0);
		batch_destroy(&joined);
		close_all(&o);
	}
}

static void their_rows_are_items_alone(void **state)
{
	struct opened o;
	struct batch joined = {0};
	weir_error err = {0};
	open_with(&o, *state, "0");
	CHECK_OK(negatives_join(&o.negatives, &o.batch, 7, &joined, &err), err);
	assert_int_equal(joined.rows, ROWS + DRAWN);
	for (uint32_t r = 0; r < joined.rows; r++) {
		const uint32_t *bags = &joined.offsets[(size_t)r * FIELDS];
		const bool added = r >= ROWS;
		assert_true(joined.labels[r] == (added ? 0.0f : 1.0f));
		assert_int_equal(bags[USER + 1] - bags[USER], added ? 0 : 1);
		assert_int_equal(bags[ITEM + 1] - bags[ITEM], 1);
		for (uint32_t same = 0; same < ROWS; same++)
			if (item_of(&joined, r) == item_of(&joined, same))
				assert_true(joined.dense[r] == joined.dense[same]);
	}
	batch_destroy(&joined);
	close_all(&o);
}

static void a_seed_determines_them(void **state)
{
	static const uint64_t seeds[] = {7, 7, 8};
	struct opened o;
	struct batch joined = {0};
	weir_error err = {0};
	char *dumps[3];
	open_with(&o, *state, "0.75");
	for (int i = 0; i < 3; i++) {
		CHECK_OK(negatives_join(&o.negatives, &o.batch, seeds[i], &joined, &err), err);
		dumps[i] = batch_dump(&joined);
	}
	assert_string_equal(dumps[0], dumps[1]);
	assert_string_not_equal(dumps[0], dumps[2]);
	for (int i = 0; i < 3; i++)
		free(dumps[i]);
	batch_destroy(&joined);
	close_all(&o);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(items_are_drawn_by_their_counts_to_a_power, folder_setup, folder_teardown),
	    cmocka_unit_test_setup_teardown(their_rows_are_items_alone, folder_setup, folder_teardown),
	    cmocka_unit_test_setup_teardown(a_seed_determines_them, folder_setup, folder_teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
