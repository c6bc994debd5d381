/* Structs of the API that may grow: callers with older and newer headers, and defaults. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/cmocka_check.h"

#include "worker/client/api_struct.h"

/* Today's structs are those of version 2. When one grows, its number stays, and its line here goes. */
static void sizes_of_version_2_are_those_of_the_headers(void **state)
{
	(void)state;
#define IS_VERSION_2(type, bytes) assert_int_equal(sizeof(type), bytes);
	API_STRUCT_MAP(IS_VERSION_2)
#undef IS_VERSION_2
}

static void size_0_is_version_2(void **state)
{
	(void)state;
	weir_error err = {0};
	weir_report out, in = {.rows = 7, .row_least_s = 0.5};
	CHECK_OK(api_struct_read(API_weir_report, &out, &in, &err), err);
	assert_int_equal(out.rows, 7);
	assert_true(out.row_least_s == 0.5);
	assert_int_equal(out.size, sizeof out);
}

static void no_struct_is_all_zero(void **state)
{
	(void)state;
	weir_error err = {0};
	weir_push_options out = {.copy = 9};
	CHECK_OK(api_struct_read(API_weir_push_options, &out, NULL, &err), err);
	assert_int_equal(out.copy, 0);
	assert_true(out.weight == 0);
}

static void an_older_caller_lacks_the_last_fields(void **state)
{
	(void)state;
	weir_error err = {0};
	weir_stats mine = {.bytes_pushed = 1, .bytes_pulled = 2, .residual_norm = 3};
	struct {
		size_t size;
		uint64_t bytes_pushed;
		uint64_t after; /* not of the struct */
	} theirs = {16, 5, 77};
	weir_stats read;
	CHECK_OK(api_struct_read(API_weir_stats, &read, &theirs, &err), err);
	assert_int_equal(read.bytes_pushed, 5);
	assert_int_equal(read.bytes_pulled, 0);
	CHECK_OK(api_struct_check(API_weir_stats, &theirs, &err), err);
	api_struct_write(API_weir_stats, &theirs, &mine);
	assert_int_equal(theirs.size, 16);
	assert_int_equal(theirs.bytes_pushed, 1);
	assert_int_equal(theirs.after, 77);
}

static void a_newer_caller_may_not_set_unknown_fields(void **state)
{
	(void)state;
	weir_error err = {0};
	struct {
		weir_evaluation known;
		uint64_t added;
	} theirs = {.known = {.size = sizeof theirs, .pass = 4}};
	weir_evaluation read;
	CHECK_OK(api_struct_read(API_weir_evaluation, &read, &theirs, &err), err);
	assert_int_equal(read.pass, 4);
	theirs.added = 1;
	assert_int_equal(api_struct_read(API_weir_evaluation, &read, &theirs, &err), WEIR_E_VERSION);
	CHECK_CONTAINS(err.text, "weir_evaluation has 72 bytes and sets a field beyond the 64 that libweir");
	CHECK_CONTAINS(err.text, "use a newer libweir");
}

static void what_a_newer_caller_alone_knows_is_read_as_0(void **state)
{
	(void)state;
	struct {
		weir_stats known;
		uint64_t added;
	} theirs = {.known = {.size = sizeof theirs}, .added = 9};
	const weir_stats mine = {.duplicates = 3};
	api_struct_write(API_weir_stats, &theirs, &mine);
	assert_int_equal(theirs.known.duplicates, 3);
	assert_int_equal(theirs.added, 0);
	assert_int_equal(theirs.known.size, sizeof theirs);
}

static void a_size_that_is_none_is_refused(void **state)
{
	(void)state;
	weir_error err = {0};
	weir_job job = {.size = 3};
	assert_int_equal(api_struct_check(API_weir_job, &job, &err), WEIR_E_VERSION);
	CHECK_CONTAINS(err.text, "weir_job.size is 3: set all of the struct to 0, or call weir_job_init");
	job.size = (size_t)-1;
	assert_int_equal(api_struct_check(API_weir_job, &job, &err), WEIR_E_VERSION);
	weir_report report = {.size = 1u << 20}, out;
	assert_int_equal(api_struct_read(API_weir_report, &out, &report, &err), WEIR_E_VERSION);
}

static void defaults_fit_the_callers_struct(void **state)
{
	(void)state;
	weir_table_spec spec;
	memset(&spec, 0xff, sizeof spec);
	weir_table_spec_init(&spec, sizeof spec);
	assert_int_equal(spec.size, sizeof spec);
	assert_int_equal(spec.optimizer.kind, WEIR_OPT_ADAM);
	assert_true(spec.optimizer.beta2 == 0.999f && spec.admission.probability == 1);
	assert_int_equal(spec.name[0], 0);
	weir_evaluation evaluation;
	weir_evaluation_init(&evaluation, sizeof evaluation);
	assert_true(isnan(evaluation.auc) && isnan(evaluation.logloss));
	weir_push_options push;
	weir_push_options_init(&push, sizeof push);
	assert_true(push.weight == 1);
	weir_options options;
	weir_options_init(&options, sizeof options);
	assert_int_equal(options.connect_timeout_ms, 4000);
	struct {
		size_t size;
		uint64_t after;
	} small = {0, 77};
	weir_stats_init((weir_stats *)(void *)&small, sizeof small.size);
	assert_int_equal(small.size, sizeof small.size);
	assert_int_equal(small.after, 77);
}

static void the_library_tells_its_version(void **state)
{
	(void)state;
	unsigned major, minor;
	assert_int_equal(weir_api_version(), WEIR_API_VERSION);
	assert_int_equal(sscanf(weir_version(), "%u.%u.", &major, &minor), 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(sizes_of_version_2_are_those_of_the_headers),
	    cmocka_unit_test(size_0_is_version_2),
	    cmocka_unit_test(no_struct_is_all_zero),
	    cmocka_unit_test(an_older_caller_lacks_the_last_fields),
	    cmocka_unit_test(a_newer_caller_may_not_set_unknown_fields),
	    cmocka_unit_test(what_a_newer_caller_alone_knows_is_read_as_0),
	    cmocka_unit_test(a_size_that_is_none_is_refused),
	    cmocka_unit_test(defaults_fit_the_callers_struct),
	    cmocka_unit_test(the_library_tells_its_version),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
