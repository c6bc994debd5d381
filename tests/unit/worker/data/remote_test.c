/* Data on a web server and in an S3 bucket: copied once, whole, and again after a change, despite
 * any server faults. Errors name the file. */
#include "worker/data/remote/remote.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/prng.h"
#include "common/web/blob.h"
#include "tests/cmocka_check.h"
#include "tests/unit/common/s3_server.h"
#include "worker/data/format/sources.h"
#include "worker/data/remote/remote_file.h"

#define LARGE_BYTES ((2u * WEIR_BLOB_PART_BYTES) + 4321u)

static struct s3_server web, s3;
static char folder[64], served[80], cache[80];
static uint8_t *large; /* (LARGE_BYTES) */

static void put_file(const char *name, const void *data, size_t bytes)
{
	char path[256];
	snprintf(path, sizeof path, "%s/%s", served, name);
	FILE *f = fopen(path, "w");
	assert_non_null(f);
	assert_int_equal(fwrite(data, 1, bytes, f), bytes);
	assert_int_equal(fclose(f), 0);
}

static int setup(void **state)
{
	(void)state;
	struct prng r;
	snprintf(folder, sizeof folder, "/tmp/weir-remote-XXXXXX");
	if (!mkdtemp(folder))
		return -1;
	snprintf(served, sizeof served, "%s/served", folder);
	snprintf(cache, sizeof cache, "%s/cache", folder);
	large = malloc(LARGE_BYTES);
	prng_seed(&r, 1);
	for (uint32_t i = 0; i < LARGE_BYTES; i++)
		large[i] = (uint8_t)prng_u64(&r);
	setenv("AWS_ACCESS_KEY_ID", S3_ACCESS, 1);
	setenv("AWS_SECRET_ACCESS_KEY", S3_SECRET, 1);
	setenv("AWS_SESSION_TOKEN", S3_TOKEN, 1);
	return mkdir(served, 0755) || !web_server_start(&web, served) || !s3_server_start(&s3);
}

static int teardown(void **state)
{
	(void)state;
	char command[128];
	s3_server_stop(&web);
	s3_server_stop(&s3);
	free(large);
	snprintf(command, sizeof command, "rm -r %s", folder);
	return system(command);
}

static weir_status find_how(struct sources *out, const char *pattern, bool by_ranges, weir_error *err)
{
	const struct remote_options o = {.dir = cache, .endpoint = s3.endpoint, .region = S3_REGION, .by_ranges = by_ranges};
	char *patterns[] = {(char *)(uintptr_t)pattern};
	return sources_find(out, patterns, 1, SOURCES_BY_PATH, &o, err);
}

static weir_status find(struct sources *out, const char *pattern, weir_error *err)
{
	return find_how(out, pattern, false, err);
}

/* Finds `name` on the web server. */
static weir_status find_on_web(struct sources *out, const char *name, weir_error *err)
{
	char address[256];
	snprintf(address, sizeof address, "%s/%s", web.endpoint, name);
	return find(out, address, err);
}

static void assert_copy(const struct source *s, const void *data, size_t bytes)
{
	char *got = malloc(bytes + 1);
	FILE *f = fopen(s->path, "r");
	assert_non_null(f);
	assert_int_equal(s->size, bytes);
	assert_int_equal(fread(got, 1, bytes + 1, f), bytes);
	assert_memory_equal(got, data, bytes);
	fclose(f);
	free(got);
}

static void a_served_file_is_copied_once(void **state)
{
	(void)state;
	struct sources s, again;
	weir_error err = {0};
	put_file("one.txt", "1 2:3\n", 6);
	CHECK_OK(find_on_web(&s, "one.txt", &err), err);
	assert_int_equal(s.count, 1);
	assert_copy(&s.items[0], "1 2:3\n", 6);
	/* every worker's copy has the same name */
	assert_string_equal(strrchr(s.items[0].path, '/'), "/one.txt");
	(void)web_server_sent(&web);
	CHECK_OK(find_on_web(&again, "one.txt", &err), err);
	assert_string_equal(again.items[0].path, s.items[0].path);
	assert_int_equal(web_server_sent(&web), 0);
	assert_int_equal(s.items[0].mtime_ns, 0);
	sources_destroy(&s);
	sources_destroy(&again);
}

static void another_object_of_that_name_is_another_copy(void **state)
{
	(void)state;
	struct sources before, after;
	weir_error err = {0};
	put_file("changes.txt", "old\n", 4);
	CHECK_OK(find_on_web(&before, "changes.txt", &err), err);
	put_file("changes.txt", "new\n", 4); /* the same size as before */
	CHECK_OK(find_on_web(&after, "changes.txt", &err), err);
	assert_copy(&after.items[0], "new\n", 4);
	assert_copy(&before.items[0], "old\n", 4);
	sources_destroy(&before);
	sources_destroy(&after);
}

/* A server disconnects, is busy, or stalls. A retry continues behind the received bytes. */
static void a_copy_goes_on_where_it_broke_off(void **state)
{
	(void)state;
	static const char *const fails[] = {"cut", "503", "drop"};
	for (uint32_t i = 0; i < 3; i++) {
		struct sources s;
		weir_error err = {0};
		char name[32];
		snprintf(name, sizeof name, "large-%u.bin", i);
		put_file(name, large, LARGE_BYTES);
		(void)web_server_sent(&web);
		s3_server_fail(&web, fails[i], 2, 2); /* after HEAD and the first range */
		CHECK_OK(find_on_web(&s, name, &err), err);
		assert_copy(&s.items[0], large, LARGE_BYTES);
		assert_int_equal(web_server_sent(&web), LARGE_BYTES);
		sources_destroy(&s);
	}
}

/* A killed process leaves a partial copy; the next one continues it. */
static void a_copy_that_was_left_goes_on(void **state)
{
	(void)state;
	struct sources s;
	weir_error err = {0};
	char part[1024];
	put_file("left.bin", large, LARGE_BYTES);
	s3_server_fail(&web, "503", 100, 2);
	assert_int_equal(find_on_web(&s, "left.bin", &err), WEIR_E_UNAVAILABLE);
	CHECK_CONTAINS(err.text, "left.bin");
	CHECK_CONTAINS(err.text, "503");
	s3_server_fail(&web, "503", 0, 0);
	(void)web_server_sent(&web);
	CHECK_OK(find_on_web(&s, "left.bin", &err), err);
	assert_copy(&s.items[0], large, LARGE_BYTES);
	assert_int_equal(web_server_sent(&web), LARGE_BYTES - WEIR_BLOB_PART_BYTES);
	snprintf(part, sizeof part, "%s.part", s.items[0].path);
	assert_int_equal(access(part, F_OK), -1);
	sources_destroy(&s);
}

/* The file changes between two ranges. */
static void a_file_replaced_meanwhile_is_no_copy(void **state)
{
	(void)state;
	struct sources s;
	weir_error err = {0};
	put_file("moves.bin", large, LARGE_BYTES);
	s3_server_fail(&web, "replace", 1, 2);
	assert_int_equal(find_on_web(&s, "moves.bin", &err), WEIR_E_IO);
	CHECK_CONTAINS(err.text, "moves.bin has changed while it was copied");
	CHECK_OK(find_on_web(&s, "moves.bin", &err), err);
	assert_copy(&s.items[0], large, LARGE_BYTES);
	sources_destroy(&s);
}

static void redirects_are_followed_some_times(void **state)
{
	(void)state;
	struct sources s;
	weir_error err = {0};
	put_file("far.txt", "far\n", 4);
	CHECK_OK(find_on_web(&s, "-/to/3/far.txt", &err), err);
	assert_copy(&s.items[0], "far\n", 4);
	sources_destroy(&s);
	assert_int_equal(find_on_web(&s, "-/to/6/far.txt", &err), WEIR_E_IO);
	CHECK_CONTAINS(err.text, "redirected more than 5 times");
}

static void braces_make_several_of_one(void **state)
{
	(void)state;
	struct sources s;
	weir_error err = {0};
	for (uint32_t i = 8; i <= 11; i++) {
		char name[32];
		snprintf(name, sizeof name, "day-%02u.a.txt", i);
		put_file(name, name, 9);
	}
	put_file("day-09.b.txt", "b", 1);
	CHECK_OK(find_on_web(&s, "day-{08..10}.a.txt", &err), err);
	assert_int_equal(s.count, 3);
	sources_destroy(&s);
	CHECK_OK(find_on_web(&s, "day-{09..9}.{a,b}.txt", &err), err);
	assert_int_equal(s.count, 2);
	sources_destroy(&s);
	/* one file is missing */
	assert_int_equal(find_on_web(&s, "day-{08..12}.a.txt", &err), WEIR_E_NOT_FOUND);
	CHECK_CONTAINS(err.text, "day-12.a.txt");
	assert_int_equal(find_on_web(&s, "day-{1..99999}", &err), WEIR_E_LIMIT);
	assert_int_equal(find_on_web(&s, "day-{1..2", &err), WEIR_E_INVALID);
	CHECK_CONTAINS(err.text, "a { without a }");
}

static void impossible_places_are_named(void **state)
{
	(void)state;
	static const struct {
		const char *pattern;
		weir_status status;
		const char *part;
	} cases[] = {
	    {"https://host", WEIR_E_INVALID, "an address of a file"},
	    {"https://host/", WEIR_E_INVALID, "an address of a file"},
	    {"https://me:secret@host/x", WEIR_E_INVALID, "passwords do not belong in addresses"},
	    {"http://127.0.0.1:1/x.txt", WEIR_E_UNAVAILABLE, "check that the server runs"},
	    {"https://host/?signature=secret", WEIR_E_INVALID, "https://host/: expected an address of a file"},
	    {"https://host/{a?signature=secret", WEIR_E_INVALID, "https://host/{a: a { without a }"},
	    {"http://127.0.0.1:1/x.txt?signature=secret", WEIR_E_UNAVAILABLE, "check that the server runs"},
	    {"s3://bucket", WEIR_E_INVALID, "s3://BUCKET/KEY"},
	};
	struct sources s;
	weir_error err = {0};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		assert_int_equal(find(&s, cases[i].pattern, &err), cases[i].status);
		CHECK_CONTAINS(err.text, cases[i].part);
		assert_null(strstr(err.text, "secret"));
	}
	put_file("whole.txt", "0123456789", 10);
	s3_server_fail(&web, "whole", 10, 1);
	assert_int_equal(find_on_web(&s, "whole.txt", &err), WEIR_E_UNSUPPORTED);
	CHECK_CONTAINS(err.text, "does not answer ranges");
	s3_server_fail(&web, "whole", 0, 0);
}

static struct blob_store *open_bucket(const char *place)
{
	const struct blob_credentials c = {.access_key = S3_ACCESS, .secret_key = S3_SECRET, .session_token = S3_TOKEN};
	const struct blob_options o = {.place = place, .endpoint = s3.endpoint, .region = S3_REGION, .credentials = &c};
	struct blob_store *store;
	weir_error err = {0};
	CHECK_OK(blob_open(&store, &o, &err), err);
	return store;
}

static void globs_of_a_bucket_match_its_objects(void **state)
{
	(void)state;
	struct blob_store *store = open_bucket("s3://weir-test/clicks");
	struct sources s;
	weir_error err = {0};
	for (uint32_t i = 0; i < 10; i++) { /* more than one page */
		char name[32];
		snprintf(name, sizeof name, "day-%u.gz", i);
		CHECK_OK(blob_put(store, name, name, strlen(name), &err), err);
	}
	CHECK_OK(blob_put(store, "readme.txt", "x", 1, &err), err);
	CHECK_OK(blob_put(store, "below/day-10.gz", "x", 1, &err), err);
	blob_close(store);
	CHECK_OK(find(&s, "s3://weir-test/clicks/day-*.gz", &err), err);
	assert_int_equal(s.count, 10);
	sources_destroy(&s);
	CHECK_OK(find(&s, "s3://weir-test/clicks/day-[0-3].gz", &err), err);
	assert_int_equal(s.count, 4);
	assert_copy(&s.items[0], strrchr(s.items[0].path, '/') + 1, 8);
	sources_destroy(&s);
	s3_server_fail(&s3, "503", 2, 0);
	CHECK_OK(find(&s, "s3://weir-test/clicks/readme.txt", &err), err);
	sources_destroy(&s);
	assert_int_equal(find(&s, "s3://weir-test/clicks/night-*.gz", &err), WEIR_E_NOT_FOUND);
	CHECK_CONTAINS(err.text, "no object matches s3://weir-test/clicks/night-*.gz");
	assert_int_equal(find(&s, "s3://weir-other/x", &err), WEIR_E_NOT_FOUND);
}

/* The number of sources whose path has this in it. */
static uint32_t count_with(const struct sources *s, const char *part)
{
	uint32_t count = 0;
	for (uint32_t i = 0; i < s->count; i++)
		count += strstr(s->items[i].path, part) != NULL;
	return count;
}

/* As Hive and Spark write tables: their folders are columns, and other objects stand beside them. */
static void a_copy_keeps_the_folders_that_are_columns(void **state)
{
	(void)state;
	static const char *const names[] = {"dt=2026-01-01/part-0",
	                                    "dt=2026-01-01/part-1",
	                                    "dt=2026-01-02/hour=07/part-0",
	                                    "_SUCCESS",
	                                    "_log/part-0",
	                                    "dt=2026-01-02/_temporary/part-0",
	                                    "_x=1/part-0"};
	struct blob_store *store = open_bucket("s3://weir-test/table");
	struct sources s;
	weir_error err = {0};
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		CHECK_OK(blob_put(store, names[i], names[i], strlen(names[i]), &err), err);
	blob_close(store);
	CHECK_OK(find(&s, "s3://weir-test/table/", &err), err);
	assert_int_equal(s.count, 4);
	assert_int_equal(count_with(&s, "/dt=2026-01-01/part-"), 2);
	assert_int_equal(count_with(&s, "/dt=2026-01-02/hour=07/part-0"), 1);
	assert_int_equal(count_with(&s, "/_x=1/part-0"), 1);
	sources_destroy(&s);
	CHECK_OK(find(&s, "s3://weir-test/table/dt=*-01/part-*", &err), err);
	assert_int_equal(s.count, 2);
	assert_copy(&s.items[0], strstr(s.items[0].path, "dt="), strlen(names[0]));
	sources_destroy(&s);
	CHECK_OK(find_how(&s, "s3://weir-test/table/*/*/part-0", true, &err), err);
	assert_int_equal(count_with(&s, "/dt=2026-01-02/hour=07/part-0"), 1);
	sources_destroy(&s);
	CHECK_OK(find(&s, "s3://weir-test/table/dt=2026-01-0{2..2}/hour=0{7,7}/part-0", &err), err);
	assert_int_equal(count_with(&s, "/dt=2026-01-02/hour=07/part-0"), 1);
	sources_destroy(&s);
	assert_int_equal(find(&s, "s3://weir-test/table/dt=2027*/*", &err), WEIR_E_NOT_FOUND);
	CHECK_CONTAINS(err.text, "no object matches s3://weir-test/table/dt=2027*/*");
}

static void an_address_keeps_the_folders_that_are_columns(void **state)
{
	(void)state;
	struct sources s;
	weir_error err = {0};
	char day[100];
	snprintf(day, sizeof day, "%s/day=1", served);
	assert_int_equal(mkdir(day, 0755), 0);
	put_file("day=1/rows.txt", "1 2:3\n", 6);
	CHECK_OK(find_on_web(&s, "day={1..1}/rows.txt?key=secret", &err), err);
	assert_copy(&s.items[0], "1 2:3\n", 6);
	assert_int_equal(count_with(&s, "/day=1/rows.txt"), 1);
	assert_int_equal(count_with(&s, "key="), 0);
	sources_destroy(&s);
}

/* Opens the object for which a source is a note, and reads a range of it. */
static void check_range(const struct source *s, uint64_t offset, size_t bytes)
{
	static uint8_t got[1 << 16];
	struct remote_note note;
	struct remote_file *f;
	weir_error err = {0};
	assert_true(remote_note_read(&note, s->path));
	CHECK_OK(remote_file_open(&f, &note, &err), err);
	CHECK_OK(remote_file_read(f, offset, got, bytes, &err), err);
	assert_memory_equal(got, large + offset, bytes);
	remote_file_close(f);
}

static void an_object_read_by_ranges_is_not_copied(void **state)
{
	(void)state;
	struct sources s, again;
	struct remote_note note;
	struct remote_file *f;
	weir_error err = {0};
	char address[256];
	put_file("ranges.bin", large, LARGE_BYTES);
	snprintf(address, sizeof address, "%s/ranges.bin?signature=secret", web.endpoint);
	(void)web_server_sent(&web);
	CHECK_OK(find_how(&s, address, true, &err), err);
	assert_int_equal(s.items[0].size, LARGE_BYTES);
	assert_int_equal(s.items[0].kind, TEXT_PARQUET);
	assert_true(s.items[0].version != 0);
	check_range(&s.items[0], 100, 1000);
	check_range(&s.items[0], LARGE_BYTES - 7, 7);
	assert_int_equal(web_server_sent(&web), 1007);
	CHECK_OK(find_how(&again, address, true, &err), err);
	assert_string_equal(again.items[0].path, s.items[0].path);
	assert_true(remote_note_read(&note, s.items[0].path));
	put_file("ranges.bin", large, LARGE_BYTES); /* at another time */
	assert_int_equal(remote_file_open(&f, &note, &err), WEIR_E_IO);
	CHECK_CONTAINS(err.text, "/ranges.bin has changed since it was found: start again");
	assert_null(strstr(err.text, "secret"));
	sources_destroy(&s);
	sources_destroy(&again);
}

static void an_object_of_a_bucket_is_read_by_ranges(void **state)
{
	(void)state;
	struct blob_store *store = open_bucket("s3://weir-test/ranges");
	struct sources s;
	weir_error err = {0};
	CHECK_OK(blob_put(store, "x.parquet", large, 100000, &err), err);
	blob_close(store);
	CHECK_OK(find_how(&s, "s3://weir-test/ranges/*.parquet", true, &err), err);
	assert_int_equal(s.count, 1);
	check_range(&s.items[0], 4321, 50000);
	sources_destroy(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_served_file_is_copied_once),
	    cmocka_unit_test(another_object_of_that_name_is_another_copy),
	    cmocka_unit_test(a_copy_goes_on_where_it_broke_off),
	    cmocka_unit_test(a_copy_that_was_left_goes_on),
	    cmocka_unit_test(a_file_replaced_meanwhile_is_no_copy),
	    cmocka_unit_test(redirects_are_followed_some_times),
	    cmocka_unit_test(braces_make_several_of_one),
	    cmocka_unit_test(impossible_places_are_named),
	    cmocka_unit_test(globs_of_a_bucket_match_its_objects),
	    cmocka_unit_test(a_copy_keeps_the_folders_that_are_columns),
	    cmocka_unit_test(an_address_keeps_the_folders_that_are_columns),
	    cmocka_unit_test(an_object_read_by_ranges_is_not_copied),
	    cmocka_unit_test(an_object_of_a_bucket_is_read_by_ranges),
	};
	return cmocka_run_group_tests_name("data_remote", tests, setup, teardown);
}
