/* A server's mark: order and file. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/records/mark.h"
#include "tests/cmocka_check.h"
#include "tests/unit/faulty_disk.h"

#define PATH "run/server-1.mark"

static const struct mark_owner owner = {.uuid = "the job's uuid.", .server = 1};
static const struct mark some = {.generation = 2, .epoch = 5, .position = 0x123456789a};

static struct disk *make_folder(struct faulty_disk *f)
{
	struct disk *d = faulty_disk_interface(f);
	weir_error err = {0};
	CHECK_OK(d->ops->make_dirs(d, "run", &err), err);
	return d;
}

static void write_well(struct disk *d, const struct mark *m)
{
	weir_error err = {0};
	CHECK_OK(mark_write(d, PATH, &owner, m, &err), err);
}

static struct mark read_as(struct disk *d, const struct mark_owner *who)
{
	struct mark m = {.generation = 77};
	weir_error err = {0};
	CHECK_OK(mark_read(d, PATH, who, &m, &err), err);
	return m;
}

static void write_bytes(struct disk *d, const void *bytes, size_t n)
{
	weir_error err = {0};
	CHECK_OK(disk_write_file(d, PATH, bytes, n, &err), err);
}

static void refused(struct disk *d, weir_status status, const char *says)
{
	struct mark m;
	weir_error err = {0};
	assert_int_equal(mark_read(d, PATH, &owner, &m, &err), status);
	CHECK_CONTAINS(err.text, PATH);
	CHECK_CONTAINS(err.text, says);
	assert_int_equal(m.generation, 0);
}

static void a_generation_counts_before_an_epoch_and_that_before_a_position(void **state)
{
	(void)state;
	static const struct mark rising[] = {{0}, {1, 1, 9}, {1, 2, 3}, {1, 2, 4}, {1, 3, 0}, {2, 1, 0}};
	for (size_t i = 0; i < sizeof rising / sizeof *rising; i++)
		for (size_t j = 0; j < sizeof rising / sizeof *rising; j++)
			assert_int_equal(mark_is_below(&rising[i], &rising[j]), i < j);
}

static void written_data_is_read_back(void **state)
{
	(void)state;
	struct faulty_disk *f = faulty_disk_create();
	struct disk *d = make_folder(f);
	assert_int_equal(read_as(d, &owner).generation, 0); /* the file does not exist */
	write_well(d, &some);
	faulty_disk_crash(f, CRASH_UNSYNCED, 1);
	const struct mark m = read_as(d, &owner);
	assert_true(m.generation == 2 && m.epoch == 5 && m.position == some.position);
	struct mark_owner other = owner;
	other.server = 2;
	assert_int_equal(read_as(d, &other).generation, 0);
	other = owner;
	other.uuid[15] ^= 1;
	assert_int_equal(read_as(d, &other).generation, 0);
	faulty_disk_destroy(f);
}

/* The golden bytes are in tests/golden. */
static void a_false_mark_is_refused(void **state)
{
	(void)state;
	struct faulty_disk *f = faulty_disk_create();
	struct disk *d = make_folder(f);
	char text[3 * MARK_BYTES + 1], *bytes = NULL, *golden = NULL;
	size_t n, m, at = 0;
	weir_error err = {0};
	write_well(d, &some);
	CHECK_OK(disk_read_file(d, PATH, 1 << 20, &bytes, &n, &err), err);
	assert_int_equal(n, MARK_BYTES);
	for (size_t i = 0; i < n; i++)
		at += (size_t)snprintf(text + at, sizeof text - at, "%02x%c", (uint8_t)bytes[i], i % 16 == 15 ? '\n' : ' ');
	CHECK_OK(disk_read_file(disk_system(), GOLDEN_DIR "/mark.hex", 1 << 20, &golden, &m, &err), err);
	assert_string_equal(text, golden);
	for (size_t i = 0; i < n; i++) {
		bytes[i] ^= 0x10;
		write_bytes(d, bytes, n);
		refused(d, WEIR_E_CORRUPT, "remove it");
		bytes[i] ^= 0x10;
	}
	write_bytes(d, bytes, n - 1);
	refused(d, WEIR_E_CORRUPT, "remove it");
	free(bytes);
	free(golden);
	faulty_disk_destroy(f);
}

static void a_full_disk_leaves_the_mark_before(void **state)
{
	(void)state;
	struct faulty_disk *f = faulty_disk_create();
	struct disk *d = make_folder(f);
	const struct mark next = {.generation = 2, .epoch = 6};
	weir_error err = {0};
	write_well(d, &some);
	faulty_disk_full_at(f, faulty_disk_steps(f) + 1);
	assert_int_equal(mark_write(d, PATH, &owner, &next, &err), WEIR_E_NO_SPACE);
	faulty_disk_make_room(f);
	assert_int_equal(read_as(d, &owner).epoch, 5);
	write_well(d, &next);
	assert_int_equal(read_as(d, &owner).epoch, 6);
	faulty_disk_destroy(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_generation_counts_before_an_epoch_and_that_before_a_position),
	    cmocka_unit_test(written_data_is_read_back),
	    cmocka_unit_test(a_false_mark_is_refused),
	    cmocka_unit_test(a_full_disk_leaves_the_mark_before),
	};
	return cmocka_run_group_tests_name("mark", tests, NULL, NULL);
}
