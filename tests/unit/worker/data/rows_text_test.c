/* Text files in ranges and compressions: every line exactly once, and damage is an error. */
#include "tests/unit/worker/data/fixture.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/base/limits.h"

/* All lines of a range, concatenated from its chunks. malloc'ed. */
static char *read_range(const char *path, uint64_t begin, uint64_t end)
{
	struct text *t;
	struct text_chunk c = {0};
	weir_error err = {0};
	char *all;
	size_t size;
	FILE *out = open_memstream(&all, &size);
	CHECK_OK(text_open(&t, path, begin, end, &err), err);
	for (;;) {
		CHECK_OK(text_next(t, &c, &err), err);
		if (c.size == 0)
			break;
		fwrite(c.data, 1, c.size, out);
	}
	text_close(t);
	text_chunk_destroy(&c);
	fclose(out);
	return all;
}

static void ranges_hold_every_line_once(void **state)
{
	const char *text = "first\nsecond line\n\nfourth is rather long, longer than a range\nx\nlast without newline";
	size_t n = strlen(text);
	char path[256];
	write_bytes(*state, "ranges.txt", text, n, path);
	for (uint64_t step = 1; step <= n + 1; step++) {
		char *joined = calloc(1, n + 1);
		for (uint64_t at = 0; at < n; at += step) {
			char *part = read_range(path, at, at + step < n ? at + step : UINT64_MAX);
			strcat(joined, part);
			free(part);
		}
		assert_string_equal(joined, text);
		free(joined);
	}
}

static void large_files_come_in_whole_lines(void **state)
{
	size_t n;
	char path[256], *text = criteo_text(30000, 3, &n), *got;
	assert_true(n > 2 * (size_t)TEXT_CHUNK_BYTES);
	for (enum text_kind kind = TEXT_PLAIN; kind <= TEXT_ZSTD; kind++) {
		enum text_kind found;
		weir_error err = {0};
		write_compressed(*state, "large", kind, text, n, path);
		CHECK_OK(text_kind_of(path, &found, &err), err);
		assert_int_equal(found, kind);
		got = read_range(path, 0, UINT64_MAX);
		assert_true(strcmp(got, text) == 0);
		free(got);
	}
	free(text);
}

/* Reads to the end or to the first error. */
static weir_status read_status(const char *path, weir_error *err)
{
	struct text *t;
	struct text_chunk c = {0};
	weir_status status = text_open(&t, path, 0, UINT64_MAX, err);
	if (status != WEIR_OK)
		return status;
	do
		status = text_next(t, &c, err);
	while (status == WEIR_OK && c.size > 0);
	text_close(t);
	text_chunk_destroy(&c);
	return status;
}

static void a_line_that_no_chunk_holds_is_named(void **state)
{
	enum { BEFORE = 70000, LONG = 2 << 20 };
	static char text[2 * BEFORE + LONG + 8];
	char path[256], where[400];
	for (size_t i = 0; i < BEFORE; i++)
		memcpy(text + 2 * i, "x\n", 2);
	memset(text + (size_t)2 * BEFORE, 'y', LONG);
	memcpy(text + (size_t)2 * BEFORE + LONG, "\nz\n", 3);
	for (enum text_kind kind = TEXT_PLAIN; kind <= TEXT_LZ4; kind++) {
		weir_error err = {0};
		write_compressed(*state, "long", kind, text, (size_t)2 * BEFORE + LONG + 3, path);
		assert_int_equal(read_status(path, &err), WEIR_E_LIMIT);
		snprintf(where, sizeof where, "%s:%d: the line is longer than %u bytes", path, BEFORE + 1, WEIR_LINE_BYTES_MAX);
		CHECK_CONTAINS(err.text, where);
	}
}

static void truncated_compression_is_an_error(void **state)
{
	size_t n;
	char path[256], *text = criteo_text(40, 4, &n);
	for (enum text_kind kind = TEXT_GZIP; kind <= TEXT_ZSTD; kind++) {
		write_compressed(*state, "whole", kind, text, n, path);
		FILE *f = fopen(path, "rb");
		char *bytes = malloc(2 * n);
		size_t size = fread(bytes, 1, 2 * n, f);
		fclose(f);
		for (size_t cut = 5; cut < size; cut += 7) {
			weir_error err = {0};
			write_bytes(*state, "cut", bytes, cut, path);
			weir_status status = read_status(path, &err);
			if (status != WEIR_E_CORRUPT)
				fail_msg("kind %d cut at %zu of %zu: %s", kind, cut, size, weir_status_name(status));
			CHECK_CONTAINS(err.text, path);
		}
		free(bytes);
	}
	free(text);
}

static void gzip_members_follow_one_another(void **state)
{
	char first[256], second[256], joined[512];
	write_compressed(*state, "1.gz", TEXT_GZIP, "one\n", 4, first);
	write_compressed(*state, "2.gz", TEXT_GZIP, "two\n", 4, second);
	FILE *a = fopen(first, "ab"), *b = fopen(second, "rb");
	size_t n = fread(joined, 1, sizeof joined, b);
	assert_int_equal(fwrite(joined, 1, n, a), n);
	fclose(a);
	fclose(b);
	char *got = read_range(first, 0, UINT64_MAX);
	assert_string_equal(got, "one\ntwo\n");
	free(got);
}

/* Writes two members and a tail. */
static void write_with_tail(const struct folder *f, const char *name, const void *tail, size_t n, char path[256])
{
	write_compressed(f, name, TEXT_GZIP, "one\n", 4, path);
	FILE *file = fopen(path, "ab");
	assert_int_equal(fwrite(tail, 1, n, file), n);
	fclose(file);
}

static bool has_garbage(const char *path)
{
	struct text *t;
	struct text_chunk c = {0};
	weir_error err = {0};
	CHECK_OK(text_open(&t, path, 0, UINT64_MAX, &err), err);
	do
		CHECK_OK(text_next(t, &c, &err), err);
	while (c.size > 0);
	const bool garbage = text_has_garbage(t);
	text_close(t);
	text_chunk_destroy(&c);
	return garbage;
}

/* As gunzip: zeros are padding, other bytes are ignored, and a member that starts must be
 * complete. */
static void bytes_behind_gzip_members(void **state)
{
	static char zeros[600000], late[600000];
	static const struct {
		const char *tail;
		size_t bytes;
		bool garbage;
	} tails[] = {{"", 0, false},    {zeros, 1, false},    {zeros, 512, false}, {zeros, sizeof zeros, false},
	             {"\x1f", 1, true}, {"garbage", 7, true}, {"two\n", 4, true},  {late, sizeof late, true}};
	char path[256];
	late[sizeof late - 1] = 1;
	for (size_t i = 0; i < sizeof tails / sizeof *tails; i++) {
		write_with_tail(*state, "tail.gz", tails[i].tail, tails[i].bytes, path);
		char *got = read_range(path, 0, UINT64_MAX);
		assert_string_equal(got, "one\n");
		assert_int_equal(has_garbage(path), tails[i].garbage);
		free(got);
	}
	weir_error err = {0};
	write_with_tail(*state, "tail.gz", "\x1f\x8b\x08", 3, path);
	assert_int_equal(read_status(path, &err), WEIR_E_CORRUPT);
	CHECK_CONTAINS(err.text, "tail.gz");
}

static void a_byte_order_mark_is_no_text(void **state)
{
	static const char *const texts[] = {"\xef\xbb\xbfone\ntwo\n", "\xef\xbb\xbf", "\xef\xbb\xbf\xef\xbb\xbfx\n", "\xef\xbb", ""};
	static const char *const expected[] = {"one\ntwo\n", "", "\xef\xbb\xbfx\n", "\xef\xbb", ""};
	char path[256], bytes[16];
	for (enum text_kind kind = TEXT_PLAIN; kind <= TEXT_ZSTD; kind++) {
		for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
			struct text *t;
			size_t n;
			weir_error err = {0};
			write_compressed(*state, "mark", kind, texts[i], strlen(texts[i]), path);
			char *got = read_range(path, 0, UINT64_MAX);
			assert_string_equal(got, expected[i]);
			CHECK_OK(text_open(&t, path, 0, UINT64_MAX, &err), err);
			CHECK_OK(text_next_bytes(t, bytes, 5, &n, &err), err);
			const size_t whole = strlen(expected[i]);
			assert_int_equal(n, whole < 5 ? whole : 5);
			assert_memory_equal(bytes, expected[i], n);
			assert_int_equal(text_mark_bytes(t), i < 3 ? 3 : 0);
			text_close(t);
			free(got);
		}
	}
	write_bytes(*state, "mark", texts[0], strlen(texts[0]), path); /* also in ranges */
	for (uint64_t cut = 1; cut < 11; cut++) {
		char *a = read_range(path, 0, cut), *b = read_range(path, cut, UINT64_MAX);
		if (strlen(a) + strlen(b) != 8 || strncmp(a, texts[0] + 3, strlen(a)) != 0)
			fail_msg("cut at %u: '%s' and '%s'", (unsigned)cut, a, b);
		free(a);
		free(b);
	}
}

static void files_that_are_no_text_are_named(void **state)
{
	static const char *const files[][2] = {{"BZh91AY&SY", "bzip2"},
	                                       {"PK\x03\x04....", "zip"},
	                                       {"\x02\x21\x4c\x18", "LZ4's legacy format"},
	                                       {"7z\xbc\xaf\x27\x1c", "7z"},
	                                       {"Obj\x01", "Avro"},
	                                       {"\x89HDF\r\n", "HDF5"},
	                                       {"\x93NUMPY", "NumPy"},
	                                       {"\x88\xd8\x34\x01\x01", "llm.c"},
	                                       {"version https://git-lfs.github.com/spec/v1\n", "use git lfs pull first"},
	                                       {"\xff\xfe"
	                                        "1",
	                                        "UTF-16"},
	                                       {"\xfd"
	                                        "7zXZ",
	                                        "xz"}};
	char path[256];
	for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
		enum text_kind kind;
		weir_error err = {0};
		write_bytes(*state, "no-text", files[i][0], strlen(files[i][0]), path);
		assert_int_equal(text_kind_of(path, &kind, &err), WEIR_E_UNSUPPORTED);
		CHECK_CONTAINS(err.text, files[i][1]);
		CHECK_CONTAINS(err.text, "no-text");
	}
}

/* A line of the maximum length, and one a byte longer, which the parsers refuse. */
static void a_long_line_is_whole(void **state)
{
	char path[256];
	for (size_t line = WEIR_LINE_BYTES_MAX; line <= WEIR_LINE_BYTES_MAX + 1; line++) {
		const size_t n = 6 + line + 5;
		char *text = malloc(n + 1), *got;
		memset(text, 'a', n);
		memcpy(text, "first\n", 6);
		memcpy(text + 6 + line, "\nend\n", 5);
		for (enum text_kind kind = TEXT_PLAIN; kind <= TEXT_ZSTD; kind++) {
			write_compressed(*state, "long", kind, text, n, path);
			got = read_range(path, 0, UINT64_MAX);
			assert_int_equal(strlen(got), n);
			assert_memory_equal(got, text, n);
			free(got);
		}
		write_compressed(*state, "long", TEXT_PLAIN, text, n, path);
		got = read_range(path, 3, 100);
		assert_int_equal(strlen(got), line + 1);
		free(got);
		got = read_range(path, 100, UINT64_MAX);
		assert_string_equal(got, "end\n");
		free(got);
		free(text);
	}
}

static void endless_line_is_an_error(void **state)
{
	size_t n = TEXT_CHUNK_BYTES + WEIR_LINE_BYTES_MAX + 4096;
	char path[256], *text = malloc(n);
	weir_error err = {0};
	memset(text, 'a', n);
	write_bytes(*state, "endless", text, n, path);
	assert_int_equal(read_status(path, &err), WEIR_E_LIMIT);
	CHECK_CONTAINS(err.text, path);
	free(text);
}

static void missing_file_is_named(void **state)
{
	(void)state;
	weir_error err = {0};
	assert_int_equal(read_status("/nonexistent/data.tsv", &err), WEIR_E_NOT_FOUND);
	CHECK_CONTAINS(err.text, "/nonexistent/data.tsv");
}

static void crc32_is_zlibs(void **state)
{
	(void)state;
	assert_int_equal(text_crc32("123456789", 9), 0xcbf43926);
	assert_int_equal(text_crc32("", 0), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(ranges_hold_every_line_once),
	    cmocka_unit_test(large_files_come_in_whole_lines),
	    cmocka_unit_test(a_line_that_no_chunk_holds_is_named),
	    cmocka_unit_test(truncated_compression_is_an_error),
	    cmocka_unit_test(gzip_members_follow_one_another),
	    cmocka_unit_test(bytes_behind_gzip_members),
	    cmocka_unit_test(a_byte_order_mark_is_no_text),
	    cmocka_unit_test(files_that_are_no_text_are_named),
	    cmocka_unit_test(a_long_line_is_whole),
	    cmocka_unit_test(endless_line_is_an_error),
	    cmocka_unit_test(missing_file_is_named),
	    cmocka_unit_test(crc32_is_zlibs),
	};
	return cmocka_run_group_tests_name("data_rows_text", tests, folder_setup, folder_teardown);
}
