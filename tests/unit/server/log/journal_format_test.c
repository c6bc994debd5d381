/* The bytes of a journal segment, of this version and of version 1. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/unit/faulty_disk.h"
#include "tests/unit/server/log/journal_folder.h"

/* Returns the file's bytes as hexadecimal text, 16 in a line. The caller frees it. */
static char *file_as_hex(struct disk *disk, const char *path)
{
	char *bytes;
	size_t count, at = 0;
	weir_error err = {0};
	CHECK_OK(disk_read_file(disk, path, 1 << 20, &bytes, &count, &err), err);
	char *text = malloc(3 * count + 1);
	assert_non_null(text);
	for (size_t i = 0; i < count; i++)
		at += (size_t)sprintf(text + at, "%02x%c", (uint8_t)bytes[i], i % 16 == 15 || i + 1 == count ? '\n' : ' ');
	free(bytes);
	return text;
}

/* Writes a segment from the hexadecimal text of a golden file. */
static void lay_golden(const char *golden, const char *name)
{
	char path[256], *text;
	uint8_t bytes[4096];
	size_t n, count = 0;
	weir_error err = {0};
	struct disk *disk = disk_system();
	struct disk_file *f;
	CHECK_OK(disk_read_file(disk, golden, 1 << 20, &text, &n, &err), err);
	for (char *at = text, *end; count < sizeof bytes; at = end, count++) {
		bytes[count] = (uint8_t)strtoul(at, &end, 16);
		if (end == at)
			break;
	}
	free(text);
	snprintf(path, sizeof path, "%s/journal", journal_folder);
	CHECK_OK(disk->ops->make_dirs(disk, path, &err), err);
	snprintf(path, sizeof path, "%s/journal/%s", journal_folder, name);
	CHECK_OK(disk->ops->open(disk, path, true, &f, &err), err);
	CHECK_OK(disk->ops->write_at(f, 0, bytes, count, &err), err);
	disk->ops->close(f);
}

static void a_journal_of_version_1_is_read_and_goes_on(void **state)
{
	(void)state;
	enum { GOLDEN_BODY = 30 };
	struct fixture_seen seen = fixture_seen_new(GOLDEN_BODY);
	struct journal *j;
	weir_error err = {0};
	lay_golden(GOLDEN_DIR "/journal_segment_v1.hex", "00000001.wal");
	CHECK_OK(open_journal(disk_system(), &j, &err), err);
	seen.all_committed = true;
	CHECK_OK(fixture_replay(j, &seen, &err), err);
	assert_true(seen.channels[0].last == 0 && seen.channels[1].last == 1 && seen.channels[2].last == 1);
	for (uint64_t i = 2; i <= 5; i++)
		CHECK_OK(fixture_append(j, 1, i, 0, GOLDEN_BODY, &err), err);
	fixture_cut(j, 1, 2);
	CHECK_OK(fixture_append(j, 1, 2, 1, GOLDEN_BODY, &err), err);
	fixture_close_journal(j);
	CHECK_OK(open_journal(disk_system(), &j, &err), err);
	seen = fixture_seen_new(GOLDEN_BODY);
	CHECK_OK(fixture_replay(j, &seen, &err), err);
	assert_true(seen.channels[1].last == 2 && seen.cuts[1][2] == 1 && seen.channels[2].last == 1);
	fixture_close_journal(j);
}

/* A partition's entry, the ledger's, their cuts, an entry behind one cut, and the mark behind
 * all. */
static void the_bytes_are_those_of_the_format(void **state)
{
	(void)state;
	enum { GOLDEN_BODY = 30 };
	struct faulty_disk *disk = faulty_disk_create();
	struct fixture_seen seen = fixture_seen_new(GOLDEN_BODY);
	struct journal *j;
	char path[128], *golden, *text;
	size_t bytes;
	weir_error err = {0};
	CHECK_OK(open_journal(faulty_disk_interface(disk), &j, &err), err);
	CHECK_OK(fixture_replay(j, &seen, &err), err);
	CHECK_OK(fixture_append(j, 1, 1, 0, GOLDEN_BODY, &err), err);
	CHECK_OK(fixture_append(j, 2, 1, 0, GOLDEN_BODY, &err), err);
	fixture_cut(j, 1, 1);
	fixture_restart(j, 2, 9);
	CHECK_OK(fixture_append(j, 2, 9, 1, GOLDEN_BODY, &err), err);
	fixture_close_journal(j);
	snprintf(path, sizeof path, "%s/journal/00000001.wal", journal_folder);
	text = file_as_hex(faulty_disk_interface(disk), path);
	CHECK_OK(disk_read_file(disk_system(), GOLDEN_DIR "/journal_segment.hex", 1 << 20, &golden, &bytes, &err), err);
	assert_string_equal(text, golden);
	free(golden);
	free(text);
	faulty_disk_destroy(disk);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    IN_JOURNAL_FOLDER(a_journal_of_version_1_is_read_and_goes_on),
	    IN_JOURNAL_FOLDER(the_bytes_are_those_of_the_format),
	};
	return cmocka_run_group_tests_name("journal_format", tests, NULL, NULL);
}
