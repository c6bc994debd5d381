/* Full decay in a partition. Pulls and scans show the bits of a dense loop that steps every row at
 * every push, whether a row is pushed often, rarely or never. Reading changes nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/prng.h"
#include "kernels/init.h"
#include "tests/unit/server/partition/partition_fixture.h"

enum { TABLE = 5, KEYS = 40, NEVER_PUSHED = 4, STEPS = 300, READ_EVERY = 60, PART_OF_ALL = 3 };
enum { FLOATS = 3 * ROW_WIDTH }; /* value, two moments */

static const weir_init_segment normal = {.elements = ROW_WIDTH, .kind = WEIR_INIT_NORMAL, .a = 0.1f};

static weir_table_spec full_decay(weir_optimizer_kind kind, float l2, weir_mode_kind mode)
{
	return (weir_table_spec){.name = "full",
	                         .kind = WEIR_EMBEDDING,
	                         .width = ROW_WIDTH,
	                         .optimizer = {.kind = kind,
	                                       .lr = 0.01f,
	                                       .beta1 = 0.9f,
	                                       .beta2 = 0.999f,
	                                       .eps = 1e-8f,
	                                       .weight_decay = 0.1f,
	                                       .l2 = l2,
	                                       .decay = WEIR_DECAY_FULL},
	                         .mode = {.kind = mode},
	                         .segments_count = 1,
	                         .segments = &normal,
	                         .seed = 7};
}

/* --- The dense loop */

struct dense {
	struct optimizer *rule;
	float lr;
	float rows[KEYS][FLOATS];
	struct row_state states[KEYS];
};

static void dense_open(struct dense *d, const weir_table_spec *spec)
{
	*d = (struct dense){.rule = optimizer_create(&spec->optimizer, NULL), .lr = spec->optimizer.lr};
	assert_non_null(d->rule);
	for (uint64_t key = 0; key < KEYS; key++)
		init_embedding_row(spec->seed, TABLE, key, &normal, d->rows[key], ROW_WIDTH);
}

/* gradients (KEYS, ROW_WIDTH): zero for keys without a push. */
static void dense_step(struct dense *d, const float *gradients)
{
	const struct optimizer_scalars scalars = {.lr = d->lr, .grad_scale = 1};
	for (uint32_t key = 0; key < KEYS; key++) {
		optimizer_begin_row(d->rule, &d->states[key]);
		optimizer_apply(d->rule, &scalars, &d->states[key], d->rows[key], d->rows[key] + ROW_WIDTH, ROW_WIDTH, 0,
		                gradients + key * ROW_WIDTH, ROW_WIDTH);
	}
}

/* --- Batches: a third of the keys; some keys never */

struct gradients {
	uint64_t keys[KEYS];
	float values[KEYS * ROW_WIDTH]; /* (count, ROW_WIDTH) */
	float all[KEYS * ROW_WIDTH];
	uint32_t count;
};

static void gradients_draw(struct gradients *g, struct prng *rng, bool elsewhere)
{
	memset(g, 0, sizeof *g);
	if (elsewhere)
		return;
	for (uint64_t key = 0; key < KEYS - NEVER_PUSHED; key++) {
		if (key > 0 && prng_below(rng, PART_OF_ALL) > 0)
			continue;
		for (uint32_t i = 0; i < ROW_WIDTH; i++)
			g->values[g->count * ROW_WIDTH + i] = g->all[key * ROW_WIDTH + i] = prng_normal(rng);
		g->keys[g->count++] = key;
	}
}

static void push_part(struct fixture *f, const struct gradients *g, uint32_t batch, uint32_t part, uint32_t first, uint32_t end,
                      weir_mode_kind mode)
{
	const struct rows rows = {.table = TABLE,
	                          .width = ROW_WIDTH,
	                          .count = end - first,
	                          .keys = g->keys + first,
	                          .values = g->values + first * ROW_WIDTH,
	                          .values_count = (size_t)(end - first) * ROW_WIDTH};
	struct record r = push_record(1, 1, batch, part, mode == WEIR_SYNC ? batch + 1 : 0);
	r.status = batch + 1;
	if (first < end)
		assert_int_equal(fixture_push(f, &r, &rows, 1), WEIR_OK);
}

/* Pushes a batch in two parts, which are one step. A batch without rows in this partition is a
 * step, too. */
static void push(struct fixture *f, const struct gradients *g, uint32_t batch, weir_mode_kind mode)
{
	const uint64_t step = batch + 1;
	push_part(f, g, batch, 0, 0, g->count / 2, mode);
	push_part(f, g, batch, 1, g->count / 2, g->count, mode);
	if (mode == WEIR_SYNC)
		assert_int_equal(fixture_close_step(f, step, (const uint32_t[][3]){{1, 1, batch}}, 1, 0), WEIR_OK);
}

/* --- Reading */

/* Reads the keys (if any) and values of the only section in `w`. */
static uint32_t read_section(struct record_writer *w, uint64_t *keys, float *values)
{
	struct message *m = records_finish(w);
	struct cursor at = cursor_at(m), body;
	struct frame_header h;
	struct record r;
	struct section s;
	assert_int_equal(frame_open(&at, &h, NULL), WEIR_OK);
	assert_int_equal(frame_next_record(&at, true, &r, &body, NULL), WEIR_OK);
	assert_int_equal(r.status, WEIR_OK);
	assert_int_equal(frame_next_section(&body, &s, NULL), WEIR_OK);
	assert_int_equal(cursor_read(&s.index, keys, s.index_bytes), WEIR_OK);
	assert_int_equal(cursor_read(&s.data, values, s.data_bytes), WEIR_OK);
	message_release(m);
	return s.rows;
}

/* pushed: the number of batches that the reader knows of. */
static void expect_pull(struct fixture *f, const struct dense *d, uint32_t pushed)
{
	uint64_t keys[KEYS], none;
	float values[KEYS * ROW_WIDTH];
	for (uint64_t key = 0; key < KEYS; key++)
		keys[key] = key;
	const struct rows asked = {.table = TABLE, .width = ROW_WIDTH, .count = KEYS, .keys = keys};
	struct built b = records_build(&(struct record){.kind = RECORD_PULL, .status = pushed}, &asked, 1);
	struct record_writer *w = record_writer_create();
	partition_pull(f->p, &b.record, &b.body, w);
	assert_int_equal(read_section(w, &none, values), KEYS);
	for (uint32_t key = 0; key < KEYS; key++)
		assert_memory_equal(values + key * ROW_WIDTH, d->rows[key], ROW_WIDTH * sizeof(float));
	record_writer_destroy(w);
	records_free(&b);
}

static void expect_scan(struct fixture *f, const struct dense *d, uint32_t pushed, uint32_t rows)
{
	uint64_t keys[KEYS];
	float values[KEYS * FLOATS];
	struct record_writer *w = record_writer_create();
	partition_scan(f->p, TABLE, (struct store_place){0}, KEYS, true, (struct optimizer_clock){.steps = pushed, .lr = d->lr}, 0,
	               w);
	assert_int_equal(read_section(w, keys, values), rows);
	for (uint32_t i = 0; i < rows; i++)
		assert_memory_equal(values + i * FLOATS, d->rows[keys[i]], sizeof d->rows[0]);
	record_writer_destroy(w);
}

/* --- Tests */

static void open_with(struct fixture *f, const weir_table_spec *spec)
{
	weir_error err = {0};
	fixture_open(f, &(struct fixture_options){.optimizer = WEIR_OPT_SGD});
	if (partition_add_table(f->p, TABLE, spec, &err))
		fail_msg("%s", err.text);
}

/* Two partitions get the same entries. Reading one of them in between changes nothing. seldom: most
 * batches have their rows in other partitions. */
static void check(weir_optimizer_kind kind, float l2, weir_mode_kind mode, bool seldom)
{
	const weir_table_spec spec = full_decay(kind, l2, mode);
	struct fixture read, left;
	struct gradients g;
	struct prng rng;
	static struct dense d;
	prng_seed(&rng, 5);
	dense_open(&d, &spec);
	open_with(&read, &spec);
	open_with(&left, &spec);
	expect_pull(&read, &d, 0);
	for (uint32_t batch = 0; batch < STEPS; batch++) {
		gradients_draw(&g, &rng, seldom && prng_below(&rng, 4) > 0);
		push(&read, &g, batch, mode);
		push(&left, &g, batch, mode);
		dense_step(&d, g.all);
		if (batch % READ_EVERY == 0)
			expect_pull(&read, &d, batch + 1);
	}
	expect_pull(&read, &d, STEPS);
	expect_pull(&left, &d, STEPS);
	expect_scan(&left, &d, STEPS, KEYS - NEVER_PUSHED);
	assert_int_equal(store_table_rows(store_table(partition_store(read.p), TABLE)), KEYS - NEVER_PUSHED);
	fixture_close(&read);
	fixture_close(&left);
	optimizer_destroy(d.rule);
}

static void a_partition_shows_the_bits_of_the_dense_loop(void **state)
{
	(void)state;
	const weir_optimizer_kind kinds[] = {WEIR_OPT_ADAM, WEIR_OPT_ADAMW};
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
		check(kinds[i], 0, WEIR_ASYNC, false);
		check(kinds[i], 0.05f, WEIR_ASYNC, false);
		check(kinds[i], 0.05f, WEIR_SYNC, false);
	}
}

static void a_partition_that_most_batches_pass_over_shows_the_same_bits(void **state)
{
	(void)state;
	check(WEIR_OPT_ADAM, 0.05f, WEIR_ASYNC, true);
	check(WEIR_OPT_ADAMW, 0.05f, WEIR_SYNC, true);
}

static void an_assigned_row_goes_on_from_where_the_table_is(void **state)
{
	(void)state;
	const weir_table_spec spec = full_decay(WEIR_OPT_ADAM, 0.05f, WEIR_ASYNC);
	const uint64_t assigned[] = {1, KEYS - 1}; /* one with pushes, one without */
	const float values[2 * ROW_WIDTH] = {5, 6, 7, 8, -1, -2, -3, -4};
	const struct rows rows = {
	    .table = TABLE, .width = ROW_WIDTH, .count = 2, .keys = assigned, .values = values, .values_count = 2 * ROW_WIDTH};
	struct fixture f;
	struct gradients g;
	struct prng rng;
	static struct dense d;
	prng_seed(&rng, 6);
	dense_open(&d, &spec);
	open_with(&f, &spec);
	for (uint32_t batch = 0; batch < 60; batch++) {
		gradients_draw(&g, &rng, false);
		push(&f, &g, batch, WEIR_ASYNC);
		dense_step(&d, g.all);
		if (batch == 20) {
			assert_int_equal(fixture_push(&f, &(struct record){.kind = RECORD_ASSIGN}, &rows, 1), WEIR_OK);
			for (uint32_t i = 0; i < 2; i++) {
				memset(d.rows[assigned[i]], 0, sizeof d.rows[0]);
				memcpy(d.rows[assigned[i]], values + i * ROW_WIDTH, ROW_WIDTH * sizeof(float));
			}
			expect_pull(&f, &d, batch + 1);
		}
	}
	expect_pull(&f, &d, 60);
	fixture_close(&f);
	optimizer_destroy(d.rule);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_partition_shows_the_bits_of_the_dense_loop),
	    cmocka_unit_test(a_partition_that_most_batches_pass_over_shows_the_same_bits),
	    cmocka_unit_test(an_assigned_row_goes_on_from_where_the_table_is),
	};
	return cmocka_run_group_tests_name("full_decay", tests, NULL, NULL);
}
