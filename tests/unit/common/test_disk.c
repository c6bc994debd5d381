/* Files of the machine: reading, writing, atomic replacement, clear errors. */
#include "disk.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "cmocka_check.h"

static char folder[64];

static const char *in_folder(const char *name)
{
	static char path[256];
	snprintf(path, sizeof path, "%s/%s", folder, name);
	return path;
}

static int make_folder(void **state)
{
	(void)state;
	snprintf(folder, sizeof folder, "/tmp/weir-disk-XXXXXX");
	return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
	(void)state;
	char command[128];
	snprintf(command, sizeof command, "rm -r %s", folder);
	return system(command);
}

static void a_file_is_read_and_written_at_offsets(void **state)
{
	(void)state;
	struct disk *d = disk_system();
	struct disk_file *f;
	weir_error err = {0};
	char out[16];
	size_t got;
	uint64_t size;
	CHECK_OK(d->ops->open(d, in_folder("log"), true, &f, &err), err);
	CHECK_OK(d->ops->write_at(f, 4, "weir", 4, &err), err);
	CHECK_OK(d->ops->sync(f, &err), err);
	CHECK_OK(d->ops->size(f, &size, &err), err);
	assert_int_equal(size, 8);
	CHECK_OK(d->ops->read_at(f, 2, out, sizeof out, &got, &err), err);
	assert_int_equal(got, 6);
	assert_memory_equal(out, "\0\0weir", 6);
	CHECK_OK(d->ops->read_at(f, 100, out, sizeof out, &got, &err), err);
	assert_int_equal(got, 0);
	d->ops->close(f);
}

static void a_whole_file_is_replaced_and_read_back(void **state)
{
	(void)state;
	struct disk *d = disk_system();
	weir_error err = {0};
	char path[256], *text;
	size_t bytes;
	snprintf(path, sizeof path, "%s", in_folder("whole"));
	CHECK_OK(disk_write_file(d, path, "a longer first text", 19, &err), err);
	CHECK_OK(disk_write_file(d, path, "second", 6, &err), err);
	CHECK_OK(disk_read_file(d, path, 100, &text, &bytes, &err), err);
	assert_int_equal(bytes, 6);
	assert_string_equal(text, "second");
	free(text);
	assert_int_equal(disk_read_file(d, path, 5, &text, &bytes, &err), WEIR_E_LIMIT);
	CHECK_CONTAINS(err.text, "6 bytes, the limit is 5");
	CHECK_OK(d->ops->remove(d, path, &err), err);
	assert_int_equal(access(in_folder("whole.tmp"), F_OK), -1);
}

static void a_leftover_temporary_file_does_no_harm(void **state)
{
	(void)state;
	struct disk *d = disk_system();
	weir_error err = {0};
	char path[256], *text;
	size_t bytes;
	CHECK_OK(disk_write_file(d, in_folder("x.tmp"), "what a crash left behind", 24, &err), err);
	snprintf(path, sizeof path, "%s", in_folder("x"));
	CHECK_OK(disk_write_file(d, path, "new", 3, &err), err);
	CHECK_OK(disk_read_file(d, path, 100, &text, &bytes, &err), err);
	assert_string_equal(text, "new");
	free(text);
}

static void folders_are_made_with_parents(void **state)
{
	(void)state;
	struct disk *d = disk_system();
	weir_error err = {0};
	char path[256];
	snprintf(path, sizeof path, "%s", in_folder("a/b//c/"));
	CHECK_OK(d->ops->make_dirs(d, path, &err), err);
	CHECK_OK(d->ops->make_dirs(d, path, &err), err);
	assert_int_equal(access(path, W_OK), 0);
	snprintf(path, sizeof path, "%s", in_folder("file"));
	CHECK_OK(disk_write_file(d, path, "x", 1, &err), err);
	assert_int_equal(d->ops->make_dirs(d, path, &err), WEIR_E_IO);
	CHECK_CONTAINS(err.text, "a file has that name");
}

static void errors_name_the_path(void **state)
{
	(void)state;
	struct disk *d = disk_system();
	struct disk_file *f;
	weir_error err = {0};
	assert_int_equal(d->ops->open(d, "/nowhere/x", false, &f, &err), WEIR_E_NOT_FOUND);
	CHECK_CONTAINS(err.text, "cannot open /nowhere/x: No such file or directory");
	assert_int_equal(disk_write_file(d, "/nowhere/x", "", 0, &err), WEIR_E_NOT_FOUND);
	CHECK_CONTAINS(err.text, "/nowhere/x.tmp");
	assert_int_equal(d->ops->make_dirs(d, "", &err), WEIR_E_LIMIT);
	assert_int_equal(d->ops->make_dirs(d, "/proc/nothing/can/be/made/here", &err), WEIR_E_NOT_FOUND);
	CHECK_CONTAINS(err.text, "/proc/nothing");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_file_is_read_and_written_at_offsets),
	    cmocka_unit_test(a_whole_file_is_replaced_and_read_back),
	    cmocka_unit_test(a_leftover_temporary_file_does_no_harm),
	    cmocka_unit_test(folders_are_made_with_parents),
	    cmocka_unit_test(errors_name_the_path),
	};
	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
