/* Token files: round trips, detection of damage, golden bytes. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/unit/worker/data/fixture.h"

#include "common/base/prng.h"
#include "common/system/disk.h"
#include "worker/data/tokens/token_file.h"

struct example {
	struct token_file_info info;
	uint64_t documents;
	uint64_t *ends;
	uint32_t *ids;
	uint8_t *counts;
};

/* masked: some tokens do not count; an even seed masks only later documents. */
static struct example example_of(uint32_t vocabulary, uint64_t documents, uint64_t longest, bool masked, uint64_t seed)
{
	struct prng r;
	struct example e = {.info = {.vocabulary = vocabulary, .eos = 1, .identity = 77}, .documents = documents};
	uint64_t n = 0;
	prng_seed(&r, seed);
	e.ends = malloc((documents + 1) * sizeof *e.ends);
	for (uint64_t d = 0; d < documents; d++)
		e.ends[d] = n += 1 + prng_below(&r, longest);
	e.ids = malloc((n + 1) * sizeof *e.ids);
	e.counts = malloc(n + 1);
	for (uint64_t i = 0; i < n; i++) {
		e.ids[i] = (uint32_t)prng_below(&r, vocabulary);
		e.counts[i] = !masked || documents < 3 || (seed % 2 == 0 && i < e.ends[2]) || prng_below(&r, 3) == 0;
	}
	for (int i = 0; i < 16; i++)
		e.info.fingerprint[i] = (uint8_t)prng_u64(&r);
	return e;
}

static void example_free(struct example *e)
{
	free(e->ends);
	free(e->ids);
	free(e->counts);
}

static struct token_file_info write_example(const struct example *e, const char *path)
{
	struct token_writer *w;
	struct token_file_info info;
	weir_error err = {0};
	CHECK_OK(token_writer_open(&w, path, &e->info, &err), err);
	for (uint64_t d = 0, first = 0; d < e->documents; first = e->ends[d++]) {
		bool all = true;
		for (uint64_t i = first; i < e->ends[d]; i++)
			all &= e->counts[i];
		CHECK_OK(token_writer_add(w, e->ids + first, all && d % 2 == 0 ? NULL : e->counts + first, e->ends[d] - first, &err),
		         err);
	}
	CHECK_OK(token_writer_commit(w, 3, 5, &info, &err), err);
	return info;
}

static void expect_example(const struct example *e, const char *path, struct prng *r)
{
	struct token_file *f;
	weir_error err = {0};
	CHECK_OK(token_file_open(&f, path, &err), err);
	const struct token_file_info *info = token_file_get_info(f);
	const uint64_t tokens = e->documents == 0 ? 0 : e->ends[e->documents - 1];
	uint64_t counted = 0;
	for (uint64_t i = 0; i < tokens; i++)
		counted += e->counts[i];
	assert_true(info->documents == e->documents && info->tokens == tokens && info->counted == counted);
	assert_true(info->bad_records == 3 && info->replaced == 5 && info->identity == 77 && info->eos == 1);
	assert_int_equal(info->masked, counted < tokens);
	assert_memory_equal(info->fingerprint, e->info.fingerprint, 16);
	for (uint64_t d = 0; d < e->documents; d++)
		assert_int_equal(token_file_end(f, d), e->ends[d]);
	uint32_t *ids = malloc((tokens + 1) * sizeof *ids);
	uint8_t *counts = malloc(tokens + 1);
	for (int i = 0; i < 20; i++) {
		const uint64_t first = i == 0 ? 0 : prng_below(r, tokens + 1),
		               count = i == 0 ? tokens : prng_below(r, tokens - first + 1);
		CHECK_OK(token_file_read(f, first, count, ids, i % 3 == 2 ? NULL : counts, &err), err);
		assert_memory_equal(ids, e->ids + first, count * sizeof *ids);
		if (i % 3 != 2)
			assert_memory_equal(counts, e->counts + first, count);
	}
	free(ids);
	free(counts);
	token_file_close(f);
}

static void written_files_are_read_back(void **state)
{
	char path[256];
	struct prng r;
	prng_seed(&r, 5);
	snprintf(path, sizeof path, "%s/tokens.bin", ((const struct folder *)*state)->path);
	static const struct {
		uint32_t vocabulary;
		uint64_t documents, longest;
		bool masked;
	} cases[] = {{256, 0, 1, false},     {256, 1, 1, false},        {65536, 50, 30, false},
	             {65537, 50, 30, false}, {300, 50, 30, true},       {128256, 50, 31, true},
	             {9, 9, 8, true},        {50257, 3000, 1000, true}, {200000, 2000, 1000, false}};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct example e = example_of(cases[i].vocabulary, cases[i].documents, cases[i].longest, cases[i].masked, i);
		const struct token_file_info info = write_example(&e, path);
		assert_int_equal(info.documents, e.documents);
		assert_true(token_file_begins(path));
		expect_example(&e, path, &r);
		example_free(&e);
	}
	assert_int_equal(access(strcat(path, ".tmp"), F_OK), -1);
}

/* Reads everything; returns the first failure. */
static weir_status read_whole(const char *path, weir_error *err)
{
	struct token_file *f;
	weir_status status = token_file_open(&f, path, err);
	if (status != WEIR_OK)
		return status;
	const uint64_t tokens = token_file_get_info(f)->tokens;
	uint32_t *ids = malloc((tokens + 1) * sizeof *ids);
	uint8_t *counts = malloc(tokens + 1);
	status = token_file_read(f, 0, tokens, ids, counts, err);
	free(ids);
	free(counts);
	token_file_close(f);
	return status;
}

static void every_damage_is_told(void **state)
{
	const struct folder *folder = *state;
	char path[256], *bytes;
	size_t size;
	weir_error err = {0};
	snprintf(path, sizeof path, "%s/damaged.bin", folder->path);
	struct example e = example_of(300, 20, 9, true, 3);
	write_example(&e, path);
	CHECK_OK(disk_read_file(disk_system(), path, 1 << 20, &bytes, &size, &err), err);
	for (size_t i = 0; i < size; i++) {
		bytes[i] ^= 0x10;
		write_bytes(folder, "damaged.bin", bytes, size, path);
		bytes[i] ^= 0x10;
		const weir_status status = read_whole(path, &err);
		if (status != WEIR_E_CORRUPT && status != WEIR_E_VERSION)
			fail_msg("byte %zu of %zu damaged: %s", i, size, weir_status_name(status));
		CHECK_CONTAINS(err.text, "damaged.bin");
	}
	for (size_t n = 0; n < size; n++) {
		write_bytes(folder, "damaged.bin", bytes, n, path);
		assert_int_equal(read_whole(path, &err), WEIR_E_CORRUPT);
	}
	assert_int_equal(read_whole("/nowhere/tokens.bin", &err), WEIR_E_NOT_FOUND);
	assert_false(token_file_begins("/nowhere/tokens.bin"));
	write_bytes(folder, "damaged.bin", bytes, size, path);
	CHECK_OK(read_whole(path, &err), err);
	free(bytes);
	example_free(&e);
}

static void a_file_that_cannot_be_made_is_named(void **state)
{
	(void)state;
	struct token_writer *w;
	weir_error err = {0};
	assert_int_equal(token_writer_open(&w, "/nowhere/tokens.bin", &(struct token_file_info){.vocabulary = 2}, &err), WEIR_E_IO);
	CHECK_CONTAINS(err.text, "/nowhere/tokens.bin");
	token_writer_abandon(NULL);
}

/* Hexadecimal text, sixteen bytes a line. */
static char *hex_of(const uint8_t *bytes, size_t n)
{
	char *out = malloc(n * 3 + 1), *at = out;
	*out = 0;
	for (size_t i = 0; i < n; i++)
		at += sprintf(at, "%02x%c", bytes[i], i % 16 == 15 || i + 1 == n ? '\n' : ' ');
	return out;
}

/* WEIR_GOLDEN_WRITE=1 rewrites the golden file. Use it only for a deliberate change of the
 * format. */
static void the_bytes_are_the_golden_ones(void **state)
{
	static const char golden_path[] = GOLDEN_DIR "/token_file.hex";
	static const uint32_t ids[] = {1, 2, 3, 0, 4, 299, 0};
	static const uint8_t counts[] = {0, 1, 1};
	char path[256], *bytes, *golden;
	size_t size, golden_size;
	struct token_writer *w;
	struct token_file_info info = {
	    .fingerprint = "a fingerprint...", .vocabulary = 300, .eos = 0, .identity = 0x1122334455667788};
	weir_error err = {0};
	snprintf(path, sizeof path, "%s/golden.bin", ((const struct folder *)*state)->path);
	CHECK_OK(token_writer_open(&w, path, &info, &err), err);
	CHECK_OK(token_writer_add(w, ids, NULL, 4, &err), err);
	CHECK_OK(token_writer_add(w, ids + 4, counts, 3, &err), err);
	CHECK_OK(token_writer_commit(w, 1, 2, &info, &err), err);
	CHECK_OK(disk_read_file(disk_system(), path, 1 << 20, &bytes, &size, &err), err);
	char *hex = hex_of((const uint8_t *)bytes, size);
	if (getenv("WEIR_GOLDEN_WRITE"))
		CHECK_OK(disk_write_file(disk_system(), golden_path, hex, strlen(hex), &err), err);
	CHECK_OK(disk_read_file(disk_system(), golden_path, 1 << 20, &golden, &golden_size, &err), err);
	assert_string_equal(hex, golden);
	free(golden);
	free(bytes);
	free(hex);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(written_files_are_read_back), cmocka_unit_test(every_damage_is_told),
	                                   cmocka_unit_test(a_file_that_cannot_be_made_is_named),
	                                   cmocka_unit_test(the_bytes_are_the_golden_ones)};
	return cmocka_run_group_tests_name("data_token_file", tests, folder_setup, folder_teardown);
}
