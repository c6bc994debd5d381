/* Programs on a PATH, and the error for a missing one. */
#include "common/system/program.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/cmocka_check.h"

static void make_file(const char *path, mode_t mode)
{
	FILE *f = fopen(path, "w");
	assert_non_null(f);
	fclose(f);
	assert_int_equal(chmod(path, mode), 0);
}

static void the_first_executable_file_on_the_path_is_taken(void **state)
{
	(void)state;
	char folder[] = "/tmp/weir-program-XXXXXX", path[256], expected[128], out[256], file[128];
	weir_error err = {0};
	assert_non_null(mkdtemp(folder));
	for (int i = 0; i < 4; i++) {
		snprintf(file, sizeof file, "%s/%d", folder, i);
		assert_int_equal(mkdir(file, 0700), 0);
		snprintf(file, sizeof file, "%s/%d/etcd", folder, i);
		if (i == 0)
			assert_int_equal(mkdir(file, 0700), 0);
		else
			make_file(file, i == 1 ? 0600 : 0700);
	}
	snprintf(path, sizeof path, "%s/none:%s/0:%s/1:%s/2:%s/3", folder, folder, folder, folder, folder);
	snprintf(expected, sizeof expected, "%s/2/etcd", folder);
	CHECK_OK(program_find(out, sizeof out, "etcd", "etcd-server", path, &err), err);
	assert_string_equal(out, expected);
	assert_int_equal(program_find(out, 8, "etcd", "etcd-server", path, &err), WEIR_E_LIMIT);
	for (int i = 0; i < 4; i++) {
		snprintf(file, sizeof file, "%s/%d/etcd", folder, i);
		assert_int_equal(i == 0 ? rmdir(file) : unlink(file), 0);
		snprintf(file, sizeof file, "%s/%d", folder, i);
		assert_int_equal(rmdir(file), 0);
	}
	assert_int_equal(rmdir(folder), 0);
}

static void a_missing_one_names_its_package(void **state)
{
	(void)state;
	static const char *const paths[] = {NULL, "", "/nowhere:/nowhere/else"};
	char out[256];
	for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
		weir_error err = {0};
		assert_int_equal(program_find(out, sizeof out, "etcd", "etcd-server", paths[i], &err), WEIR_E_NOT_FOUND);
		assert_string_equal(err.text, "the program etcd is not on PATH: install the Debian package etcd-server "
		                              "(apt-get install etcd-server)");
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_first_executable_file_on_the_path_is_taken),
	    cmocka_unit_test(a_missing_one_names_its_package),
	};
	return cmocka_run_group_tests_name("program", tests, NULL, NULL);
}
