/* Text as examples: the ends of contexts, the parts' examples, and orders that are repeatable and
 * complete. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/prng.h"
#include "tests/unit/worker/data/fixture.h"
#include "worker/data/tokens/corpus.h"

enum { CONTEXT = 5, BLOCKS = 40, BYTES = BLOCKS * CORPUS_BLOCK_BYTES - 1000 };

/* No two of its positions have equal contexts. */
static char *random_text(size_t bytes)
{
	char *text = malloc(bytes);
	struct prng r;
	prng_seed(&r, 23);
	for (size_t i = 0; i < bytes; i++)
		text[i] = (char)prng_below(&r, 256);
	return text;
}

static struct job *text_job(const struct folder *f, const char *pattern, bool split)
{
	struct job *job = job_of(f, DATA_TEXT, pattern);
	job->data.context = CONTEXT;
	job->data.batch = 64;
	if (split) {
		job->data.split.by = SPLIT_CRC32;
		job->data.split.train = 8;
		job->data.split.valid = job->data.split.test = 1;
	}
	return job;
}

/* Context and target of each example, CONTEXT + 1 bytes, in order of units and batches; *count
 * examples. */
static uint8_t *all_examples(struct dataset *d, uint64_t order_seed, size_t *count)
{
	const struct dataset_info *info = dataset_get_info(d);
	uint8_t *out = malloc((info->rows + 1) * (CONTEXT + 1)), *at = out;
	struct batch b = {0};
	weir_error err = {0};
	*count = 0;
	for (uint32_t u = 0; u < info->units; u++) {
		struct unit_reader *reader;
		CHECK_OK(unit_open(&reader, d, u, order_seed == 0 ? 0 : order_seed + u, &err), err);
		for (uint32_t i = 0; i < unit_batches(reader); i++) {
			CHECK_OK(unit_read(reader, i, &b, &err), err);
			assert_true(b.context == CONTEXT && b.rows > 0 && *count + b.rows <= info->rows);
			for (uint32_t r = 0; r < b.rows; r++) {
				for (uint32_t k = 0; k < CONTEXT; k++)
					*at++ = (uint8_t)b.tokens[r * CONTEXT + k];
				*at++ = (uint8_t)b.targets[r];
			}
			*count += b.rows;
		}
		unit_close(reader);
	}
	batch_destroy(&b);
	return out;
}

/* A part of the text by definition: an example for every CONTEXT + 1 bytes whose blocks are
 * adjacent and all in the part. */
static uint8_t *expected_examples(const char *text, enum split_part part, size_t *count)
{
	uint8_t *out = malloc((size_t)BYTES * (CONTEXT + 1)), *at = out;
	enum split_part of[BLOCKS];
	for (size_t b = 0; b < BLOCKS; b++) {
		const size_t first = b * CORPUS_BLOCK_BYTES,
		             bytes = BYTES - first < CORPUS_BLOCK_BYTES ? BYTES - first : CORPUS_BLOCK_BYTES;
		const uint32_t place = text_crc32(text + first, bytes) % 10;
		of[b] = place < 8 ? SPLIT_TRAIN : place == 8 ? SPLIT_VALID : SPLIT_TEST;
	}
	for (size_t p = 0; p + CONTEXT < BYTES; p++) {
		if (of[p / CORPUS_BLOCK_BYTES] != part || of[(p + CONTEXT) / CORPUS_BLOCK_BYTES] != part)
			continue;
		memcpy(at, text + p, CONTEXT + 1);
		at += CONTEXT + 1;
	}
	*count = (size_t)(at - out) / (CONTEXT + 1);
	return out;
}

static void parts_are_what_crc32_says_and_no_context_leaves_its_own(void **state)
{
	char path[256], *text = random_text(BYTES);
	write_bytes(*state, "all.txt", text, BYTES, path);
	struct job *job = text_job(*state, path, true);
	size_t all = 0;
	for (enum split_part part = SPLIT_TRAIN; part <= SPLIT_TEST; part++) {
		size_t wanted, count;
		uint8_t *expected = expected_examples(text, part, &wanted);
		struct dataset *d = open_part(job, part);
		uint8_t *got = all_examples(d, 0, &count);
		assert_true(wanted > CORPUS_BLOCK_BYTES);
		assert_int_equal(dataset_get_info(d)->rows, wanted);
		assert_int_equal(count, wanted);
		assert_memory_equal(got, expected, wanted * (CONTEXT + 1));
		all += wanted;
		dataset_close(d);
		free(got);
		free(expected);
	}
	assert_true(all < BYTES - CONTEXT); /* an example across parts is in none */
	job_of_free(job);
	free(text);
}

static void every_container_gives_the_same_examples(void **state)
{
	char path[256], *text = random_text(BYTES);
	static const char *const names[] = {"same.txt", "same.gz", "same.lz4", "same.zst"};
	uint8_t *first = NULL;
	for (enum text_kind kind = TEXT_PLAIN; kind <= TEXT_ZSTD; kind++) {
		write_compressed(*state, names[kind], kind, text, BYTES, path);
		struct job *job = text_job(*state, path, false);
		struct dataset *d = open_part(job, SPLIT_TRAIN);
		size_t count;
		uint8_t *got = all_examples(d, 0, &count);
		assert_int_equal(count, BYTES - CONTEXT);
		for (size_t i = 0; kind == TEXT_PLAIN && i < count; i++)
			assert_memory_equal(got + i * (CONTEXT + 1), text + i, CONTEXT + 1);
		if (first == NULL)
			first = got;
		else
			assert_memory_equal(got, first, count * (CONTEXT + 1));
		if (got != first)
			free(got);
		dataset_close(d);
		job_of_free(job);
	}
	free(first);
	free(text);
}

static void files_are_apart(void **state)
{
	char path[256], pattern[256];
	write_bytes(*state, "apart-1.txt", "abcdefg", 7, path);
	write_bytes(*state, "apart-2.txt", "short", 5, path); /* no example */
	write_bytes(*state, "apart-3.txt", "ABCDEF", 6, path);
	snprintf(pattern, sizeof pattern, "%s/apart-*.txt", ((const struct folder *)*state)->path);
	struct job *job = text_job(*state, pattern, false);
	struct dataset *d = open_part(job, SPLIT_TRAIN);
	size_t count;
	uint8_t *got = all_examples(d, 0, &count);
	assert_int_equal(count, 3);
	assert_memory_equal(got, "abcdefbcdefgABCDEF", 18);
	free(got);
	dataset_close(d);
	job_of_free(job);
}

static int by_bytes(const void *a, const void *b)
{
	return memcmp(a, b, CONTEXT + 1);
}

static void a_shuffle_repeats_and_visits_every_example_once(void **state)
{
	char path[256], *text = random_text(BYTES);
	write_bytes(*state, "shuffled.txt", text, BYTES, path);
	struct job *job = text_job(*state, path, false);
	struct dataset *d = open_part(job, SPLIT_TRAIN);
	size_t count, bytes = (size_t)(BYTES - CONTEXT) * (CONTEXT + 1);
	uint8_t *plain = all_examples(d, 0, &count), *once = all_examples(d, 7, &count), *again = all_examples(d, 7, &count);
	uint8_t *other = all_examples(d, 8, &count);
	assert_memory_equal(once, again, bytes);
	assert_memory_not_equal(once, other, bytes);
	qsort(plain, count, CONTEXT + 1, by_bytes);
	qsort(once, count, CONTEXT + 1, by_bytes);
	assert_memory_equal(once, plain, bytes);
	free(plain);
	free(once);
	free(again);
	free(other);
	dataset_close(d);
	job_of_free(job);
	free(text);
}

/* Units have exact sizes. A shuffled one has about equally many examples of each tenth of the
 * text. */
static void a_shuffled_unit_is_from_the_whole_text(void **state)
{
	char path[256], *text = random_text(BYTES);
	write_bytes(*state, "spread.txt", text, BYTES, path);
	struct sources sources;
	struct corpus *c;
	weir_error err = {0};
	char *patterns[] = {path};
	CHECK_OK(sources_find(&sources, patterns, 1, SOURCES_BY_PATH, NULL, &err), err);
	CHECK_OK(corpus_open(&c, &sources, CONTEXT, &(struct split){0}, SPLIT_TRAIN, &err), err);
	const uint64_t examples = corpus_examples(c), unit = 1000;
	for (uint64_t first = 0; first + unit <= examples; first += unit) {
		uint32_t tenths[10] = {0};
		for (uint64_t i = first; i < first + unit; i++)
			tenths[corpus_spread(c, i) * 10 / examples]++;
		for (int t = 0; t < 10; t++)
			if (tenths[t] < 95 || tenths[t] > 105)
				fail_msg("unit at %llu: %u of 1000 in tenth %d", (unsigned long long)first, tenths[t], t);
	}
	corpus_close(c);
	sources_destroy(&sources);
	struct job *job = text_job(*state, path, false);
	struct dataset *d = open_part(job, SPLIT_TRAIN);
	const uint64_t unit_rows = 64 * 4;
	assert_int_equal(dataset_get_info(d)->units, (examples + unit_rows - 1) / unit_rows);
	struct unit_reader *reader;
	CHECK_OK(unit_open(&reader, d, 3, 1, &err), err);
	assert_int_equal(unit_batches(reader), 4);
	unit_close(reader);
	dataset_close(d);
	job_of_free(job);
	free(text);
}

/* The step must be coprime to any number of examples. */
static void any_number_of_examples_is_visited(void **state)
{
	char path[256];
	weir_error err = {0};
	for (size_t examples = 1; examples < 70; examples++) {
		char *text = random_text(examples + CONTEXT), *patterns[] = {path};
		bool seen[70] = {0};
		struct sources sources;
		struct corpus *c;
		write_bytes(*state, "few.txt", text, examples + CONTEXT, path);
		CHECK_OK(sources_find(&sources, patterns, 1, SOURCES_BY_PATH, NULL, &err), err);
		CHECK_OK(corpus_open(&c, &sources, CONTEXT, &(struct split){0}, SPLIT_TRAIN, &err), err);
		assert_int_equal(corpus_examples(c), examples);
		for (uint64_t i = 0; i < examples; i++) {
			assert_false(seen[corpus_spread(c, i)]);
			seen[corpus_spread(c, i)] = true;
		}
		corpus_close(c);
		sources_destroy(&sources);
		free(text);
	}
}

static void expect_none(const struct job *job, enum split_part part, const char *says)
{
	struct dataset *d = NULL;
	weir_error err = {0};
	assert_int_equal(dataset_open(&d, job, part, NULL, &err), WEIR_E_INVALID);
	CHECK_CONTAINS(err.text, says);
}

static void parts_without_an_example_are_refused(void **state)
{
	char path[256];
	write_bytes(*state, "tiny.txt", "12345", 5, path);
	struct job *job = text_job(*state, path, false);
	expect_none(job, SPLIT_TRAIN, "the train part has no text longer than data.context: 5 bytes");
	job_of_free(job);
	char *text = random_text(CORPUS_BLOCK_BYTES);
	write_bytes(*state, "block.txt", text, CORPUS_BLOCK_BYTES, path);
	job = text_job(*state, path, true);
	struct split split = split_of(8, 1, 1);
	const enum split_part has = split_line(&split, text, CORPUS_BLOCK_BYTES);
	expect_none(job, has == SPLIT_TEST ? SPLIT_VALID : SPLIT_TEST, "data.split cuts it in blocks of 4096 bytes");
	job_of_free(job);
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(parts_are_what_crc32_says_and_no_context_leaves_its_own),
	    cmocka_unit_test(every_container_gives_the_same_examples),
	    cmocka_unit_test(files_are_apart),
	    cmocka_unit_test(a_shuffle_repeats_and_visits_every_example_once),
	    cmocka_unit_test(a_shuffled_unit_is_from_the_whole_text),
	    cmocka_unit_test(any_number_of_examples_is_visited),
	    cmocka_unit_test(parts_without_an_example_are_refused),
	};
	return cmocka_run_group_tests_name("data_corpus", tests, folder_setup, folder_teardown);
}
