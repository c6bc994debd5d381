/* Sequences of token files against their definition, and as the dataset of a job. */
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "tests/unit/worker/data/fixture.h"

#include "common/base/little_endian.h"
#include "common/base/prng.h"
#include "kernels/backend.h"
#include "worker/data/tokens/sequences.h"
#include "worker/data/tokens/token_file.h"
#include "worker/tokenizer/tokenizer.h"

enum { FILES = 3, VOCABULARY = 70000 };

/* The files' contents, in memory. */
struct files {
	char paths[FILES][256];
	struct token_file *opened[FILES];
	uint64_t documents[FILES];
	uint64_t *ends[FILES];
	uint32_t *ids[FILES];
	uint8_t *counts[FILES];
};

/* Documents of one token and more, some of them longer than several blocks. */
static void make_files(struct files *f, const struct folder *folder, bool masked)
{
	struct prng r;
	prng_seed(&r, 31);
	for (int k = 0; k < FILES; k++) {
		struct token_writer *w;
		struct token_file_info info = {.fingerprint = "the same for all", .vocabulary = VOCABULARY, .eos = 0};
		weir_error err = {0};
		uint64_t n = 0;
		f->documents[k] = k == 1 ? 1 : 60;
		f->ends[k] = calloc(f->documents[k], sizeof *f->ends[k]);
		for (uint64_t d = 0; d < f->documents[k]; d++)
			f->ends[k][d] = n += d % 20 == 3 ? 30000 : d % 7 == 0 ? 1 : 1 + prng_below(&r, 700);
		f->ids[k] = malloc(n * sizeof *f->ids[k]);
		f->counts[k] = malloc(n);
		for (uint64_t i = 0; i < n; i++) {
			f->ids[k][i] = (uint32_t)prng_below(&r, VOCABULARY);
			f->counts[k][i] = !masked || prng_below(&r, 4) > 0;
		}
		snprintf(f->paths[k], sizeof f->paths[k], "%s/part-%d%d.bin", folder->path, masked, k);
		CHECK_OK(token_writer_open(&w, f->paths[k], &info, &err), err);
		for (uint64_t d = 0, first = 0; d < f->documents[k]; first = f->ends[k][d++])
			CHECK_OK(token_writer_add(w, f->ids[k] + first, f->counts[k] + first, f->ends[k][d] - first, &err), err);
		CHECK_OK(token_writer_commit(w, 0, 0, &info, &err), err);
		CHECK_OK(token_file_open(&f->opened[k], f->paths[k], &err), err);
	}
}

static void free_files(struct files *f)
{
	for (int k = 0; k < FILES; k++) {
		token_file_close(f->opened[k]);
		free(f->ends[k]);
		free(f->ids[k]);
		free(f->counts[k]);
	}
}

/* A part by definition: all its tokens concatenated, and the starts of stretches when documents are
 * separate. */
struct part {
	uint32_t *ids;
	uint8_t *counts;
	bool *begins;
	uint64_t size;
};

static bool block_is_of(const struct files *f, int file, uint64_t at, uint64_t count, const struct split *split,
                        enum split_part part)
{
	uint8_t words[4 * SEQUENCE_BLOCK_TOKENS];
	for (uint64_t i = 0; i < count; i++)
		put32(words + 4 * i, f->ids[file][at + i]);
	return split_line(split, (const char *)words, 4 * count) == part;
}

static struct part part_of(const struct files *f, const struct split *split, enum split_part part)
{
	struct part p = {0};
	uint64_t all = 0;
	for (int k = 0; k < FILES; k++)
		all += f->ends[k][f->documents[k] - 1];
	p.ids = malloc(all * sizeof *p.ids);
	p.counts = malloc(all);
	p.begins = calloc(all, sizeof *p.begins);
	for (int k = 0; k < FILES; k++) {
		for (uint64_t d = 0, begin = 0; d < f->documents[k]; begin = f->ends[k][d++]) {
			bool before = false;
			const uint64_t end = f->ends[k][d];
			for (uint64_t at = begin; at < end; at += SEQUENCE_BLOCK_TOKENS) {
				const uint64_t n = end - at < SEQUENCE_BLOCK_TOKENS ? end - at : SEQUENCE_BLOCK_TOKENS;
				const bool has = !split->on || block_is_of(f, k, at, n, split, part);
				for (uint64_t i = 0; has && i < n; i++) {
					p.begins[p.size] = i == 0 && !before;
					p.counts[p.size] = f->counts[k][at + i];
					p.ids[p.size++] = f->ids[k][at + i];
				}
				before = has;
			}
		}
	}
	return p;
}

static void part_free(struct part *p)
{
	free(p->ids);
	free(p->counts);
	free(p->begins);
}

/* Asserts that sequence i has the tokens from `begin` on, within `end`. */
static void expect_sequence(const struct sequences *s, uint64_t i, const struct part *p, uint64_t begin, uint64_t end,
                            uint32_t length)
{
	uint32_t *tokens = malloc(length * sizeof *tokens), *targets = malloc(length * sizeof *targets);
	uint64_t counted = 0, wanted_counted = 0;
	weir_error err = {0};
	CHECK_OK(sequences_read(s, i, tokens, targets, &counted, &err), err);
	for (uint64_t k = 0; k < length; k++) {
		const uint64_t at = begin + k;
		const uint32_t token = at < end ? p->ids[at] : 0;
		const uint32_t target = at + 1 < end && p->counts[at + 1] ? p->ids[at + 1] : TARGET_NONE;
		wanted_counted += target != TARGET_NONE;
		if (tokens[k] != token || targets[k] != target)
			fail_msg("sequence %llu, token %llu: %u to %u, expected %u to %u", (unsigned long long)i, (unsigned long long)k,
			         tokens[k], targets[k], token, target);
	}
	assert_int_equal(counted, wanted_counted);
	free(tokens);
	free(targets);
}

static void check(const struct files *f, const struct split *split, enum split_part part, uint32_t length, bool apart)
{
	struct part p = part_of(f, split, part);
	struct sequences *s;
	weir_error err = {0};
	const struct sequences_options o = {
	    .files = f->opened, .files_count = FILES, .length = length, .apart = apart, .split = *split, .part = part};
	CHECK_OK(sequences_open(&s, &o, &err), err);
	uint64_t i = 0;
	for (uint64_t begin = 0, end; begin < p.size; begin = end) {
		for (end = begin + 1; end < p.size && !(apart && p.begins[end]);)
			end++;
		for (uint64_t at = begin; at + 1 < end; at += length)
			expect_sequence(s, i++, &p, at, end, length);
	}
	assert_int_equal(sequences_count(s), i);
	assert_true(i > 3);
	sequences_close(s);
	part_free(&p);
}

static void they_are_what_they_are_defined_to_be(void **state)
{
	static const uint32_t lengths[] = {1, 7, 256, 4095, 4096, 40000};
	for (int masked = 0; masked < 2; masked++) {
		struct files f;
		const struct split none = {0}, split = split_of(8, 1, 1);
		make_files(&f, *state, masked);
		for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
			for (int apart = 0; apart < 2; apart++) {
				if (lengths[i] == 1 && masked)
					continue;
				check(&f, &none, SPLIT_TRAIN, lengths[i], apart);
				check(&f, &split, SPLIT_TRAIN, lengths[i], apart);
				if (lengths[i] <= 256) {
					check(&f, &split, SPLIT_VALID, lengths[i], apart);
					check(&f, &split, SPLIT_TEST, lengths[i], apart);
				}
			}
		}
		free_files(&f);
	}
}

static void every_token_is_of_one_part(void **state)
{
	struct files f;
	const struct split split = split_of(8, 1, 1);
	uint64_t all = 0, parts = 0;
	make_files(&f, *state, false);
	for (enum split_part part = SPLIT_TRAIN; part <= SPLIT_TEST; part++) {
		struct part p = part_of(&f, &split, part);
		assert_true(p.size > 3 * SEQUENCE_BLOCK_TOKENS);
		parts += p.size;
		part_free(&p);
	}
	for (int k = 0; k < FILES; k++)
		all += f.ends[k][f.documents[k] - 1];
	assert_int_equal(parts, all);
	free_files(&f);
}

/* --- As the dataset of a job */

static struct job *tokens_job(const struct folder *f, const char *pattern)
{
	struct job *job = job_of(f, DATA_TOKENS, pattern);
	job->data.sequence = 100;
	return job;
}

/* The tokens and targets of every sequence, in order of units and batches; *count sequences. */
static uint32_t *all_sequences(struct dataset *d, uint64_t order_seed, size_t *count)
{
	const struct dataset_info *info = dataset_get_info(d);
	const size_t each = (size_t)info->sequence * sizeof(uint32_t);
	uint32_t *out = malloc((info->rows + 1) * 2 * each), *at = out;
	struct batch b = {0};
	weir_error err = {0};
	for (uint32_t u = 0; u < info->units; u++) {
		struct unit_reader *reader;
		CHECK_OK(unit_open(&reader, d, u, order_seed == 0 ? 0 : order_seed + u, &err), err);
		for (uint32_t i = 0; i < unit_batches(reader); i++) {
			CHECK_OK(unit_read(reader, i, &b, &err), err);
			uint64_t counted = 0;
			assert_true(b.sequence == info->sequence && b.context == 0 && b.rows > 0);
			for (uint32_t r = 0; r < b.rows; r++) {
				memcpy(at, b.tokens + (size_t)r * info->sequence, each);
				memcpy(at + info->sequence, b.targets + (size_t)r * info->sequence, each);
				for (uint32_t k = 0; k < info->sequence; k++)
					counted += at[info->sequence + k] != TARGET_NONE;
				at += 2 * info->sequence;
			}
			assert_int_equal(b.counted, counted);
		}
		unit_close(reader);
	}
	batch_destroy(&b);
	*count = (size_t)(at - out) / (2 * info->sequence);
	return out;
}

enum { SEQUENCE_BYTES = 2 * 100 * sizeof(uint32_t) };

static int by_bytes(const void *a, const void *b)
{
	return memcmp(a, b, SEQUENCE_BYTES);
}

static void a_shuffle_repeats_and_visits_every_sequence_once(void **state)
{
	const struct folder *f = *state;
	char pattern[256];
	struct files files;
	make_files(&files, f, true);
	snprintf(pattern, sizeof pattern, "%s/part-1?.bin", f->path);
	struct job *job = tokens_job(f, pattern);
	struct dataset *d = open_part(job, SPLIT_TRAIN);
	const struct dataset_info *info = dataset_get_info(d);
	size_t count;
	uint32_t *plain = all_sequences(d, 0, &count), *once = all_sequences(d, 7, &count), *again = all_sequences(d, 7, &count);
	uint32_t *other = all_sequences(d, 8, &count);
	assert_int_equal(count, info->rows);
	assert_int_equal(info->units, (info->rows + 31) / 32); /* 4 batches of 8 */
	assert_int_equal(info->vocabulary, VOCABULARY);
	assert_memory_equal(info->tokenizer, "the same for all", 16);
	assert_memory_equal(once, again, count * SEQUENCE_BYTES);
	assert_memory_not_equal(once, other, count * SEQUENCE_BYTES);
	qsort(plain, count, SEQUENCE_BYTES, by_bytes);
	qsort(once, count, SEQUENCE_BYTES, by_bytes);
	assert_memory_equal(once, plain, count * SEQUENCE_BYTES);
	free(plain);
	free(once);
	free(again);
	free(other);
	const uint64_t fingerprint = info->fingerprint;
	dataset_close(d);
	job->data.sequence = 99;
	d = open_part(job, SPLIT_TRAIN);
	assert_true(dataset_get_info(d)->fingerprint != fingerprint);
	dataset_close(d);
	job_of_free(job);
	free_files(&files);
}

/* A job's text files become a token file in its cache, once until they change. */
static void texts_are_tokenized_into_the_cache(void **state)
{
	const struct folder *f = *state;
	static const char lines[] = "{\"prompt\": \"ab\", \"completion\": \"cd\"}\n{\"bad\": 1}\n{\"text\": \"efg\"}\n";
	char path[256], pattern[256];
	struct stat first, second;
	size_t count;
	write_bytes(f, "cached.jsonl", lines, sizeof lines - 1, path);
	struct job *job = tokens_job(f, path);
	strcpy(job->data.tokenizer, "bytes");
	snprintf(job->data.cache, sizeof job->data.cache, "%s/tokens-cache", f->path);
	snprintf(pattern, sizeof pattern, "%s/tokens-cache/*.tokens", f->path);
	job->data.sequence = 4;
	job->data.bad_lines_max = 1;
	for (int round = 0; round < 2; round++) {
		struct dataset *d = open_part(job, SPLIT_TRAIN);
		uint32_t *got = all_sequences(d, 0, &count);
		static const uint32_t wanted[] = {'a', 'b', 'c', 'd', TARGET_NONE, 'c', 'd',         'e',
		                                  'e', 'f', 'g', 0,   'f',         'g', TARGET_NONE, TARGET_NONE};
		assert_int_equal(count, 2);
		assert_memory_equal(got, wanted, sizeof wanted);
		assert_true(dataset_get_info(d)->bad_lines == 1 && dataset_get_info(d)->vocabulary == 256);
		free(got);
		dataset_close(d);
		glob_t found;
		assert_int_equal(glob(pattern, 0, NULL, &found), 0);
		assert_int_equal(found.gl_pathc, 1);
		assert_int_equal(stat(found.gl_pathv[0], round == 0 ? &first : &second), 0);
		globfree(&found);
	}
	assert_int_equal(first.st_ino, second.st_ino);
	/* Another file of the same size and modification time. */
	char other[sizeof lines];
	memcpy(other, lines, sizeof lines);
	*strstr(other, "efg") = 'x';
	struct stat now;
	assert_int_equal(stat(path, &now), 0);
	write_bytes(f, "cached.jsonl", other, sizeof other - 1, path);
	assert_int_equal(utimensat(AT_FDCWD, path, (const struct timespec[]){now.st_atim, now.st_mtim}, 0), 0);
	struct dataset *changed = open_part(job, SPLIT_TRAIN);
	uint32_t *anew = all_sequences(changed, 0, &count);
	assert_int_equal(anew[8], 'x');
	free(anew);
	dataset_close(changed);
	write_bytes(f, "cached.jsonl", lines, sizeof lines - 1, path);
	job->data.packing = PACKING_APART;
	struct dataset *d = open_part(job, SPLIT_TRAIN);
	assert_int_equal(dataset_get_info(d)->rows, 2);
	dataset_close(d);
	write_bytes(f, "cached.jsonl", "{\"text\": \"anew\"}\n", 17, path);
	d = open_part(job, SPLIT_TRAIN);
	assert_true(dataset_get_info(d)->bad_lines == 0 && dataset_get_info(d)->rows == 1);
	dataset_close(d);
	job_of_free(job);
}

static void expect_failure(const struct job *job, enum split_part part, weir_status status, const char *says)
{
	struct dataset *d = NULL;
	weir_error err = {0};
	assert_int_equal(dataset_open(&d, job, part, NULL, &err), status);
	CHECK_CONTAINS(err.text, says);
}

static void conflicting_settings_are_refused(void **state)
{
	const struct folder *f = *state;
	char path[256], pattern[256];
	struct token_writer *w;
	struct token_file_info info = {.fingerprint = "first", .vocabulary = 300, .eos = TOKEN_FILE_NO_EOS};
	weir_error err = {0};
	for (int k = 0; k < 2; k++) {
		snprintf(path, sizeof path, "%s/odd-%d.bin", f->path, k);
		CHECK_OK(token_writer_open(&w, path, &info, &err), err);
		CHECK_OK(token_writer_add(w, (const uint32_t[]){1, 2, 3}, NULL, k == 0 ? 1 : 3, &err), err);
		CHECK_OK(token_writer_commit(w, 9, 0, &info, &err), err);
		info.fingerprint[0] ^= 1;
	}
	snprintf(pattern, sizeof pattern, "%s/odd-*.bin", f->path);
	struct job *job = tokens_job(f, pattern);
	expect_failure(job, SPLIT_TRAIN, WEIR_E_INVALID, "are of different tokenizers");
	job_of_free(job);
	job = tokens_job(f, path);
	job->data.bad_lines_max = 8;
	expect_failure(job, SPLIT_TRAIN, WEIR_E_LIMIT, "9 bad lines were left out of the data, more than data.bad_lines_max 8");
	job_of_free(job);
	snprintf(pattern, sizeof pattern, "%s/odd-0.bin", f->path);
	job = tokens_job(f, pattern);
	job->data.bad_lines_max = 100;
	expect_failure(job, SPLIT_TRAIN, WEIR_E_INVALID, "the train part has no two tokens that follow one another");
	job_of_free(job);
	static const char prompts[] = "{\"prompt\": \"a question\", \"completion\": \"\"}\n";
	write_bytes(f, "prompts.jsonl", prompts, sizeof prompts - 1, path);
	job = tokens_job(f, path);
	strcpy(job->data.tokenizer, "bytes");
	strcpy(job->data.cache, f->path);
	expect_failure(job, SPLIT_TRAIN, WEIR_E_INVALID, "prompts.jsonl counts in the loss: are its completions empty?");
	const struct dataset_scored scored = {.fields = 0};
	struct dataset *to_score;
	CHECK_OK(dataset_open_scored(&to_score, job, SPLIT_TRAIN, &scored, NULL, &err), err);
	dataset_close(to_score);
	job_of_free(job);
	write_bytes(f, "odd-2.txt", "text", 4, path);
	job = tokens_job(f, path);
	expect_failure(job, SPLIT_TRAIN, WEIR_E_INVALID, "data.tokenizer is missing");
	strcpy(job->data.tokenizer, "bytes");
	strcpy(job->data.cache, "off");
	expect_failure(job, SPLIT_TRAIN, WEIR_E_INVALID, "data.cache is off");
	strcpy(job->data.cache, f->path);
	strcpy(job->data.tokenizer, "/nowhere/model");
	expect_failure(job, SPLIT_TRAIN, WEIR_E_NOT_FOUND, "/nowhere/model");
	job_of_free(job);
	snprintf(pattern, sizeof pattern, "%s/odd-*", f->path);
	job = tokens_job(f, pattern);
	expect_failure(job, SPLIT_TRAIN, WEIR_E_INVALID, "some of the data are token files, and some are texts");
	job_of_free(job);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(they_are_what_they_are_defined_to_be), cmocka_unit_test(every_token_is_of_one_part),
	    cmocka_unit_test(a_shuffle_repeats_and_visits_every_sequence_once), cmocka_unit_test(texts_are_tokenized_into_the_cache),
	    cmocka_unit_test(conflicting_settings_are_refused)};
	return cmocka_run_group_tests_name("data_sequences", tests, folder_setup, folder_teardown);
}
