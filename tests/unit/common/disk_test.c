/* Files on the real disk: reading, writing, atomic replacement, clear errors. */
#include "common/system/disk.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/cmocka_check.h"
#include "tests/folder.h"

static char folder[FOLDER_BYTES];

static const char *in_folder(const char *name)
{
	static char path[256];
	snprintf(path, sizeof path, "%s/%s", folder, name);
	return path;
}

static int make_folder(void **state)
{
	(void)state;
	folder_create(folder);
	return 0;
}

static int remove_folder(void **state)
{
	(void)state;
	return folder_delete(folder);
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

/* fsync succeeds, but no name leads to the bytes. */
static void a_sync_of_a_deleted_file_makes_nothing_durable(void **state)
{
	(void)state;
	struct disk *d = disk_system();
	struct disk_file *f;
	weir_error err = {0};
	CHECK_OK(d->ops->open(d, in_folder("gone"), true, &f, &err), err);
	CHECK_OK(d->ops->write_at(f, 0, "weir", 4, &err), err);
	CHECK_OK(d->ops->sync(f, &err), err);
	CHECK_OK(d->ops->remove(d, in_folder("gone"), &err), err);
	assert_int_equal(d->ops->sync(f, &err), WEIR_E_IO);
	CHECK_CONTAINS(err.text, in_folder("gone"));
	CHECK_CONTAINS(err.text, "deleted");
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

static void a_copy_is_equal(void **state)
{
	(void)state;
	enum { BYTES = (5 << 20) / 2 + 3 }; /* several blocks and a part of one */
	struct disk *d = disk_system();
	weir_error err = {0};
	char from[256], to[256], *bytes = malloc(BYTES), *copy;
	size_t n;
	for (uint32_t i = 0; i < BYTES; i++)
		bytes[i] = (char)(i * 2654435761u >> 24);
	snprintf(from, sizeof from, "%s", in_folder("from"));
	snprintf(to, sizeof to, "%s", in_folder("to"));
	CHECK_OK(disk_write_file(d, from, bytes, BYTES, &err), err);
	CHECK_OK(disk_write_file(d, to, "what was there", 14, &err), err);
	CHECK_OK(disk_copy_file(d, from, to, &err), err);
	CHECK_OK(disk_read_file(d, to, BYTES, &copy, &n, &err), err);
	assert_int_equal(n, BYTES);
	assert_memory_equal(copy, bytes, BYTES);
	assert_int_equal(disk_copy_file(d, in_folder("nothing"), to, &err), WEIR_E_NOT_FOUND);
	CHECK_CONTAINS(err.text, "nothing");
	CHECK_OK(d->ops->remove(d, from, &err), err);
	CHECK_OK(d->ops->remove(d, to, &err), err);
	free(copy);
	free(bytes);
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

static uint64_t size_of(struct disk *d, const char *path)
{
	struct disk_file *f;
	uint64_t bytes;
	weir_error err = {0};
	CHECK_OK(d->ops->open(d, path, false, &f, &err), err);
	CHECK_OK(d->ops->size(f, &bytes, &err), err);
	d->ops->close(f);
	return bytes;
}

static void a_file_that_is_rewritten_keeps_the_space_of_two(void **state)
{
	(void)state;
	struct disk *d = disk_system();
	weir_error err = {0};
	char path[256], spare[256], *text, byte[2] = "a";
	size_t bytes;
	snprintf(path, sizeof path, "%s", in_folder("vote"));
	snprintf(spare, sizeof spare, "%s", in_folder("vote.spare"));
	CHECK_OK(disk_write_file(d, spare, "a longer one that a crash left", 30, &err), err);
	CHECK_OK(disk_rewrite_file(d, path, byte, 1, &err), err);
	CHECK_OK(disk_reserve_file(d, path, 1, &err), err);
	for (; byte[0] <= 'e'; byte[0]++) {
		CHECK_OK(disk_rewrite_file(d, path, byte, 1, &err), err);
		CHECK_OK(disk_read_file(d, path, 100, &text, &bytes, &err), err);
		assert_string_equal(text, byte);
		assert_int_equal(size_of(d, spare), 1);
		free(text);
	}
	CHECK_OK(d->ops->exchange(d, spare, path, &err), err);
	CHECK_OK(disk_read_file(d, path, 100, &text, &bytes, &err), err);
	assert_string_equal(text, "d"); /* the text before the exchange */
	free(text);
	assert_int_equal(d->ops->exchange(d, in_folder("nothing"), path, &err), WEIR_E_NOT_FOUND);
	CHECK_CONTAINS(err.text, "cannot exchange");
	CHECK_OK(d->ops->remove(d, spare, &err), err);
	CHECK_OK(d->ops->remove(d, path, &err), err);
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

static void spans_are_written_one_behind_the_other(void **state)
{
	(void)state;
	enum { SPANS = 1000 };
	struct disk *d = disk_system();
	struct disk_file *f;
	struct span spans[SPANS];
	uint8_t bytes[SPANS], out[2 * SPANS];
	weir_error err = {0};
	size_t got, total = 0;
	for (unsigned i = 0; i < SPANS; i++) {
		bytes[i] = (uint8_t)(i % 251);
		spans[i] = (struct span){bytes + i, i % 3 && i + 1 < SPANS ? i % 3 : 0};
	}
	CHECK_OK(d->ops->open(d, in_folder("spans"), true, &f, &err), err);
	CHECK_OK(d->ops->write_spans(f, 5, spans, SPANS, &err), err);
	CHECK_OK(d->ops->read_at(f, 5, out, sizeof out, &got, &err), err);
	for (unsigned i = 0; i < SPANS; total += spans[i++].size)
		assert_memory_equal(out + total, spans[i].data, spans[i].size);
	assert_int_equal(got, total);
	d->ops->close(f);
}

static void space_is_reserved_and_given_back(void **state)
{
	(void)state;
	struct disk *d = disk_system();
	struct disk_file *f;
	weir_error err = {0};
	uint64_t size, space;
	char out[8];
	size_t got;
	CHECK_OK(d->ops->open(d, in_folder("reserved"), true, &f, &err), err);
	CHECK_OK(d->ops->write_at(f, 0, "weir", 4, &err), err);
	CHECK_OK(d->ops->allocate(f, 1 << 20, &err), err);
	CHECK_OK(d->ops->sync(f, &err), err);
	d->ops->drop_cache(f);
	CHECK_OK(d->ops->size(f, &size, &err), err);
	assert_true(size == 1 << 20 || size == 4); /* 4: a file system that cannot reserve space */
	CHECK_OK(d->ops->truncate(f, 8, &err), err);
	CHECK_OK(d->ops->read_at(f, 0, out, sizeof out, &got, &err), err);
	assert_memory_equal(out, "weir\0\0\0\0", 8);
	CHECK_OK(d->ops->free_space(d, folder, &space, &err), err);
	d->ops->close(f);
}

static void a_full_disk_has_its_own_status(void **state)
{
	(void)state;
	struct disk *d = disk_system();
	struct disk_file *f;
	weir_error err = {0};
	CHECK_OK(d->ops->open(d, "/dev/full", false, &f, &err), err);
	assert_int_equal(d->ops->write_at(f, 0, "x", 1, &err), WEIR_E_NO_SPACE);
	CHECK_CONTAINS(err.text, "cannot write /dev/full: No space left on device");
	d->ops->close(f);
}

static weir_status count_name(void *arg, const char *name)
{
	assert_true(strcmp(name, "one") == 0 || strcmp(name, "two") == 0);
	return --*(int *)arg >= 0 ? WEIR_OK : WEIR_E_LIMIT;
}

static void a_folder_is_listed(void **state)
{
	(void)state;
	struct disk *d = disk_system();
	weir_error err = {0};
	int left = 2;
	CHECK_OK(d->ops->make_dirs(d, in_folder("listed"), &err), err);
	CHECK_OK(disk_write_file(d, in_folder("listed/one"), "", 0, &err), err);
	CHECK_OK(disk_write_file(d, in_folder("listed/two"), "", 0, &err), err);
	CHECK_OK(d->ops->list(d, in_folder("listed"), count_name, &left, &err), err);
	assert_int_equal(left, 0);
	assert_int_equal(d->ops->list(d, in_folder("listed"), count_name, &left, &err), WEIR_E_LIMIT);
	assert_int_equal(d->ops->list(d, in_folder("nowhere"), count_name, &left, &err), WEIR_E_NOT_FOUND);
}

static void a_lock_names_who_has_it(void **state)
{
	(void)state;
	struct disk *d = disk_system();
	struct disk_file *first, *second;
	weir_error err = {0};
	CHECK_OK(d->ops->lock(d, in_folder("lock"), "the first", &first, &err), err);
	assert_int_equal(d->ops->lock(d, in_folder("lock"), "the second", &second, &err), WEIR_E_BUSY);
	CHECK_CONTAINS(err.text, "the second cannot have ");
	CHECK_CONTAINS(err.text, "it is in use by the first. Stop that one first");
	d->ops->close(first);
	CHECK_OK(d->ops->lock(d, in_folder("lock"), "the second", &second, &err), err);
	d->ops->close(second);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_file_is_read_and_written_at_offsets),
	    cmocka_unit_test(a_sync_of_a_deleted_file_makes_nothing_durable),
	    cmocka_unit_test(a_whole_file_is_replaced_and_read_back),
	    cmocka_unit_test(a_copy_is_equal),
	    cmocka_unit_test(a_leftover_temporary_file_does_no_harm),
	    cmocka_unit_test(a_file_that_is_rewritten_keeps_the_space_of_two),
	    cmocka_unit_test(folders_are_made_with_parents),
	    cmocka_unit_test(errors_name_the_path),
	    cmocka_unit_test(spans_are_written_one_behind_the_other),
	    cmocka_unit_test(space_is_reserved_and_given_back),
	    cmocka_unit_test(a_full_disk_has_its_own_status),
	    cmocka_unit_test(a_folder_is_listed),
	    cmocka_unit_test(a_lock_names_who_has_it),
	};
	return cmocka_run_group_tests_name("disk", tests, make_folder, remove_folder);
}
