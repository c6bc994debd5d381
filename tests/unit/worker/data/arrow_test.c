/* Batches of the Arrow C data interface: cells have the texts of CSV; batches that are not as the
 * interface has it are refused by the column's name. The arrays are made by hand. */
#include <string.h>

#include "common/base/limits.h"
#include "tests/cmocka_check.h"
#include "worker/data/format/arrow_reader.h"

enum { COLUMNS_MAX = 4, CHILDREN_MAX = 8 };

/* A batch whose arrays live in the table. */
struct table {
	struct ArrowSchema schema, schemas[CHILDREN_MAX], *schema_children[COLUMNS_MAX], *schema_child[CHILDREN_MAX];
	struct ArrowArray batch, arrays[CHILDREN_MAX], *children[COLUMNS_MAX], *child[CHILDREN_MAX];
	const void *buffers[CHILDREN_MAX][4];
	uint32_t arrays_count;
	char *names[COLUMNS_MAX];
	enum column_kind kinds[COLUMNS_MAX];
	struct table_layout layout;
	struct arrow_reader reader;
};

static uint32_t add_array(struct table *t, const char *format, int64_t length, int64_t buffers, const void *valid,
                          const void *values, const void *text)
{
	const uint32_t i = t->arrays_count++;
	t->buffers[i][0] = valid;
	t->buffers[i][1] = values;
	t->buffers[i][2] = text;
	t->schemas[i] = (struct ArrowSchema){.format = format};
	t->arrays[i] = (struct ArrowArray){.length = length, .n_buffers = buffers, .buffers = t->buffers[i]};
	return i;
}

static void add_column(struct table *t, char *name, enum column_kind kind, uint32_t array)
{
	const uint32_t i = t->layout.columns++;
	t->schemas[array].name = name;
	t->schema_children[i] = &t->schemas[array];
	t->children[i] = &t->arrays[array];
	t->names[i] = name;
	t->kinds[i] = kind;
}

static void add_values(struct table *t, uint32_t array, uint32_t values)
{
	t->schema_child[array] = &t->schemas[values];
	t->child[array] = &t->arrays[values];
	t->schemas[array].n_children = t->arrays[array].n_children = 1;
	t->schemas[array].children = &t->schema_child[array];
	t->arrays[array].children = &t->child[array];
}

static void add_dictionary(struct table *t, uint32_t array, uint32_t values)
{
	t->schemas[array].dictionary = &t->schemas[values];
	t->arrays[array].dictionary = &t->arrays[values];
}

static weir_status begin(struct table *t, int64_t rows, weir_error *err)
{
	t->layout.rows = ROWS_ARROW;
	t->layout.names = t->names;
	t->layout.kinds = t->kinds;
	t->schema = (struct ArrowSchema){.format = "+s", .n_children = t->layout.columns, .children = t->schema_children};
	t->batch = (struct ArrowArray){.length = rows, .n_children = t->layout.columns, .children = t->children};
	return arrow_reader_begin(&t->reader, &t->layout, &t->schema, &t->batch, err);
}

static void expect_text(struct table *t, uint32_t column, const char *text, size_t n, enum cell_form form)
{
	struct cell cell;
	const char *bad = arrow_reader_cell(&t->reader, column, &cell);
	if (bad)
		fail_msg("column %u: %s", column, bad);
	assert_int_equal(cell.form, form);
	assert_int_equal(cell.n, n);
	assert_memory_equal(cell.text, text, n);
}

#define EXPECT(column, text) expect_text(&t, column, text, strlen(text), CELL_TEXT)

static void integers_and_booleans_have_their_texts(void **state)
{
	(void)state;
	static const int64_t whole[] = {0, INT64_MIN, 17};
	static const uint64_t large[] = {UINT64_MAX, 0, 5};
	static const uint8_t bits[] = {5}, valid[] = {3}; /* true, false, true; the third is null */
	struct table t = {0};
	weir_error err = {0};
	add_column(&t, "i", COLUMN_CATEGORICAL, add_array(&t, "l", 3, 2, valid, whole, NULL));
	add_column(&t, "u", COLUMN_GROUP, add_array(&t, "L", 3, 2, NULL, large, NULL));
	add_column(&t, "b", COLUMN_CATEGORICAL, add_array(&t, "b", 3, 2, NULL, bits, NULL));
	add_column(&t, "y", COLUMN_LABEL, add_array(&t, "b", 3, 2, NULL, bits, NULL));
	CHECK_OK(begin(&t, 3, &err), err);
	static const char *const texts[3][4] = {
	    {"0", "18446744073709551615", "true", "1"}, {"-9223372036854775808", "0", "false", "0"}, {"", "5", "true", "1"}};
	for (int row = 0; row < 3; row++) {
		assert_true(arrow_reader_next(&t.reader));
		for (uint32_t c = 0; c < 4; c++)
			EXPECT(c, texts[row][c]);
	}
	assert_false(arrow_reader_next(&t.reader));
	arrow_reader_destroy(&t.reader);
}

static void texts_lists_and_dictionaries(void **state)
{
	(void)state;
	static const int32_t offsets[] = {0, 2, 2, 5}, lists[] = {0, 2, 3};
	static const int64_t large[] = {0, 1, 3, 5};
	static const int8_t indexes[] = {2, 0};
	struct table t = {0};
	weir_error err = {0};
	const uint32_t list = add_array(&t, "+l", 2, 2, NULL, lists, NULL), values = add_array(&t, "u", 3, 3, NULL, offsets, "abcde");
	const uint32_t coded = add_array(&t, "c", 2, 2, NULL, indexes, NULL), words = add_array(&t, "U", 3, 3, NULL, large, "vwxyz");
	add_values(&t, list, values);
	add_dictionary(&t, coded, words);
	add_column(&t, "m", COLUMN_MULTI, list);
	add_column(&t, "d", COLUMN_CATEGORICAL, coded);
	CHECK_OK(begin(&t, 2, &err), err);
	assert_true(arrow_reader_next(&t.reader));
	expect_text(&t, 0, "ab\0\0", 4, CELL_LIST);
	EXPECT(1, "yz");
	assert_true(arrow_reader_next(&t.reader));
	expect_text(&t, 0, "cde\0", 4, CELL_LIST);
	EXPECT(1, "v");
	const struct cell text = arrow_reader_text(&t.reader);
	assert_int_equal(text.n, 7);
	assert_memory_equal(text.text, "cde\0\0v\0", 7);
	arrow_reader_destroy(&t.reader);
}

struct view {
	int32_t length;
	char prefix[4];
	int32_t buffer, offset;
};

/* Adds an array of three views, with one buffer of n bytes. */
static uint32_t add_views(struct table *t, const struct view views[3], const char *text, const int64_t *n)
{
	const uint32_t i = add_array(t, "vu", 3, 4, NULL, views, text);
	t->buffers[i][3] = n;
	return i;
}

static void views_of_texts(void **state)
{
	(void)state;
	static const int64_t bytes[] = {20};
	static const int32_t lists[] = {0, 2, 3};
	static const int8_t indexes[] = {2, 1};
	struct view views[] = {{2, "ab", 0, 0}, {0, "", 0, 0}, {15, "fghi", 0, 5}};
	struct table t = {0};
	weir_error err = {0};
	const uint32_t list = add_array(&t, "+l", 2, 2, NULL, lists, NULL), coded = add_array(&t, "c", 2, 2, NULL, indexes, NULL);
	add_values(&t, list, add_views(&t, views, "abcdefghijklmnopqrst", bytes));
	add_dictionary(&t, coded, add_views(&t, views, "abcdefghijklmnopqrst", bytes));
	add_column(&t, "v", COLUMN_CATEGORICAL, add_views(&t, views, "abcdefghijklmnopqrst", bytes));
	add_column(&t, "m", COLUMN_MULTI, list);
	add_column(&t, "d", COLUMN_CATEGORICAL, coded);
	CHECK_OK(begin(&t, 2, &err), err);
	assert_true(arrow_reader_next(&t.reader));
	EXPECT(0, "ab");
	expect_text(&t, 1, "ab\0\0", 4, CELL_LIST);
	EXPECT(2, "fghijklmnopqrst");
	assert_true(arrow_reader_next(&t.reader));
	EXPECT(0, "");
	expect_text(&t, 1, "fghijklmnopqrst\0", 16, CELL_LIST);
	EXPECT(2, "");
	static const struct view wrong[] = {{-1, "", 0, 0}, {15, "", 1, 0},  {15, "", -1, 0},
	                                    {15, "", 0, 6}, {15, "", 0, -1}, {INT32_MAX, "", 0, INT32_MAX}};
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		views[2] = wrong[i];
		assert_int_equal(begin(&t, 2, &err), WEIR_E_INVALID);
		CHECK_CONTAINS(err.text, "column 'v': the batch is not as Arrow's C data interface has it: views of texts");
	}
	arrow_reader_destroy(&t.reader);
}

static void numbers_and_times_have_their_values(void **state)
{
	(void)state;
	static const double reals[] = {2.5, 1e99};
	static const int32_t days[] = {1, -1};
	static const int64_t ns[] = {1999999, -1};
	struct table t = {0};
	struct cell cell;
	weir_error err = {0};
	add_column(&t, "n", COLUMN_NUMERIC, add_array(&t, "g", 2, 2, NULL, reals, NULL));
	add_column(&t, "day", COLUMN_TIME, add_array(&t, "tdD", 2, 2, NULL, days, NULL));
	add_column(&t, "at", COLUMN_TIME, add_array(&t, "tsn:UTC", 2, 2, NULL, ns, NULL));
	CHECK_OK(begin(&t, 2, &err), err);
	assert_true(arrow_reader_next(&t.reader));
	assert_null(arrow_reader_cell(&t.reader, 0, &cell));
	assert_true(cell.form == CELL_NUMBER && cell.number == 2.5f);
	assert_null(arrow_reader_cell(&t.reader, 1, &cell));
	assert_true(cell.form == CELL_TIME && cell.time_ms == 86400000);
	assert_null(arrow_reader_cell(&t.reader, 2, &cell));
	assert_true(cell.form == CELL_TIME && cell.time_ms == 1);
	assert_true(arrow_reader_next(&t.reader));
	assert_null(arrow_reader_cell(&t.reader, 0, &cell)); /* no float: its text is refused by the parser */
	assert_true(cell.form == CELL_TEXT && cell.n > 0);
	assert_null(arrow_reader_cell(&t.reader, 1, &cell));
	assert_true(cell.time_ms == -86400000);
	assert_null(arrow_reader_cell(&t.reader, 2, &cell));
	assert_true(cell.time_ms == -1);
	arrow_reader_destroy(&t.reader);
}

static void a_slice_of_a_batch(void **state)
{
	(void)state;
	static const int16_t whole[] = {1, 2, 3, 4, 5};
	static const uint8_t valid[] = {0x17}; /* the fourth is null */
	struct table t = {0};
	weir_error err = {0};
	const uint32_t array = add_array(&t, "s", 4, 2, valid, whole, NULL);
	t.arrays[array].offset = 1;
	add_column(&t, "i", COLUMN_CATEGORICAL, array);
	CHECK_OK(begin(&t, 4, &err), err);
	t.batch.offset = 1;
	t.batch.length = 3;
	CHECK_OK(arrow_reader_begin(&t.reader, &t.layout, &t.schema, &t.batch, &err), err);
	for (int i = 0; i < 3; i++) {
		assert_true(arrow_reader_next(&t.reader));
		EXPECT(0, ((const char *const[]){"3", "", "5"})[i]);
	}
	assert_false(arrow_reader_next(&t.reader));
	arrow_reader_destroy(&t.reader);
}

static void bad_values_are_named(void **state)
{
	(void)state;
	static const int32_t offsets[] = {0, 3, 5};
	static const int8_t indexes[] = {1, 7};
	struct table t = {0};
	struct cell cell;
	weir_error err = {0};
	const uint32_t coded = add_array(&t, "c", 2, 2, NULL, indexes, NULL),
	               words = add_array(&t, "u", 2, 3, NULL, offsets, "a\0b\xff\xfe");
	add_dictionary(&t, coded, words);
	add_column(&t, "u", COLUMN_CATEGORICAL, words);
	add_column(&t, "d", COLUMN_CATEGORICAL, coded);
	CHECK_OK(begin(&t, 2, &err), err);
	assert_true(arrow_reader_next(&t.reader));
	assert_string_equal(arrow_reader_cell(&t.reader, 0, &cell), "has a zero byte");
	assert_string_equal(arrow_reader_cell(&t.reader, 1, &cell), "is not valid UTF-8");
	assert_true(arrow_reader_next(&t.reader));
	assert_string_equal(arrow_reader_cell(&t.reader, 1, &cell), "has an index outside its dictionary");
	arrow_reader_destroy(&t.reader);
}

/* One column x of a kind, whose array or schema is changed. */
static void refused(enum column_kind kind, const char *format, int64_t buffers, const void *values,
                    void (*change)(struct table *t), const char *why)
{
	struct table t = {0};
	weir_error err = {0};
	add_column(&t, "x", kind, add_array(&t, format, 2, buffers, NULL, values, "abcdefgh"));
	if (change)
		change(&t);
	const weir_status status = begin(&t, 2, &err);
	arrow_reader_destroy(&t.reader);
	if (status == WEIR_OK)
		fail_msg("%s is taken; expected: %s", format, why);
	CHECK_CONTAINS(err.text, why);
}

static void rename_it(struct table *t)
{
	t->schemas[0].name = "y";
}
static void shorten(struct table *t)
{
	t->arrays[0].length = 1;
}
static void make_negative(struct table *t)
{
	t->arrays[0].length = -1;
}
static void take_buffers(struct table *t)
{
	t->arrays[0].buffers = NULL;
}
static void take_dictionary(struct table *t)
{
	t->schemas[0].dictionary = &t->schemas[1];
}

static void batches_not_as_the_interface_has_it_are_refused(void **state)
{
	(void)state;
	static const int32_t falling[] = {0, 5, 3}, negative[] = {-1, 2, 3}, rising[] = {0, 1, 2};
	static const char *const others[] = {"d:10,2", "+s", "+m", "+us:0", "+r",   "w:4",   "ttm",
	                                     "tDs",    "e",  "",   "x",     "tsx:", "+w:-1", "+w:"};
	refused(COLUMN_CATEGORICAL, "i", 2, rising, rename_it, "the batch has no column 'x', which data.columns names");
	refused(COLUMN_CATEGORICAL, "i", 2, rising, shorten, "column 'x' has fewer rows than its batch");
	refused(COLUMN_CATEGORICAL, "i", 2, rising, make_negative,
	        "column 'x': the batch is not as Arrow's C data interface has it: its length");
	refused(COLUMN_CATEGORICAL, "i", 2, rising, take_buffers, "another number of buffers");
	refused(COLUMN_CATEGORICAL, "i", 3, rising, NULL, "another number of buffers");
	refused(COLUMN_CATEGORICAL, "i", 2, NULL, NULL, "a buffer is missing");
	refused(COLUMN_CATEGORICAL, "i", 2, rising, take_dictionary, "a list or a dictionary without its values");
	refused(COLUMN_CATEGORICAL, "u", 3, falling, NULL, "its offsets are not in order");
	refused(COLUMN_CATEGORICAL, "u", 3, negative, NULL, "its offsets are not in order");
	refused(COLUMN_MULTI, "+l", 2, rising, NULL, "a list without its values");
	refused(COLUMN_CATEGORICAL, "g", 2, rising, NULL,
	        "column 'x' is of kind categorical and of another type; expected texts, integers or booleans");
	refused(COLUMN_NUMERIC, "tdD", 2, rising, NULL, "expected numbers or texts");
	refused(COLUMN_TIME, "f", 2, rising, NULL, "expected timestamps, dates, integers or texts");
	for (size_t i = 0; i < sizeof others / sizeof *others; i++)
		refused(COLUMN_CATEGORICAL, others[i], 2, rising, NULL, "column 'x' is of type ");
	struct table t = {0};
	weir_error err = {0};
	const uint32_t outer = add_array(&t, "+l", 2, 2, NULL, rising, NULL), inner = add_array(&t, "+l", 2, 2, NULL, rising, NULL);
	add_values(&t, outer, inner);
	add_values(&t, inner, add_array(&t, "i", 2, 2, NULL, rising, NULL));
	add_column(&t, "x", COLUMN_MULTI, outer);
	assert_int_equal(begin(&t, 2, &err), WEIR_E_UNSUPPORTED);
	CHECK_CONTAINS(err.text, "column 'x': a list of lists; expected a list of texts or integers");
	t.arrays[inner].length = 1;
	t.schemas[inner] = (struct ArrowSchema){.format = "i"};
	t.arrays[inner].n_children = 0;
	arrow_reader_destroy(&t.reader);
	assert_int_equal(begin(&t, 2, &err), WEIR_E_INVALID);
	CHECK_CONTAINS(err.text, "lists beyond their values");
	arrow_reader_destroy(&t.reader);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(integers_and_booleans_have_their_texts),
	    cmocka_unit_test(texts_lists_and_dictionaries),
	    cmocka_unit_test(views_of_texts),
	    cmocka_unit_test(numbers_and_times_have_their_values),
	    cmocka_unit_test(a_slice_of_a_batch),
	    cmocka_unit_test(bad_values_are_named),
	    cmocka_unit_test(batches_not_as_the_interface_has_it_are_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
