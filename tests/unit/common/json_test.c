/* JSON value by value: present and absent keys, keys with dots, strings with zero bytes. */
#include <stdlib.h>

#include "tests/cmocka_check.h"

#include "common/web/json.h"

static struct json *parsed(const char *text)
{
	struct json *j;
	weir_error err = {0};
	CHECK_OK(json_parse_strings(text, strlen(text), "test", &j, &err), err);
	return j;
}

static void values_are_what_they_are(void **state)
{
	(void)state;
	struct json *j = parsed("{\"a.b\": [1, \"x\\u0000y\", null, true, -1, 2.5], \"m\": {}, \"n\": null}");
	const struct json_value *root = json_root(j), *list = json_member(root, "a.b");
	uint64_t n;
	size_t bytes;
	bool b;
	assert_true(json_is_map(root) && !json_is_list(root) && json_length(root) == 3);
	assert_true(json_is_list(list) && !json_is_map(list) && json_length(list) == 6);
	assert_true(json_value_count(json_element(list, 0), &n) && n == 1);
	assert_memory_equal(json_value_text(json_element(list, 1), &bytes), "x\0y", 4);
	assert_int_equal(bytes, 3);
	assert_true(json_is_absent(json_element(list, 2)) && json_is_absent(json_member(root, "n")));
	assert_true(json_value_bool(json_element(list, 3), false, &b) && b);
	assert_false(json_value_count(json_element(list, 4), &n) || json_value_count(json_element(list, 5), &n));
	assert_false(json_value_bool(json_element(list, 0), false, &b));
	json_destroy(j);
}

static void an_absent_value_is_empty(void **state)
{
	(void)state;
	uint64_t n;
	bool b;
	struct json *j = parsed("{\"t\": \"x\"}");
	const struct json_value *text = json_member(json_root(j), "t"), *none = json_member(text, "x");
	assert_null(none);
	assert_null(json_element(text, 0));
	assert_null(json_member(none, "x"));
	assert_null(json_element(none, 0));
	assert_null(json_value_text(none, NULL));
	assert_true(json_is_absent(none) && json_length(none) == 0 && json_length(text) == 0);
	assert_false(json_value_count(none, &n));
	assert_true(json_value_bool(none, true, &b) && b);
	json_destroy(j);
}

static bool collect(void *arg, const char *key, size_t bytes, const struct json_value *member)
{
	char *out = arg;
	uint64_t n;
	strncat(out, key, bytes);
	return json_value_count(member, &n) && n < 3;
}

static void members_come_in_order_until_one_says_enough(void **state)
{
	(void)state;
	char all[16] = "", some[16] = "";
	struct json *j = parsed("{\"c\": 1, \"a\": 2, \"b\": 0}"), *k = parsed("{\"c\": 1, \"a\": 3, \"b\": 0}");
	assert_true(json_each(json_root(j), collect, all));
	assert_string_equal(all, "cab");
	assert_false(json_each(json_root(k), collect, some));
	assert_string_equal(some, "ca");
	assert_true(json_each(json_member(json_root(j), "a"), collect, some));
	json_destroy(j);
	json_destroy(k);
}

/* Python writes integers of any length; some tokenizer_config.json files have one. */
static void whole_numbers_may_be_long(void **state)
{
	(void)state;
	static const char text[] = "{\"model_max_length\": 1000000000000000019884624838656, \"eos\": \"</s>\"}",
	                  endless[] = "[1e999]";
	struct json *j = NULL;
	weir_error err = {0};
	double real = 0;
	uint64_t count = 0;
	CHECK_OK(json_parse(text, sizeof text - 1, "long", &j, &err), err);
	assert_true(json_get_real(j, "model_max_length", &real) && real > 0.999e30 && real < 1.001e30);
	assert_false(json_get_count(j, "model_max_length", &count));
	assert_string_equal(json_get_text(j, "eos"), "</s>");
	json_destroy(j);
	assert_int_equal(json_parse(endless, sizeof endless - 1, "endless", &j, &err), WEIR_E_PARSE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(values_are_what_they_are), cmocka_unit_test(an_absent_value_is_empty),
	                                   cmocka_unit_test(members_come_in_order_until_one_says_enough),
	                                   cmocka_unit_test(whole_numbers_may_be_long)};
	return cmocka_run_group_tests_name("json", tests, NULL, NULL);
}
