/* Chunks are whole lines that make up the file, for any target size; each knows its offset. */
#include <stdio.h>
#include <stdlib.h>

#include "tests/unit/worker/data/fixture.h"

#include "common/base/prng.h"
#include "worker/data/format/chunks.h"

static struct chunk_plan aim(const char *path, void *context)
{
	return (struct chunk_plan){.bytes = *(size_t *)context, .records = strstr(path, ".json") != NULL};
}

static char *random_lines(size_t bytes, uint64_t seed)
{
	struct prng r;
	char *text = malloc(bytes + 1);
	prng_seed(&r, seed);
	for (size_t i = 0; i < bytes; i++)
		text[i] = prng_below(&r, 20) == 0 ? '\n' : (char)('a' + prng_below(&r, 26));
	return text;
}

static void pieces_make_up_the_files(void **state)
{
	const struct folder *f = *state;
	enum { FILES = 3 };
	static const size_t sizes[FILES] = {5000, 0, 3001}, aims[] = {1, 2, 100, 4999, 5000, 5001, 100000};
	char path[256], pattern[256], *texts[FILES], *patterns[] = {pattern};
	struct sources sources;
	weir_error err = {0};
	for (uint64_t k = 0; k < FILES; k++) {
		char name[16];
		texts[k] = random_lines(sizes[k], k);
		snprintf(name, sizeof name, "piece-%llu", (unsigned long long)k);
		write_compressed(f, name, k == 2 ? TEXT_GZIP : TEXT_PLAIN, texts[k], sizes[k], path);
	}
	snprintf(pattern, sizeof pattern, "%s/piece-*", f->path);
	CHECK_OK(sources_find(&sources, patterns, 1, SOURCES_BY_PATH, NULL, &err), err);
	for (size_t a = 0; a < sizeof aims / sizeof *aims; a++) {
		struct chunk_reader *r;
		struct chunk c = {0};
		size_t bytes = aims[a];
		uint64_t at[FILES] = {0}, line[FILES] = {1, 1, 1};
		CHECK_OK(chunk_reader_create(&r, &sources, aim, &bytes, 10000, &err), err);
		for (;;) {
			CHECK_OK(chunk_reader_next(r, &c, &err), err);
			if (c.size == 0)
				break;
			assert_int_equal(c.at, at[c.file]);
			assert_int_equal(c.line, line[c.file]);
			assert_memory_equal(c.data, texts[c.file] + c.at, c.size);
			at[c.file] += c.size;
			assert_true(c.data[c.size - 1] == '\n' || at[c.file] == sizes[c.file]);
			for (size_t i = 0; i < c.size; i++)
				line[c.file] += c.data[i] == '\n';
		}
		for (size_t k = 0; k < FILES; k++)
			assert_int_equal(at[k], sizes[k]);
		chunk_destroy(&c);
		chunk_reader_destroy(r);
	}
	for (size_t k = 0; k < FILES; k++)
		free(texts[k]);
	sources_destroy(&sources);
}

static void a_line_that_is_too_long_is_named(void **state)
{
	const struct folder *f = *state;
	char path[256], *patterns[] = {path};
	struct sources sources;
	struct chunk_reader *r;
	struct chunk c = {0};
	size_t bytes = 10;
	weir_error err = {0};
	write_bytes(f, "long", "short\n0123456789012345678901234567890123456789\n", 47, path);
	CHECK_OK(sources_find(&sources, patterns, 1, SOURCES_BY_PATH, NULL, &err), err);
	CHECK_OK(chunk_reader_create(&r, &sources, aim, &bytes, 30, &err), err);
	CHECK_OK(chunk_reader_next(r, &c, &err), err);
	assert_int_equal(c.size, 6);
	assert_int_equal(chunk_reader_next(r, &c, &err), WEIR_E_LIMIT);
	CHECK_CONTAINS(err.text, "long:2: a line of more than 30 bytes");
	chunk_destroy(&c);
	chunk_reader_destroy(r);
	sources_destroy(&sources);
}

/* The nonblank lines of a file, without surrounding blanks. */
static char *lines_of(const char *path, size_t bytes)
{
	char *patterns[] = {(char *)(uintptr_t)path}, *all;
	struct sources sources;
	struct chunk_reader *r;
	struct chunk c = {0};
	size_t size;
	weir_error err = {0};
	FILE *out = open_memstream(&all, &size);
	CHECK_OK(sources_find(&sources, patterns, 1, SOURCES_BY_PATH, NULL, &err), err);
	CHECK_OK(chunk_reader_create(&r, &sources, aim, &bytes, 10000, &err), err);
	do {
		CHECK_OK(chunk_reader_next(r, &c, &err), err);
		for (size_t i = 0; i < c.size; i++)
			if (c.data[i] != ' ' && c.data[i] != '\t')
				fputc(c.data[i], out);
	} while (c.size > 0);
	fclose(out);
	chunk_reader_destroy(r);
	chunk_destroy(&c);
	sources_destroy(&sources);
	return all;
}

static void an_array_of_records_is_lines(void **state)
{
	static const struct {
		const char *text, *lines;
	} cases[] = {{"[{\"a\": 1}, {\"b\": [1, {\"c\": 2}]}]\n", "{\"a\":1}\n{\"b\":[1,{\"c\":2}]}\n\n"},
	             {"\xef\xbb\xbf \n[\n  {\n \"a\": \"x],\\\"[\" \r\n},\n\"y\"\n]", "\n{\"a\":\"x],\\\"[\"}\n\"y\"\n"},
	             {"[{\"a\": \"\\\\\"}, 3]", "{\"a\":\"\\\\\"}\n3\n"},
	             {"[[1, 2], 3", "[1,2]\n3"}, /* unclosed: the elements so far */
	             {"[]", "\n"},
	             {"[1]]}[2,3]", "1\n\n}2\n3\n"}, /* no array: only brackets are lost */
	             {"{\"a\": 1},\n[{}]\n", "{\"a\":1},\n[{}]\n"}};
	char path[256];
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		for (size_t bytes = 8; bytes < 64; bytes *= 2) {
			write_bytes(*state, "array.json", cases[i].text, strlen(cases[i].text), path);
			char *lines = lines_of(path, bytes);
			assert_string_equal(lines, cases[i].lines);
			free(lines);
		}
	}
	write_bytes(*state, "array.txt", cases[0].text, strlen(cases[0].text), path);
	char *lines = lines_of(path, 64);
	assert_string_equal(lines, "[{\"a\":1},{\"b\":[1,{\"c\":2}]}]\n");
	free(lines);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(pieces_make_up_the_files), cmocka_unit_test(an_array_of_records_is_lines),
	                                   cmocka_unit_test(a_line_that_is_too_long_is_named)};
	return cmocka_run_group_tests_name("data_chunks", tests, folder_setup, folder_teardown);
}
