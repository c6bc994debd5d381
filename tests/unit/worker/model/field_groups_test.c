/* Groups of fields: which field is in which, and a batch sorted by them, by hand. */
#include "tests/cmocka_check.h"
#include "worker/model/bags/field_groups.h"

enum { A, B, C, FIELDS };

static struct job_column columns[] = {{.name = "y", .kind = COLUMN_LABEL},
                                      {.name = "a", .kind = COLUMN_CATEGORICAL, .dim = 2},
                                      {.name = "n", .kind = COLUMN_NUMERIC},
                                      {.name = "b", .kind = COLUMN_MULTI},
                                      {.name = "c", .kind = COLUMN_SEQUENCE, .share = "a"}};

static struct field_groups groups_of(enum model_kind kind, uint32_t columns_count)
{
	struct job job = {.data = {.columns = columns, .columns_count = columns_count}, .model = {.kind = kind, .dim = 8}};
	struct field_groups g;
	field_groups_find(&g, &job, FIELDS);
	return g;
}

static void a_width_is_a_group(void **state)
{
	(void)state;
	struct field_groups g = groups_of(MODEL_DCN_V2, 5);
	assert_int_equal(g.count, 2);
	assert_memory_equal(g.dim, ((const uint32_t[]){8, 2}), 2 * sizeof *g.dim);
	assert_memory_equal(g.fields, ((const uint32_t[]){1, 2}), 2 * sizeof *g.fields);
	assert_memory_equal(g.of, ((const uint8_t[]){1, 0, 1}), FIELDS);
	assert_int_equal(field_groups_columns(&g), 2 + 8 + 2);
	g = groups_of(MODEL_DCN_V2, 0); /* data without columns */
	assert_true(g.count == 1 && g.dim[0] == 8 && g.fields[0] == FIELDS);
	g = groups_of(MODEL_LR, 5);
	assert_true(g.count == 1 && g.dim[0] == 0);
}

static void a_batch_is_sorted_by_groups(void **state)
{
	(void)state;
	const struct field_groups g = groups_of(MODEL_DCN_V2, 5);
	/* rows: a 10, b 20 21, c -; a -, b 20, c 11 10 */
	const uint32_t offsets[] = {0, 1, 3, 3, 3, 4, 6};
	const uint64_t keys[] = {10, 20, 21, 20, 11, 10};
	const float values[] = {1, 2, 3, 4, 5, 6};
	const struct field_bags bags = {.rows = 2, .fields = FIELDS, .offsets = offsets, .keys = keys, .values = values};
	uint32_t sorted_offsets[2 * FIELDS + 2], index[6];
	uint64_t sorted_keys[6];
	float sorted_values[6];
	struct grouped_bags to = {.offsets = sorted_offsets, .keys = sorted_keys, .values = sorted_values};
	field_groups_sort(&g, &bags, &to);
	assert_memory_equal(to.uses, ((const size_t[]){3, 3}), 2 * sizeof *to.uses);
	assert_memory_equal(sorted_offsets, ((const uint32_t[]){0, 2, 3, /* b */ 0, 1, 1, 1, 3 /* a, c */}), sizeof sorted_offsets);
	assert_memory_equal(sorted_keys, ((const uint64_t[]){20, 21, 20, 10, 11, 10}), sizeof sorted_keys);
	assert_memory_equal(sorted_values, ((const float[]){2, 3, 4, 1, 5, 6}), sizeof sorted_values);
	const uint32_t grouped[] = {0, 1, 0, 0, 1, 0};
	const size_t begin[] = {0, 2, 4};
	field_groups_index(&g, &bags, &to, grouped, begin, index);
	assert_memory_equal(index, ((const uint32_t[]){2, 0, 1, 0, 3, 2}), sizeof index);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_width_is_a_group),
	    cmocka_unit_test(a_batch_is_sorted_by_groups),
	};
	return cmocka_run_group_tests_name("field_groups", tests, NULL, NULL);
}
