/* The schema's keys and their classes. If a job's value of a result-determining key differs, the
 * refusal has the key and both values; no other key is refused. `test_fingerprint_keys --table`
 * prints each key with its class and tried value, `--others JOB.yaml` another value of each key of
 * a job, `--markdown` the list of docs/OPERATIONS.md. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/job/job_schema.h"
#include "common/system/disk.h"
#include "tests/cmocka_check.h"
#include "worker/train/job/job_fingerprint.h"

/* Jobs in which a key may have several values. File names stand in for files: no test here reads
 * data. */
static const char *const bases[] = {
    "job: clicks\ndata: {format: libsvm, train: x, fields: 4}\ncluster: {workers: 4}\n",
    "job: made\ndata: {split: {by: crc32}, generate: {rows: 1000}}\n",
    "job: criteo\ndata: {train: x, fields: 26, dense: 13}\nmodel: {kind: dlrm, dim: 4, bottom: [8, 4]}\n",
    "job: steps\ndata: {format: libsvm, train: x, fields: 4}\ncluster: {workers: 4}\n"
    "tables: {embedding: {mode: {kind: sync}}, dense: {mode: {kind: sync}}}\n",
    "job: bounds\ndata: {format: libsvm, train: x, fields: 4}\ncluster: {workers: 4}\n"
    "tables: {embedding: {mode: {kind: ssp, bound: 2}}, dense: {mode: {kind: ssp, bound: 2}}}\n",
    "job: rounds\ndata: {format: libsvm, train: x, fields: 4}\ncluster: {workers: 4}\n"
    "tables: {dense: {mode: {kind: local, steps: 8, fragments: 2, overlap: 1}, optimizer: {kind: sgd}}}\n",
    "job: coded\ndata: {format: libsvm, train: x, fields: 4}\n"
    "tables: {embedding: {push: {codec: int8}, pull: {cache: {memory: 64MiB, max_uses: 4}}},"
    " dense: {push: {codec: topk, values: int8}, pull: {codec: topk, values: int8}}}\n",
    "job: admits\ndata: {format: libsvm, train: x, fields: 4}\n"
    "tables: {embedding: {admission: {kind: count, count: 3}, eviction: {ttl_s: 60, min_score: 2}}}\n",
    "job: codes\ndata: {format: libsvm, train: x, fields: 4}\n"
    "tables: {embedding: {push: {codec: int4}, admission: {kind: probability, probability: 0.5}},"
    " dense: {push: {codec: int4}, pull: {codec: int4, every: 2}}}\n",
    "job: rates\ndata: {format: libsvm, train: x, fields: 4}\n"
    "tables: {embedding: {optimizer: {schedule: {kind: linear}}}, dense: {optimizer: {kind: sgd, schedule: {kind: cosine}}}}\n",
    "job: words\ndata: {format: tokens, tokenizer: bytes, train: x, sequence: 64}\n"
    "model: {kind: llama, layers: 2, heads: 4, kv_heads: 4, width: 32, feed_forward: 64, vocabulary: 256, positions: 64}\n",
    "job: table\ndata: {format: csv, train: x, columns: [{name: a, kind: categorical}, {name: y, kind: label}]}\n",
    "job: times\ndata: {format: csv, train: x, split: {by: time, column: t, valid_from: 5},"
    " columns: [{name: a, kind: categorical}, {name: t, kind: time}, {name: other, kind: time}, {name: y, kind: label}]}\n",
    "job: tasks\ndata: {format: csv, train: x, columns: [{name: a, kind: categorical}, {name: y, kind: label},"
    " {name: other, kind: label}]}\nmodel: {kind: mmoe}\n",
    "job: histories\ndata: {format: csv, train: x, columns: [{name: a, kind: categorical}, {name: h, kind: sequence, share: a},"
    " {name: y, kind: label}]}\nmodel: {kind: din}\n",
    "job: towers\ndata: {format: csv, train: x, columns: [{name: a, kind: categorical}, {name: other, kind: categorical},"
    " {name: y, kind: label}]}\nmodel: {kind: two_tower, user: [a], item: [other]}\n",
    "job: focal\ndata: {format: libsvm, train: x, fields: 4}\ntrain: {loss: {kind: focal}}\n",
    "job: bytes\ndata: {format: text, train: x}\nmodel: {kind: ngram}\n",
};
enum { BASES = sizeof bases / sizeof *bases, VALUES = 24, VALUE_BYTES = 80 };

/* Keys with a content hash instead, which need files: tests/cases and
 * tests/integration/fingerprint.sh test them. */
static const char *const by_content[] = {"data.train",         "data.valid",        "data.test",       "data.tokenizer",
                                         "model.from",         "model.lora.from",   "model.lora.rank", "model.lora.alpha",
                                         "model.lora.dropout", "model.lora.targets"};

/* Keys that a table does not use: every job has the default. */
static const char *const fixed[] = {
    "tables.embedding.push.density", "tables.embedding.push.values", "tables.embedding.push.momentum",
    "tables.embedding.push.warmup",  "tables.embedding.push.clip",   "tables.embedding.push.feedback",
    "tables.embedding.pull.density", "tables.embedding.pull.values", "tables.embedding.pull.book",
    "tables.embedding.pull.every",   "tables.dense.push.rows"};

static bool is_in(const char *const *list, size_t count, const char *path)
{
	for (size_t i = 0; i < count; i++)
		if (strcmp(path, list[i]) == 0)
			return true;
	return false;
}

static bool is_by_content(const char *path)
{
	return is_in(by_content, sizeof by_content / sizeof *by_content, path);
}

static bool is_fixed(const char *path)
{
	return is_in(fixed, sizeof fixed / sizeof *fixed, path);
}

/* Sets the key; one that both tables must share is set in both. */
static struct job *parse(const char *text, const char *set)
{
	static const char embedding[] = "tables.embedding.";
	char both[2 * JOB_KEY_BYTES_MAX];
	const char *sets[] = {set, both};
	struct job *job = NULL;
	if (job_parse(text, "base", sets, set ? 1 : 0, &job, NULL) == WEIR_OK)
		return job;
	if (!set || strncmp(set, embedding, strlen(embedding)) != 0)
		return NULL;
	snprintf(both, sizeof both, "tables.dense.%s", set + strlen(embedding));
	return job_parse(text, "base", sets, 2, &job, NULL) == WEIR_OK ? job : NULL;
}

/* Values within the key's type and bounds. Returns their count. */
static uint32_t other_values(const struct key *k, char out[VALUES][VALUE_BYTES])
{
	static const uint64_t numbers[] = {0, 1, 2, 3, 4, 5, 7, 8, 16, 24, 100, 1000, 100000000};
	static const double reals[] = {0.25, 0.5, 0.125, 0.001, 2, 100, 0};
	uint32_t n = 0;
	if (k->type == KEY_BOOL)
		for (; n < 2; n++)
			snprintf(out[n], VALUE_BYTES, "%s", n ? "true" : "false");
	for (uint32_t i = 0; k->type == KEY_CHOICE && i < k->choices_count && n < VALUES; i++)
		snprintf(out[n++], VALUE_BYTES, "%s", k->choices[i].name);
	for (size_t i = 0; k->type == KEY_FLOAT && i < sizeof reals / sizeof *reals; i++)
		snprintf(out[n++], VALUE_BYTES, "%g", reals[i]);
	for (size_t i = 0; (k->type == KEY_U32 || k->type == KEY_U64 || k->type == KEY_BYTES) && i < sizeof numbers / sizeof *numbers;
	     i++)
		if (numbers[i] >= k->low && numbers[i] <= k->high)
			snprintf(out[n++], VALUE_BYTES, "%llu", (unsigned long long)numbers[i]);
	if (k->type == KEY_FLOAT_LIST)
		snprintf(out[n++], VALUE_BYTES, "[0.5]");
	if (k->type == KEY_U32_LIST)
		snprintf(out[n++], VALUE_BYTES, "[16, 4]");
	if (k->type == KEY_COLUMNS)
		snprintf(out[n++], VALUE_BYTES, "[{name: b, kind: multi}, {name: y, kind: label}]");
	if (k->type == KEY_TEXT && k->size == 2)
		snprintf(out[n++], VALUE_BYTES, ";");
	if (k->type == KEY_TEXT || k->type == KEY_TEXT_LIST)
		snprintf(out[n++], VALUE_BYTES, "other");
	if (k->type == KEY_TEXT)
		snprintf(out[n++], VALUE_BYTES, "off");
	if (k->type == KEY_TEXT)
		snprintf(out[n++], VALUE_BYTES, "9");
	return n;
}

static weir_status compare(const struct job *was, const struct job *is, weir_error *err)
{
	struct fingerprint a = {0}, b = {0};
	const struct fingerprint_parts none = {.begins = true};
	weir_status status = job_fingerprint(was, &none, &a, err);
	if (status == WEIR_OK)
		status = job_fingerprint(is, &none, &b, err);
	if (status == WEIR_OK)
		status = fingerprint_compare(&(struct fingerprint_comparison){.was = a.text, .is = b.text, .what = "job"}, err);
	free(a.text);
	free(b.text);
	return status;
}

/* Returns true if the refusal has the key and both its values. */
static bool names(const struct job *was, const struct job *is, const struct key *k, const char *text)
{
	char from[WEIR_FINGERPRINT_VALUE_BYTES], to[WEIR_FINGERPRINT_VALUE_BYTES], said[WEIR_ERROR_TEXT_BYTES];
	job_key_text(was, k, from, sizeof from);
	job_key_text(is, k, to, sizeof to);
	snprintf(said, sizeof said, "%.90s was '%.200s' and is '%.200s'", k->path, from, to);
	return strstr(text, said) != NULL;
}

struct tried {
	uint32_t base;
	char set[JOB_KEY_BYTES_MAX + VALUE_BYTES + 1];
};

/* Whether the key differs between the two jobs; if so, *refused is whether that is refused by name. */
static bool differs(const struct job *was, const struct job *is, const struct key *k, bool *refused)
{
	char from[WEIR_FINGERPRINT_VALUE_BYTES], to[WEIR_FINGERPRINT_VALUE_BYTES];
	weir_error err = {0};
	job_key_text(was, k, from, sizeof from);
	job_key_text(is, k, to, sizeof to);
	if (strcmp(from, to) == 0)
		return false;
	*refused = compare(was, is, &err) == WEIR_E_INVALID && names(was, is, k, err.text);
	return true;
}

/* Tries another value of the key in some base; false if no base accepts one. */
static bool try_key_in(const char *const *jobs, uint32_t jobs_count, const struct key *k, struct tried *t, bool *refused)
{
	char values[VALUES][VALUE_BYTES];
	const uint32_t count = other_values(k, values);
	bool any = false;
	*refused = false;
	for (uint32_t base = 0; base < jobs_count && !*refused; base++) {
		struct job *was = parse(jobs[base], NULL);
		assert_non_null(was);
		for (uint32_t i = 0; i < count && !*refused; i++) {
			const struct tried now = {.base = base};
			*t = any && k->of == OF_OPERATION ? *t : now;
			snprintf(t->set, sizeof t->set, "%s=%.*s", k->path, VALUE_BYTES - 1, values[i]);
			struct job *is = parse(jobs[base], t->set);
			any |= is && differs(was, is, k, refused);
			job_destroy(is);
		}
		job_destroy(was);
	}
	return any;
}

static bool try_key(const struct key *k, struct tried *t, bool *refused)
{
	return try_key_in(bases, BASES, k, t, refused);
}

static void the_bases_are_jobs(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < BASES; i++) {
		weir_error err = {0};
		struct job *job = NULL;
		CHECK_OK(job_parse(bases[i], "base", NULL, 0, &job, &err), err);
		job_destroy(job);
	}
}

static void every_key_that_determines_results_is_refused(void **state)
{
	(void)state;
	uint32_t count, refusals = 0, wrong = 0;
	const struct key *keys = job_schema(&count);
	for (uint32_t i = 0; i < count; i++) {
		struct tried t = {0};
		bool refused;
		if (is_by_content(keys[i].path))
			continue;
		const bool tried = try_key(&keys[i], &t, &refused);
		const bool must = keys[i].of != OF_OPERATION && !is_fixed(keys[i].path);
		wrong += must != refused;
		if (must && !refused)
			print_error("%s is not refused (%s)\n", keys[i].path, tried ? t.set : "no job takes another value");
		if (!must && refused)
			print_error("%s is refused, and determines nothing\n", t.set);
		refusals += refused;
	}
	assert_int_equal(wrong, 0);
	assert_true(refusals > 100);
}

/* Passes may grow unless a schedule depends on their number. */
static void passes_may_grow(void **state)
{
	(void)state;
	weir_error err = {0};
	struct job *was = parse(bases[0], NULL), *is = parse(bases[0], "train.passes=9");
	CHECK_OK(compare(was, is, &err), err);
	job_destroy(was);
	job_destroy(is);
	was = parse(bases[9], NULL);
	is = parse(bases[9], "train.passes=9");
	assert_int_equal(compare(was, is, &err), WEIR_E_INVALID);
	CHECK_CONTAINS(err.text, "train.passes was '1' and is '9'");
	job_destroy(was);
	job_destroy(is);
}

/* Different spellings of a value are equal. */
static void values_are_canonical(void **state)
{
	(void)state;
	static const char *const alike[][2] = {{"tables.dense.optimizer.lr=0.050", "tables.dense.optimizer.lr=5e-2"},
	                                       {"model.hidden=[8,4]", "model.hidden=[8, 4]"},
	                                       {"data.seed=7", "data.seed=07"}};
	for (size_t i = 0; i < sizeof alike / sizeof *alike; i++) {
		weir_error err = {0};
		struct job *a = parse(bases[0], alike[i][0]), *b = parse(bases[0], alike[i][1]);
		assert_non_null(a);
		assert_non_null(b);
		CHECK_OK(compare(a, b, &err), err);
		job_destroy(a);
		job_destroy(b);
	}
}

/* --- Tables */

static const char *group_of(const struct key *k)
{
	if (k->of == OF_DATA && k->of_weights)
		return "data, which gives ids their meaning";
	if (k->of == OF_TRAINING && k->of_weights)
		return "training, which rows that were never trained begin with";
	return key_class_name(k->of);
}

static void print_table(void)
{
	uint32_t count;
	const struct key *keys = job_schema(&count);
	for (uint32_t i = 0; i < count; i++) {
		struct tried t = {0};
		bool refused = false;
		const bool tried = !is_by_content(keys[i].path) && try_key(&keys[i], &t, &refused);
		printf("%-45s %-10s %-8s %s\n", keys[i].path, key_class_name(keys[i].of), keys[i].of_weights ? "weights" : "-",
		       is_by_content(keys[i].path) ? "by content"
		       : refused                   ? strchr(t.set, '=') + 1
		       : is_fixed(keys[i].path)    ? "the default alone"
		       : tried                     ? "may change"
		                                   : "not tried");
	}
}

/* Prints KEY=VALUE, with another value, for each result-determining key of this job. */
static int print_others(const char *path)
{
	uint32_t count;
	size_t bytes;
	char *text = NULL;
	const struct key *keys = job_schema(&count);
	if (disk_read_file(disk_system(), path, WEIR_CONFIG_BYTES_MAX, &text, &bytes, NULL) != WEIR_OK)
		return 1;
	const char *const jobs[] = {text};
	for (uint32_t i = 0; i < count; i++) {
		struct tried t = {0};
		bool refused = false;
		if (keys[i].of != OF_OPERATION && !is_by_content(keys[i].path) && try_key_in(jobs, 1, &keys[i], &t, &refused) && refused)
			printf("%s\n", t.set);
	}
	free(text);
	return 0;
}

/* A line per group; tables.* is one class. */
static void write_lists(FILE *out)
{
	static const char *const order[] = {"data",
	                                    "data, which gives ids their meaning",
	                                    "model",
	                                    "training",
	                                    "training, which rows that were never trained begin with",
	                                    "operation"};
	uint32_t count;
	const struct key *keys = job_schema(&count);
	for (size_t g = 0; g < sizeof order / sizeof *order; g++) {
		bool tables = false;
		const char *comma = "";
		fprintf(out, "- **%s**: ", order[g]);
		for (uint32_t i = 0; i < count; i++) {
			const bool table = strncmp(keys[i].path, "tables.", 7) == 0;
			if (strcmp(group_of(&keys[i]), order[g]) != 0 || (table && tables))
				continue;
			tables |= table;
			fprintf(out, "%s`%s`", comma, table ? "tables.*" : keys[i].path);
			comma = ", ";
		}
		fprintf(out, "\n");
	}
}

static void the_manual_has_the_classes(void **state)
{
	(void)state;
	char *lists = NULL, *manual = NULL;
	size_t bytes;
	weir_error err = {0};
	FILE *out = open_memstream(&lists, &bytes);
	write_lists(out);
	fclose(out);
	CHECK_OK(disk_read_file(disk_system(), DOCS_DIR "/OPERATIONS.md", 1 << 20, &manual, &bytes, &err), err);
	if (!strstr(manual, lists))
		print_error("docs/OPERATIONS.md does not have these lists:\n%s", lists);
	assert_non_null(strstr(manual, lists));
	free(manual);
	free(lists);
}

static void tables_are_of_one_class(void **state)
{
	(void)state;
	uint32_t count;
	const struct key *keys = job_schema(&count);
	for (uint32_t i = 0; i < count; i++)
		if (strncmp(keys[i].path, "tables.", 7) == 0)
			assert_int_equal(keys[i].of, OF_TRAINING);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_bases_are_jobs),      cmocka_unit_test(every_key_that_determines_results_is_refused),
	    cmocka_unit_test(passes_may_grow),         cmocka_unit_test(values_are_canonical),
	    cmocka_unit_test(tables_are_of_one_class), cmocka_unit_test(the_manual_has_the_classes),
	};
	if (argc > 1 && strcmp(argv[1], "--table") == 0) {
		print_table();
		return 0;
	}
	if (argc > 2 && strcmp(argv[1], "--others") == 0)
		return print_others(argv[2]);
	if (argc > 1 && strcmp(argv[1], "--markdown") == 0) {
		write_lists(stdout);
		return 0;
	}
	return cmocka_run_group_tests_name("fingerprint_keys", tests, NULL, NULL);
}
