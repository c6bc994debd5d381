/* Objects in a directory and on an S3 server: one contract for both. The S3 server is
 * tests/s3/server.py, which checks every signature. */
#include "common/web/blob.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/prng.h"
#include "tests/cmocka_check.h"
#include "tests/unit/common/s3_server.h"

#define LARGE_BYTES ((2u * WEIR_BLOB_PART_BYTES) + 12345u)

static struct s3_server s3;
static char folder[64];
static struct blob_store *stores[2]; /* directory, S3 */

static struct blob_credentials credentials(const char *secret)
{
	struct blob_credentials c = {.access_key = S3_ACCESS, .session_token = S3_TOKEN};
	snprintf(c.secret_key, sizeof c.secret_key, "%s", secret);
	return c;
}

static weir_status open_s3(const char *place, const char *region, const char *secret, struct blob_store **out, weir_error *err)
{
	const struct blob_credentials c = credentials(secret);
	return blob_open(
	    out,
	    &(struct blob_options){.place = place, .endpoint = s3.endpoint, .region = region, .credentials = &c, .retry_first_ms = 1},
	    err);
}

static int setup(void **state)
{
	(void)state;
	snprintf(folder, sizeof folder, "/tmp/weir-blob-XXXXXX");
	if (!mkdtemp(folder) || !s3_server_start(&s3))
		return -1;
	return blob_open(&stores[0], &(struct blob_options){.place = folder}, NULL) ||
	       open_s3("s3://weir-test/some/prefix/", S3_REGION, S3_SECRET, &stores[1], NULL);
}

static int teardown(void **state)
{
	(void)state;
	char command[128];
	blob_close(stores[0]);
	blob_close(stores[1]);
	s3_server_stop(&s3);
	snprintf(command, sizeof command, "rm -r %s", folder);
	return system(command);
}

static void written_data_is_read_whole_and_in_ranges(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++) {
		weir_error err = {0};
		char *text = NULL, part[8];
		size_t bytes, got;
		uint64_t size;
		CHECK_OK(blob_put(stores[i], "a/object-1.x_y", "0123456789", 10, &err), err);
		CHECK_OK(blob_get(stores[i], "a/object-1.x_y", 100, &text, &bytes, &err), err);
		assert_int_equal(bytes, 10);
		assert_string_equal(text, "0123456789");
		free(text);
		CHECK_OK(blob_size(stores[i], "a/object-1.x_y", &size, &err), err);
		assert_int_equal(size, 10);
		CHECK_OK(blob_read_at(stores[i], "a/object-1.x_y", 7, part, sizeof part, &got, &err), err);
		assert_int_equal(got, 3);
		assert_memory_equal(part, "789", 3);
		CHECK_OK(blob_read_at(stores[i], "a/object-1.x_y", 10, part, sizeof part, &got, &err), err);
		assert_int_equal(got, 0);
		CHECK_OK(blob_put(stores[i], "a/object-1.x_y", "", 0, &err), err);
		CHECK_OK(blob_size(stores[i], "a/object-1.x_y", &size, &err), err);
		assert_int_equal(size, 0);
		CHECK_OK(blob_remove(stores[i], "a/object-1.x_y", &err), err);
		CHECK_OK(blob_remove(stores[i], "a/object-1.x_y", &err), err);
		assert_int_equal(blob_size(stores[i], "a/object-1.x_y", &size, &err), WEIR_E_NOT_FOUND);
		CHECK_CONTAINS(err.text, "object-1");
	}
}

/* Writes in pieces of odd sizes; on S3, this is a multipart upload. */
static weir_status write_large(struct blob_store *s, const char *name, const uint8_t *data, bool commit, weir_error *err)
{
	struct blob_writer *w;
	weir_status status = blob_create(s, name, &w, err);
	if (status)
		return status;
	for (size_t at = 0, piece = 1; at < LARGE_BYTES && !status; at += piece, piece = piece * 3 + 1) {
		piece = piece < LARGE_BYTES - at ? piece : LARGE_BYTES - at;
		status = blob_write(w, data + at, piece, err);
	}
	if (!status && commit)
		return blob_commit(w, err);
	blob_abandon(w);
	return status;
}

static uint8_t *random_bytes(void)
{
	struct prng r;
	uint8_t *data = malloc(LARGE_BYTES + 8);
	prng_seed(&r, 3);
	for (size_t i = 0; i < LARGE_BYTES; i += 8)
		memcpy(data + i, &(uint64_t){prng_u64(&r)}, 8);
	return data;
}

static void a_large_object_is_there_when_committed_and_not_before(void **state)
{
	(void)state;
	uint8_t *data = random_bytes();
	for (int i = 0; i < 2; i++) {
		weir_error err = {0};
		char *back = NULL;
		size_t bytes;
		uint64_t size;
		CHECK_OK(write_large(stores[i], "large", data, false, &err), err);
		assert_int_equal(blob_size(stores[i], "large", &size, &err), WEIR_E_NOT_FOUND);
		assert_int_equal(s3_server_uploads(&s3), 0);
		CHECK_OK(write_large(stores[i], "large", data, true, &err), err);
		CHECK_OK(blob_get(stores[i], "large", LARGE_BYTES, &back, &bytes, &err), err);
		assert_int_equal(bytes, LARGE_BYTES);
		assert_memory_equal(back, data, bytes);
		free(back);
		assert_int_equal(blob_get(stores[i], "large", LARGE_BYTES - 1, &back, &bytes, &err), WEIR_E_LIMIT);
		CHECK_OK(blob_remove(stores[i], "large", &err), err);
	}
	free(data);
}

struct seen {
	uint32_t count, mask;
};

static weir_status see(void *arg, const char *name, weir_error *err)
{
	struct seen *s = arg;
	unsigned n = 99;
	(void)err;
	s->count++;
	if (sscanf(name, "list/f%u", &n) == 1 && n < 32)
		s->mask |= 1u << n;
	return WEIR_OK;
}

/* More objects than one page of the server's listing. */
static void a_folder_lists_its_own_objects(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++) {
		weir_error err = {0};
		struct seen seen = {0};
		char name[64];
		for (int n = 0; n < 20; n++) {
			snprintf(name, sizeof name, "list/f%d", n);
			CHECK_OK(blob_put(stores[i], name, "x", 1, &err), err);
		}
		CHECK_OK(blob_put(stores[i], "list/deeper/f25", "x", 1, &err), err);
		CHECK_OK(blob_list(stores[i], "list", see, &seen, &err), err);
		assert_int_equal(seen.mask, (1u << 20) - 1);
		seen = (struct seen){0};
		if (i == 0) {
			assert_int_equal(blob_list_below(stores[i], see, &seen, &err), WEIR_E_UNSUPPORTED);
			CHECK_CONTAINS(err.text, "in buckets alone");
		} else {
			CHECK_OK(blob_list_below(stores[i], see, &seen, &err), err);
			assert_true(seen.count > 20);
		}
		seen = (struct seen){0};
		CHECK_OK(blob_list(stores[i], "nothing-here", see, &seen, &err), err);
		assert_int_equal(seen.count, 0);
	}
}

static void names_that_could_escape_are_refused(void **state)
{
	(void)state;
	static const char *const names[] = {"", "/a", "a/", "a//b", "../a", "a/../b", ".hidden", "a b", "a%2e", "a?b", "\xc3\xa4"};
	for (int i = 0; i < 2; i++)
		for (size_t n = 0; n < sizeof names / sizeof *names; n++) {
			weir_error err = {0};
			assert_int_equal(blob_put(stores[i], names[n], "x", 1, &err), WEIR_E_INVALID);
			CHECK_CONTAINS(err.text, "letters, digits");
		}
}

static void a_server_that_is_down_for_a_moment_is_asked_again(void **state)
{
	(void)state;
	static const char *const faults[] = {"503", "drop", "cut"};
	uint8_t *data = random_bytes();
	for (size_t f = 0; f < 3; f++) {
		weir_error err = {0};
		char *back = NULL;
		size_t bytes;
		s3_server_fail(&s3, faults[f], 3, 1);
		CHECK_OK(write_large(stores[1], "again", data, true, &err), err);
		s3_server_fail(&s3, faults[f], 3, 1);
		CHECK_OK(blob_get(stores[1], "again", LARGE_BYTES, &back, &bytes, &err), err);
		assert_memory_equal(back, data, bytes);
		free(back);
	}
	free(data);
}

/* The upload's completion succeeds and its answer is lost. A second completion finds no such
 * upload. */
static void an_upload_whose_completion_is_not_heard_of_is_there(void **state)
{
	(void)state;
	uint8_t *data = random_bytes();
	weir_error err = {0};
	uint64_t size;
	s3_server_fail(&s3, "lose", 1, 4); /* begin, three parts */
	CHECK_OK(write_large(stores[1], "lost-answer", data, true, &err), err);
	CHECK_OK(blob_size(stores[1], "lost-answer", &size, &err), err);
	assert_int_equal(size, LARGE_BYTES);
	free(data);
}

/* Once for an object in one request, once for one in parts. */
static void data_that_the_server_does_not_keep_is_not_written(void **state)
{
	(void)state;
	static const char *const faults[] = {"forget", "halve"};
	const size_t large = WEIR_BLOB_PART_BYTES + 1000;
	uint8_t *bytes = calloc(1, large);
	weir_error err = {0};
	assert_non_null(bytes);
	for (size_t f = 0; f < sizeof faults / sizeof *faults; f++)
		for (uint32_t parts = 0; parts < 2; parts++) {
			s3_server_fail(&s3, faults[f], 1, parts ? 3 : 0);
			assert_int_equal(blob_put(stores[1], "kept/not", bytes, parts ? large : 1000, &err), WEIR_E_IO);
			CHECK_CONTAINS(err.text, "s3://" S3_BUCKET);
			CHECK_CONTAINS(err.text, "is it an S3 server?");
			assert_int_equal(s3_server_uploads(&s3), 0);
			CHECK_OK(blob_remove(stores[1], "kept/not", &err), err);
		}
	free(bytes);
}

static void a_server_that_stays_down_is_named(void **state)
{
	(void)state;
	weir_error err = {0};
	s3_server_fail(&s3, "503", 100, 0);
	assert_int_equal(blob_put(stores[1], "never", "x", 1, &err), WEIR_E_UNAVAILABLE);
	CHECK_CONTAINS(err.text, "SlowDown");
	CHECK_CONTAINS(err.text, s3.endpoint);
	s3_server_fail(&s3, "503", 0, 0);
}

static void a_refusal_of_the_server_says_what_to_do(void **state)
{
	(void)state;
	static const struct {
		const char *place, *region, *secret;
		weir_status status;
		const char *part;
	} cases[] = {
	    {"s3://weir-test", S3_REGION, "another secret", WEIR_E_IO, "check AWS_ACCESS_KEY_ID"},
	    {"s3://no-such-bucket/x", S3_REGION, S3_SECRET, WEIR_E_NOT_FOUND, "there is no bucket no-such-bucket"},
	    {"s3://weir-test", "eu-north-1", S3_SECRET, WEIR_E_INVALID, "set checkpoint.region"},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct blob_store *s;
		weir_error err = {0};
		CHECK_OK(open_s3(cases[i].place, cases[i].region, cases[i].secret, &s, &err), err);
		assert_int_equal(blob_put(s, "x", "x", 1, &err), cases[i].status);
		CHECK_CONTAINS(err.text, cases[i].part);
		blob_close(s);
	}
}

static void a_place_that_cannot_be_is_refused_at_once(void **state)
{
	(void)state;
	struct blob_store *s;
	weir_error err = {0};
	assert_int_equal(open_s3("s3://", S3_REGION, S3_SECRET, &s, &err), WEIR_E_INVALID);
	CHECK_CONTAINS(err.text, "s3://BUCKET/PREFIX");
	assert_int_equal(blob_open(&s, &(struct blob_options){.place = "s3://bucket", .endpoint = "ftp://host"}, &err),
	                 WEIR_E_INVALID);
	CHECK_CONTAINS(err.text, "checkpoint.endpoint");
}

static void a_read_only_directory_is_named(void **state)
{
	(void)state;
	struct blob_store *s;
	weir_error err = {0};
	if (geteuid() == 0) /* file permissions do not stop root */
		CHECK_OK(blob_open(&s, &(struct blob_options){.place = "/proc/weir"}, &err), err);
	else
		CHECK_OK(blob_open(&s, &(struct blob_options){.place = "/weir-checkpoints"}, &err), err);
	assert_int_not_equal(blob_put(s, "x", "x", 1, &err), WEIR_OK);
	CHECK_CONTAINS(err.text, s->place);
	blob_close(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(written_data_is_read_whole_and_in_ranges),
	    cmocka_unit_test(a_large_object_is_there_when_committed_and_not_before),
	    cmocka_unit_test(a_folder_lists_its_own_objects),
	    cmocka_unit_test(names_that_could_escape_are_refused),
	    cmocka_unit_test(a_server_that_is_down_for_a_moment_is_asked_again),
	    cmocka_unit_test(an_upload_whose_completion_is_not_heard_of_is_there),
	    cmocka_unit_test(data_that_the_server_does_not_keep_is_not_written),
	    cmocka_unit_test(a_server_that_stays_down_is_named),
	    cmocka_unit_test(a_refusal_of_the_server_says_what_to_do),
	    cmocka_unit_test(a_place_that_cannot_be_is_refused_at_once),
	    cmocka_unit_test(a_read_only_directory_is_named),
	};
	return cmocka_run_group_tests_name("blob", tests, setup, teardown);
}
