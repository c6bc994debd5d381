/* data.columns: what a good list becomes, and the sentence of every mistake in one. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/job/job.h"
#include "common/job/job_schema.h"
#include "tests/cmocka_check.h"

#define CSV \
	"job: x\ndata:\n  format: csv\n  train: a\n  columns:\n    - {name: y, kind: label}\n    - {name: u, kind: categorical}\n"

struct mistake {
	const char *text, *set; /* one --set, or NULL */
	weir_status status;
	const char *part; /* of the sentence */
};

static const struct mistake mistakes[] = {
    {CSV "train: {best_by: gauc}\n", NULL, WEIR_E_INVALID,
     "bad.yaml:8:18: train.best_by: is a figure of groups, which the rows do not have"},
    {CSV "    - {name: n, kind: numerc}\n", NULL, WEIR_E_INVALID,
     "bad.yaml:8:23: data.columns[2].kind: is 'numerc', unknown; the nearest is 'numeric'"},
    {CSV "    - {name: n, knd: numeric}\n", NULL, WEIR_E_INVALID,
     "bad.yaml:8:17: data.columns[2].knd: unknown key (value 'numeric'); the nearest valid key is 'kind' (valid here: name, "
     "kind, separator"},
    {CSV "    - {name: n}\n", NULL, WEIR_E_INVALID,
     "bad.yaml:8:7: data.columns[2].kind: missing; expected one of categorical, multi"},
    {CSV "    - user\n", NULL, WEIR_E_INVALID,
     "bad.yaml:8:7: data.columns[2]: is 'user'; expected a map with at least name and kind"},
    {CSV "    - {name: u, kind: ignore}\n", NULL, WEIR_E_INVALID,
     "bad.yaml:8:14: data.columns[2].name: is 'u', as data.columns[1] is; expected each column once"},
    {CSV "    - {name: n, kind: ignore, name: m}\n", NULL, WEIR_E_INVALID,
     "data.columns[2].name: duplicate key: it was given on line 8 already"},
    {CSV "    - {name: n, kind: numeric, pooling: mean}\n", NULL, WEIR_E_INVALID,
     "data.columns[2].pooling: is given, and the column is of kind numeric; expected nothing, or kind: multi or sequence"},
    {CSV "    - {name: n, kind: multi, pooling: most}\n", NULL, WEIR_E_INVALID,
     "data.columns[2].pooling: is 'most'; expected one of sum, mean, max"},
    {CSV "    - {name: n, kind: numeric, transform: standard, min: 1, max: 2}\n", NULL, WEIR_E_INVALID,
     "data.columns[2].min: is given, and transform is not minmax; expected nothing"},
    {CSV "    - {name: n, kind: numeric, transform: standard, mean: 1}\n", NULL, WEIR_E_INVALID,
     "data.columns[2].mean: is given without std; expected both, or neither"},
    {CSV "    - {name: n, kind: numeric, transform: standard, mean: 1, std: 0}\n", NULL, WEIR_E_INVALID,
     "data.columns[2].std: is 0; expected a number above 0"},
    {CSV "    - {name: n, kind: numeric, transform: minmax, min: 1, max: 1}\n", NULL, WEIR_E_INVALID,
     "data.columns[2].max: is 1, and min is 1; expected more"},
    {CSV "    - {name: n, kind: numeric, transform: bucketize}\n", NULL, WEIR_E_INVALID,
     "data.columns[2].boundaries: missing, and transform is bucketize; expected a list of numbers, such as [18, 25, 40]"},
    {CSV "    - {name: n, kind: numeric, transform: bucketize, boundaries: [1, 3, 3]}\n", NULL, WEIR_E_INVALID,
     "data.columns[2].boundaries: has 3 after 3; expected rising numbers"},
    {CSV "    - {name: n, kind: numeric, boundaries: [1, a]}\n", NULL, WEIR_E_INVALID,
     "data.columns[2].boundaries: is 'a'; expected a list of at most 1024 numbers"},
    {CSV "    - {name: n, kind: numeric, boundaries: [1]}\n", NULL, WEIR_E_INVALID,
     "data.columns[2].boundaries: is given, and transform is not bucketize; expected nothing"},
    {CSV "    - {name: m, kind: multi, share: u, vocabulary: ids.txt}\n", NULL, WEIR_E_INVALID,
     "data.columns[2].vocabulary: is given, and share is 'u'; expected nothing: the ids are those of that column"},
    {CSV "    - {name: t, kind: time, format: '%d.%m'}\n", NULL, WEIR_E_INVALID,
     "data.columns[2].format: is '%d.%m'; expected unix, unix_ms, iso8601, or a pattern with a year"},
    {CSV "    - {name: t, kind: time, format: '%d.%m.%Y', default: 2026-01-01}\n", NULL, WEIR_E_INVALID,
     "data.columns[2].default: is '2026-01-01', and the column's format is %d.%m.%Y; expected a time in it"},
    {CSV "    - {name: z, kind: label, default: 0, missing: masked}\n", NULL, WEIR_E_INVALID,
     "data.columns[2].default: is given, and missing is masked; expected one of the two"},
    {CSV "    - {name: z, kind: label, default: no}\n", NULL, WEIR_E_INVALID,
     "data.columns[2].default: is 'no', and the column is a label; expected a number"},
    {CSV "  csv: {quote: '\"\"'}\n", NULL, WEIR_E_INVALID,
     "data.csv.quote: is '\"\"'; expected one character of ASCII, no line end, or none"},
    {CSV "    - {name: n, kind: numeric, default: none}\n", NULL, WEIR_E_INVALID,
     "data.columns[2].default: is 'none', and the column is numeric; expected a number"},
    {CSV "    - {name: n, kind: multi, share: uu}\n", NULL, WEIR_E_INVALID,
     "data.columns[2].share: is 'uu', and data.columns has no such column; the nearest is 'u'"},
    {CSV "    - {name: n, kind: multi, share: y}\n", NULL, WEIR_E_INVALID,
     "data.columns[2].share: is 'y', a column of kind label; expected one with ids"},
    {CSV "    - {name: n, kind: multi, separator: ab}\n", NULL, WEIR_E_INVALID,
     "data.columns[2].separator: is 'ab'; expected one character"},
    {CSV "    - {name: n, kind: multi, separator: ','}\n", NULL, WEIR_E_INVALID,
     "data.columns[2].separator: is ',', as data.csv.delimiter is; expected another character"},
    {CSV "    - {name: n, kind: categorical, dim: 4}\n", NULL, WEIR_E_INVALID,
     "bad.yaml:8:41: data.columns[2].dim: is 4, and model.kind is deepfm, which multiplies embeddings element by element, so "
     "that they have one width; expected model.dim (16), or a model that joins embeddings: wide_deep, dcn_v2, dcn_mix, "
     "shared_bottom, mmoe"},
    {CSV "    - {name: i, kind: categorical, dim: 4}\n", "model={kind: two_tower, user: [u], item: [i]}", WEIR_E_INVALID,
     "data.columns[2].dim: is 4, and model.kind is two_tower, whose towers read embeddings of one width; expected model.dim"},
    {CSV "    - {name: n, kind: numeric, dim: 4}\n", "model.kind=dcn_v2", WEIR_E_INVALID,
     "data.columns[2].dim: is given, and transform is not bucketize: a number has no embedding; expected nothing"},
    {CSV "    - {name: n, kind: group, dim: 4}\n", "model.kind=dcn_v2", WEIR_E_INVALID,
     "data.columns[2].dim: is given, and the column is of kind group; expected nothing, or kind: categorical or multi or "
     "sequence or numeric"},
    {CSV "    - {name: h, kind: sequence, share: u, dim: 4}\n", "model.kind=dcn_v2", WEIR_E_INVALID,
     "data.columns[2].dim: is 4, and the column shares the embeddings of 'u', of width 16; expected nothing"},
    {CSV "    - {name: n, kind: categorical, dim: 4097}\n", NULL, WEIR_E_INVALID,
     "data.columns[2].dim: is '4097'; expected a whole number from 1 to 4096 (elements), or auto"},
    {CSV "    - {name: a, kind: categorical, dim: 4}\n    - {name: b, kind: multi, dim: 8}\n    - {name: c, kind: categorical, "
         "dim: 32}\n    - {name: d, kind: categorical, dim: 2}\n",
     "model.kind=mmoe", WEIR_E_LIMIT,
     "bad.yaml:11:41: data.columns[5].dim: is 2, and other columns have embeddings of the widths 16, 4, 8, 32; expected one of "
     "these, as a model has at most 4"},
    {CSV "    - {name: n, kind: multi, max_length: 0}\n", NULL, WEIR_E_INVALID,
     "data.columns[2].max_length: is '0'; expected a whole number from 1 to 16384 (ids)"},
    {CSV "    - {name: z, kind: label}\n", NULL, WEIR_E_INVALID,
     "model.kind: is deepfm, which learns one task, and data.columns has 2 of kind: label; expected mmoe or shared_bottom, or "
     "kind: ignore for all labels but one"},
    {CSV "    - {name: z, kind: label}\n", "train.loss.task_weights=[1, 2, 3]", WEIR_E_INVALID,
     "train.loss.task_weights: has 3 numbers, and data.columns has 2 of kind: label; expected one for each"},
    {CSV "", "model={kind: two_tower, user: [u]}", WEIR_E_INVALID,
     "model.item: is empty, and model.kind is two_tower; expected names"},
    {CSV "    - {name: i, kind: multi}\n", "model={kind: two_tower, user: [u], item: [i]}", WEIR_E_INVALID,
     "model.item: begins with 'i', of kind multi; expected the column of kind: categorical that names the item"},
    {CSV "    - {name: i, kind: categorical}\n", "model={kind: two_tower, user: [u], item: [i, u]}", WEIR_E_INVALID,
     "model.item: has 'u', which model.user has, too; expected each column in one of them"},
    {CSV "    - {name: i, kind: categorical}\n", "model={kind: two_tower, user: [y], item: [i]}", WEIR_E_INVALID,
     "model.user: has 'y', and data.columns has no column of that name with ids or numbers"},
    {CSV "    - {name: i, kind: categorical}\n    - {name: n, kind: numeric}\n", "model={kind: two_tower, user: [u], item: [i]}",
     WEIR_E_INVALID, "model.kind: is two_tower, and neither model.user nor model.item has the column 'n'"},
    {CSV "    - {name: i, kind: categorical}\n", "model={kind: two_tower, user: [u], item: [i], negatives: 9, batch_norm: true}",
     WEIR_E_INVALID,
     "model.negatives: is 9, and model.batch_norm would normalise over users that negatives do not have; expected 0, or "
     "batch_norm: false"},
    {CSV "", "model.kind=din", WEIR_E_INVALID,
     "model.kind: is din, which attends to histories, and data.columns has none with a target; expected a column such as {name: "
     "last_items, kind: sequence, share: item}"},
    {CSV "    - {name: h, kind: sequence, share: u, pooling: mean}\n", "model.kind=din", WEIR_E_INVALID,
     "model.kind: is din, which weighs the ids of 'h' itself, and its pooling is mean; expected sum"},
    {CSV "", "train.best_task=z", WEIR_E_INVALID, "train.best_task: is 'z', and data.columns has no such column of kind: label"},
    {CSV "", "data.columns=[{name: y, kind: label, missing: masked}, {name: u, kind: categorical}]", WEIR_E_INVALID,
     "data.columns[0].missing: is masked, and this is the only label; expected bad, or several columns of kind: label"},
    {CSV "", "data.columns=[{name: u, kind: categorical}]", WEIR_E_INVALID,
     "data.columns: have no label; expected a column of kind: label"},
    {CSV "    - {name: n, kind: numeric, missing: masked}\n", NULL, WEIR_E_INVALID,
     "data.columns[2].missing: is given, and the column is of kind numeric; expected nothing, or kind: label"},
    {CSV "    - {name: z, kind: label, positive_above: high}\n", NULL, WEIR_E_INVALID,
     "data.columns[2].positive_above: is 'high'; expected a number, or auto"},
    {CSV "", "data.columns=[{name: y, kind: label, positive: yes, positive_above: 3}, {name: u, kind: categorical}]",
     WEIR_E_INVALID,
     "data.columns[0].positive: is 'yes', and positive_above is given, too: labels are texts or numbers; expected one of the "
     "two"},
    {CSV "", "data.columns=[{name: a, kind: label}]", WEIR_E_INVALID,
     "--set data.columns=[{name: a, kind: label}]: data.columns: have no ids; expected a column of kind: categorical, multi or "
     "sequence"},
    {CSV "", "data.columns=user", WEIR_E_INVALID, "data.columns: is 'user'; expected a list of at most 8192 maps, one a column"},
    {CSV "", "data.format=criteo", WEIR_E_INVALID,
     "data.columns: is given, and data.format has none; expected nothing, or data.format: csv, jsonl, parquet or arrow"},
    {CSV "  csv: {delimiter: '\"'}\n", NULL, WEIR_E_INVALID, "data.csv.delimiter: is '\"'; expected one character of ASCII"},
    {CSV "  fields: 3\n", NULL, WEIR_E_INVALID,
     "bad.yaml:8:11: data.fields: is 3, and data.columns names the fields; expected auto"},
    {"job: x\ndata: {format: csv, train: a}\n", NULL, WEIR_E_INVALID,
     "data.columns: missing, and data.format is csv; expected a list of the columns"},
    {CSV "", "data.split={by: time, valid_from: 5}", WEIR_E_INVALID,
     "data.split.by: is time; expected a column of kind: time in data.columns"},
    {CSV "    - {name: t, kind: time, format: iso8601}\n", "data.split={by: time}", WEIR_E_INVALID,
     "data.split.by: is time; expected data.split.valid_from, data.split.test_from or both"},
    {CSV "    - {name: t, kind: time, format: iso8601}\n", "data.split={by: time, valid_from: 5}", WEIR_E_INVALID,
     "data.split.valid_from: is '5', and 't' is in the format iso8601; expected 2026-01-31 or"},
    {CSV "    - {name: t, kind: time, format: iso8601}\n", "data.split={by: time, valid_from: 2026-01-01, test_from: 2026-01-01}",
     WEIR_E_INVALID, "data.split.test_from: is '2026-01-01'; expected a time after data.split.valid_from: '2026-01-01'"},
    {CSV "    - {name: t, kind: time, format: iso8601}\n", "data.split={by: time, column: u, valid_from: 2026-01-01}",
     WEIR_E_INVALID,
     "data.split.column: is 'u', of kind categorical, and data.split.by is time; expected a column of kind: time"},
    {CSV "", "data.split={by: group, column: v}", WEIR_E_INVALID, "data.split.column: is 'v', which data.columns does not name"},
    {CSV "", "data.split={by: crc32, column: u}", WEIR_E_INVALID,
     "data.split.column: is given, and data.split.by is not group or time; expected nothing"},
    {CSV "", "data.split={by: crc32, valid_from: 5}", WEIR_E_INVALID,
     "data.split.valid_from: is given, and data.split.by is not time; expected nothing"},
    {"job: x\ndata: {train: a}\n", "data.split.by=group", WEIR_E_INVALID,
     "data.split.by: is group, and data.format has no columns; expected crc32, or data.format: csv"},
};

static void every_mistake_is_reported(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++) {
		const struct mistake *m = &mistakes[i];
		weir_error err = {0};
		struct job *job = NULL;
		assert_int_equal(job_parse(m->text, "bad.yaml", &m->set, m->set ? 1 : 0, &job, &err), m->status);
		assert_null(job);
		if (!strstr(err.text, m->part))
			fail_msg("%s\n--set %s\ngives: %s", m->text, m->set ? m->set : "", err.text);
	}
}

/* A mistake in one column hides none of another, and makes up none. */
static void mistakes_of_several_columns_are_reported_together(void **state)
{
	(void)state;
	static const char text[] =
	    "job: x\ntrain: {best_by: gauc}\ndata:\n  format: csv\n  train: a\n  split: {by: time, valid_from: 5}\n"
	    "  columns:\n"
	    "    - {name: y, knd: label}\n"
	    "    - {name: u, kind: categorical, pooling: mean}\n"
	    "    - {name: m, kind: mult}\n"
	    "    - {name: s, kind: sequence, share: m}\n"
	    "    - {name: u, kind: numeric, default: x}\n"
	    "    - item\n"
	    "    - {name: g, kind: group, max_length: 0}\n";
	static const char *const said[] = {"8:17: data.columns[0].knd: unknown key",
	                                   "9:45: data.columns[1].pooling: is given",
	                                   "10:23: data.columns[2].kind: is 'mult', unknown",
	                                   "12:14: data.columns[4].name: is 'u', as data.columns[1] is",
	                                   "12:41: data.columns[4].default: is 'x', and the column is numeric",
	                                   "13:7: data.columns[5]: is 'item'",
	                                   "14:42: data.columns[6].max_length: is '0'"};
	struct job_mistakes *all = calloc(1, sizeof *all);
	weir_error err = {0};
	struct job *job = NULL;
	assert_int_equal(job_parse_all(text, "bad.yaml", NULL, 0, &job, all, &err), WEIR_E_INVALID);
	for (uint32_t i = 0; i < all->count && i < sizeof said / sizeof *said; i++)
		CHECK_CONTAINS(all->kept[i].error.text, said[i]);
	assert_int_equal(all->count, sizeof said / sizeof *said);
	free(all);
}

static struct job *job_with(const char *columns, const char *model)
{
	char set[4096];
	const char *const sets[] = {model, set};
	struct job *job = NULL;
	weir_error err = {0};
	snprintf(set, sizeof set, "data.columns=%s", columns);
	CHECK_OK(job_parse(CSV, "good.yaml", sets, 2, &job, &err), err);
	return job;
}

static void a_list_of_maps_becomes_columns(void **state)
{
	(void)state;
	struct job *job =
	    job_with("[{name: y, kind: label}, {name: item, kind: categorical, default: none}, {name: n, kind: numeric, "
	             "transform: log1p}, {kind: sequence, name: \"last items\", separator: \"\\t\", max_length: 9, pooling: "
	             "mean, share: item}, {name: t, kind: time, format: unix_ms}, {name: row, kind: id}]",
	             "model.kind=deepfm");
	const struct job_column *c = job->data.columns;
	assert_int_equal(job->data.columns_count, 6);
	assert_string_equal(c[1].empty, "none");
	assert_int_equal(c[1].max_length, 64);
	assert_int_equal(c[2].transform, TRANSFORM_LOG1P);
	assert_string_equal(c[3].name, "last items");
	assert_string_equal(c[3].separator, "\t");
	assert_int_equal(c[3].max_length, 9);
	assert_int_equal(c[3].pooling, POOLING_MEAN);
	assert_int_equal(c[4].time, TIME_UNIX_MS);
	assert_int_equal(c[5].kind, COLUMN_ID);
	assert_int_equal(job_columns_fields(job), 2);
	assert_int_equal(job_columns_dense(job), 1);
	assert_int_equal(job_column_key_field(job, job_column_find(job, "last items")), 0);
	char text[512];
	job_key_text(job, job_schema_find("data.columns"), text, sizeof text);
	assert_string_equal(text, "[{name: y, kind: label}, {name: item, kind: categorical, default: none}, {name: n, kind: numeric, "
	                          "transform: log1p}, {name: \"last items\", kind: sequence, separator: \"\\x09\", pooling: mean, "
	                          "max_length: 9, share: item}, {name: t, kind: time, format: unix_ms}, {name: row, kind: id}]");
	job_destroy(job);
}

/* The tables of a list's embeddings: the one of model.dim is the first if a column has it. */
static void columns_may_have_widths_of_their_own(void **state)
{
	(void)state;
	struct job *job =
	    job_with("[{name: y, kind: label}, {name: a, kind: categorical, dim: 4}, {name: b, kind: multi, dim: auto}, "
	             "{name: c, kind: sequence, share: a}, {name: n, kind: numeric, transform: bucketize, boundaries: "
	             "[1], dim: 2}]",
	             "model.kind=wide_deep");
	static const uint32_t widths[] = {4, 16, 4, 2};
	uint32_t dims[WEIR_DIMS_MAX];
	char name[WEIR_TABLE_NAME_BYTES_MAX];
	assert_int_equal(job_dims(job, dims), 3);
	assert_memory_equal(dims, ((const uint32_t[]){16, 4, 2}), 3 * sizeof *dims);
	for (uint32_t f = 0; f < 4; f++)
		assert_int_equal(job_column_dim(job, job_column_of_field(job, f)), widths[f]);
	job_embedding_table(job, 16, name);
	assert_string_equal(name, "embedding");
	job_embedding_table(job, 2, name);
	assert_string_equal(name, "embedding_2");
	const uint64_t rows = job_columns_hash(job); /* rows are parsed alike, whatever the widths */
	job_destroy(job);
	job = job_with("[{name: y, kind: label}, {name: a, kind: categorical, dim: 8}, {name: b, kind: multi}, {name: c, kind: "
	               "sequence, share: a}, {name: n, kind: numeric, transform: bucketize, boundaries: [1], dim: 8}]",
	               "model.kind=wide_deep");
	assert_true(job_columns_hash(job) == rows);
	job_destroy(job);
	job = job_with("[{name: y, kind: label}, {name: a, kind: categorical, dim: 8}]", "model.kind=wide_deep");
	assert_int_equal(job_dims(job, dims), 1);
	assert_int_equal(dims[0], 8);
	job_destroy(job);
	job = job_with("[{name: y, kind: label}, {name: a, kind: categorical, dim: 16}]", "model.kind=deepfm");
	job_destroy(job);
}

/* A list that is too long for its text is told by its hash, which any difference changes. */
static void a_long_list_has_a_hash(void **state)
{
	(void)state;
	char lists[2][4096], texts[2][64];
	for (int i = 0; i < 2; i++) {
		int n = sprintf(lists[i], "[{name: y, kind: label}");
		for (int k = 0; k < 60; k++)
			n += sprintf(lists[i] + n, ", {name: c%d, kind: categorical}", k == 59 ? 100 + i : k);
		sprintf(lists[i] + n, "]");
		struct job *job = job_with(lists[i], "model.kind=deepfm");
		job_key_text(job, job_schema_find("data.columns"), texts[i], sizeof texts[i]);
		assert_memory_equal(texts[i], "61 columns (", 12);
		job_destroy(job);
	}
	assert_string_not_equal(texts[0], texts[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(every_mistake_is_reported),      cmocka_unit_test(mistakes_of_several_columns_are_reported_together),
	    cmocka_unit_test(a_list_of_maps_becomes_columns), cmocka_unit_test(columns_may_have_widths_of_their_own),
	    cmocka_unit_test(a_long_list_has_a_hash),
	};
	return cmocka_run_group_tests_name("job_columns", tests, NULL, NULL);
}
