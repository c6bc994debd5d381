/* CSV: hostile files are read right or refused with the place; the same rows as other formats; any
 * cut into units gives every row once. */
#include "tests/unit/worker/data/fixture.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker/data/format/parse.h"

#define COLUMNS                                                                                                              \
	"columns: [{name: y, kind: label}, {name: u, kind: categorical}, {name: m, kind: multi, pooling: mean, max_length: 3}, " \
	"{name: s, kind: sequence, max_length: 2, share: u}, {name: n, kind: numeric}, {name: w, kind: weight, default: 2}, "    \
	"{name: g, kind: group}, {name: x, kind: id}]"
#define HEADER "y,u,m,s,n,w,g,x\n"

/* A job over one CSV file. data: further keys of data. */
static struct job *csv_job(const struct folder *f, const char *path, const char *data, const char *columns)
{
	char text[4096];
	struct job *job = NULL;
	weir_error err = {0};
	snprintf(text, sizeof text,
	         "job: csv\nrun_dir: %s\ndata: {format: csv, train: '%s', batch: 8, unit_batches: 4, threads: 2, bad_lines_max: 0, "
	         "%s%s%s}\n",
	         f->path, path, data, *data ? ", " : "", columns);
	CHECK_OK(job_parse(text, "csv", NULL, 0, &job, &err), err);
	return job;
}

/* The rows of a file as text, or NULL and the error. */
static char *rows_of(const struct folder *f, const void *text, size_t n, const char *data, const char *columns, weir_error *err)
{
	char path[256];
	struct dataset *d = NULL;
	char *dump = NULL;
	write_bytes(f, "rows.csv", text, n, path);
	struct job *job = csv_job(f, path, data, columns);
	if (dataset_open(&d, job, SPLIT_TRAIN, NULL, err) == WEIR_OK)
		dump = dataset_dump(d, 0);
	dataset_close(d);
	job_destroy(job);
	return dump;
}

static const char small[] = "columns: [{name: y, kind: label}, {name: u, kind: categorical}, {name: n, kind: numeric}]";

/* Files that are read right: each has the rows of the plain one. */
static void the_same_rows_in_any_dress(void **state)
{
	static const struct {
		const char *text, *data;
	} files[] = {{"y,u,n\n1,ab,2\n0,cd,3.5\n", ""},
	             {"y,u,n\r\n1,ab,2\r\n0,cd,3.5\r\n", ""},
	             {"\xef\xbb\xbfy,u,n\n1,ab,2\n0,cd,3.5", ""},
	             {"\"y\",\"u\",\"n\"\n\"1\",\"ab\",\"2\"\n\"0\",\"cd\",\"3.5\"\n", ""},
	             {"\"y\",\"u\",\"n\"\r\n\"1\",\"ab\",\"2\"\r\n\"0\",\"cd\",\"3.5\"\r\n", ""},
	             {"n,y,u\n2,1,ab\n3.5,0,cd\n", ""},

	             {"y,u,n\n\n1,ab,2\n\r\n0,cd,3.5\n\n", ""},
	             {"y\tu\tn\n1\tab\t2\n0\tcd\t3.5\n", "csv: {delimiter: \"\\t\"}"},
	             {"y;u;n\n1;ab;2\n0;cd;3.5\n", "csv: {delimiter: ';'}"},
	             {"1,ab,2\n0,cd,3.5\n", "csv: {header: false}"},
	             {"ab,1,2\ncd,0,3.5\n", "csv: {header: false, names: [u, y, n]}"},
	             {"a,b,c\nab,1,2\ncd,0,3.5\n", "csv: {names: [u, y, n]}"},
	             {"y,u,n\n1,ab,2e0\n-1,cd,+3.50\n", ""}};
	char *first = NULL;
	for (size_t i = 0; i < sizeof files / sizeof *files; i++)
		for (int cached = 0; cached < 2; cached++) {
			weir_error err = {0};
			char data[128];
			snprintf(data, sizeof data, "%s%scache: '%s'", files[i].data, *files[i].data ? ", " : "", cached ? "auto" : "off");
			char *dump = rows_of(*state, files[i].text, strlen(files[i].text), data, small, &err);
			if (!dump)
				fail_msg("'%s': %s", files[i].text, err.text);
			if (!first)
				first = dump;
			if (strcmp(dump, first) != 0)
				fail_msg("'%s' gives\n%s, not\n%s", files[i].text, dump, first);
			if (dump != first)
				free(dump);
		}
	assert_int_equal(count_rows(first), 2);
	free(first);
}

/* Files that are refused, and rows that are bad: the message has the file, the place and the
 * column. */
static void hostile_files_are_refused_with_the_place(void **state)
{
	static const struct {
		const char *text;
		size_t bytes; /* 0: up to the NUL */
		const char *parts[3];
	} files[] = {
	    {"", 0, {"rows.csv is empty; expected a header with the names of the columns"}},
	    {"y,u\r1,a\r0,b\r", 0, {"rows.csv ends its lines with CR alone; expected LF or CRLF"}},
	    {"y,u,u,n\n1,a,a,2\n", 0, {"rows.csv: columns 2 and 3 are both 'u'; expected each name once"}},
	    {"y,u,nn\n1,a,2\n", 0, {"rows.csv has no column 'n', which data.columns names; the nearest is '"}},
	    {"y,u,n,uu\n1,a,2,3\n", 0, {"has the column 'uu', which data.columns does not name; the nearest is 'u'", "kind: ignore"}},
	    {"y,\"u,n\n1,a,2\n", 0, {"rows.csv:1: the name of column 2 has a quote that is not closed"}},
	    {"y,u,n\n1,a,2\n0,b\n", 0, {"rows.csv:3: the row has 2 cells; expected 3"}},
	    {"y,u,n\n1,a,2,9\n0,b,1\n", 0, {"rows.csv:2: the row has 4 cells; expected 3"}},
	    {"y,u,n\n1,a,2\n0,b,x\n", 0, {"rows.csv:3: column 'n': 'x' is not a number"}},
	    {"y,u,n\n1,a,2\n0,b,1e99\n", 0, {"rows.csv:3: column 'n': '1e99' is not a finite number"}},
	    {"y,u,n\n1,a,2\n,b,1\n", 0, {"rows.csv:3: column 'y': the label is not a number"}},
	    {"y,u,n\n1,a,2\n0,\"b\"c,1\n", 0, {"rows.csv:3: column 'u': the value has text after its closing quote"}},
	    {"y,u,n\n1,a,2\n0,\"b,1\n1,a,2\n", 0, {"rows.csv:3: the row has 2 cells"}},
	    {"y,u,n\n1,a,2\n0,b,\"1\n1,a,2\n", 0, {"rows.csv:3: column 'n': the value has a quote that is not closed"}},
	    {"y,u,n\n1,\"a\nb\nc\",2\n0,b,x\n", 0, {"rows.csv:5: column 'n': 'x' is not a number"}},
	    {"y,u,n\n1,a,2\n0,b\0c,1\n", 20, {"rows.csv:3: column 'u': the value has a zero byte"}},
	    {"y,u,n\n1,a,2\n0,\xc3\xa9\xff,1\n", 0, {"rows.csv:3: column 'u': the value is not valid UTF-8"}},
	    {"y,u,n\n1,a,2\n0,\xc3,1\n", 0, {"rows.csv:3: column 'u': the value is not valid UTF-8"}},
	    {"\xff\xfey\0,\0", 6, {"rows.csv is of UTF-16"}},
	    {"PAR1....", 0, {"rows.csv is a Parquet file"}},
	};
	for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
		weir_error err = {0};
		const size_t n = files[i].bytes ? files[i].bytes : strlen(files[i].text);
		char *dump = rows_of(*state, files[i].text, n, "", small, &err);
		if (dump)
			fail_msg("'%s' is taken: %s", files[i].text, dump);
		for (size_t k = 0; k < 3 && files[i].parts[k]; k++)
			CHECK_CONTAINS(err.text, files[i].parts[k]);
	}
}

static void a_huge_cell_is_a_bad_line_and_a_huge_row_an_error(void **state)
{
	const size_t sizes[] = {(64u << 10) + 1, 3u << 20};
	static const char *const said[] = {"rows.csv:2: column 'u': the value is longer than 64 KiB",
	                                   "rows.csv has a row longer than 1048576 bytes: is a quote not closed?"};
	for (int i = 0; i < 2; i++) {
		weir_error err = {0};
		char *text = malloc(sizes[i] + 32);
		int n = sprintf(text, "y,u,n\n1,\"");
		memset(text + n, '\n', sizes[i]);
		n += (int)sizes[i];
		n += sprintf(text + n, "\",2\n0,a,1\n");
		assert_null(rows_of(*state, text, (size_t)n, "", small, &err));
		CHECK_CONTAINS(err.text, said[i]);
		free(text);
	}
}

/* Keys, bags, values, weights and groups of one row of every kind of column. */
static void every_kind_of_column_becomes_what_it_says(void **state)
{
	static const char text[] = HEADER "1,\"a,\"\"b\",p||q|r|s|t,1|2|3,0.5,,user,anything\n0,,,,,1,,\n";
	weir_error err = {0};
	struct parser *p = malloc(sizeof *p);
	uint64_t key[7];
	static const struct {
		uint32_t field;
		const char *value;
	} ids[] = {{0, "a,\"b"}, {1, "p"}, {1, "q"}, {1, "r"}, {0, "2"}, {0, "3"}, {0, ""}};
	parser_init(p, DATA_CSV, 3, 1, 0);
	for (int i = 0; i < 7; i++)
		CHECK_OK(parse_key(p, ids[i].field, ids[i].value, &key[i], &err), err);
	char expected[512];
	snprintf(expected, sizeof expected,
	         "1*2 0x1p-1 | %llx:1 | %llx:0.333333 %llx:0.333333 %llx:0.333333 | %llx:1 %llx:1\n0*1 0x0p+0 | %llx:1 | |\n",
	         (unsigned long long)key[0], (unsigned long long)key[1], (unsigned long long)key[2], (unsigned long long)key[3],
	         (unsigned long long)key[4], (unsigned long long)key[5], (unsigned long long)key[6]);
	for (int cached = 0; cached < 2; cached++) {
		char *dump = rows_of(*state, text, sizeof text - 1, cached ? "" : "cache: 'off'", COLUMNS, &err);
		if (!dump)
			fail_msg("%s", err.text);
		assert_string_equal(dump, expected);
		free(dump);
	}
	free(p);
}

/* A job of two labels. Its model learns one, so the list of the file has one. */
static struct job *two_tasks(const struct folder *f, const char *path, const char *data)
{
	static const char columns[] =
	    "columns: [{name: y, kind: label}, {name: u, kind: categorical}, {name: stars, kind: ignore}, {name: n, kind: numeric}]";
	struct job *job = csv_job(f, path, data, columns);
	job->data.columns[2].kind = COLUMN_LABEL;
	job->data.columns[2].missing = MISSING_MASKED;
	job->data.columns[2].positive_above = 3;
	return job;
}

/* The labels of each row, "1/nan 0/1 ". */
static char *labels_of(struct dataset *d)
{
	char *dump = dataset_dump(d, 0), *at = dump, *out = calloc(1, 4096);
	for (char *line; (line = strsep(&at, "\n")) != NULL && *line;)
		sprintf(out + strlen(out), "%.*s ", (int)strcspn(line, "*"), line);
	free(dump);
	return out;
}

/* Each column of kind label is a task, in the order of the list. */
static void rows_have_a_label_for_each_task(void **state)
{
	static const char text[] = "stars,n,u,y\n4,1,a,0\n,2,b,1\n3,3,a,1\n?,4,b,0\n";
	char path[256];
	write_bytes(*state, "tasks.csv", text, sizeof text - 1, path);
	for (int cached = 0; cached < 2; cached++) {
		struct job *job = two_tasks(*state, path, cached ? "" : "cache: 'off'");
		struct dataset_labels seen;
		struct unit_reader *u;
		uint64_t content;
		weir_error err = {0};
		struct dataset *d = open_part(job, SPLIT_TRAIN);
		char *labels = labels_of(d);
		assert_string_equal(labels, "0/1 1/nan 1/0 0/nan ");
		assert_int_equal(dataset_get_info(d)->tasks, 2);
		CHECK_OK(dataset_see_labels(d, &seen, &err), err);
		assert_int_equal(seen.positive, 3);
		assert_int_equal(seen.negative, 3);
		CHECK_OK(unit_open(&u, d, 0, 0, &err), err);
		CHECK_OK(unit_content(u, &content, &err), err);
		unit_close(u);
		free(labels);
		dataset_close(d);
		job_destroy(job);
	}
}

/* An empty label is a bad line, unless it is masked; rows to score may lack some of the labels. */
static void a_missing_label_is_masked_or_bad(void **state)
{
	static const char text[] = "stars,n,u,y\n4,1,a,\n", few[] = "stars,n,u\n4,1,a\n,2,b\n";
	char path[256];
	weir_error err = {0};
	struct dataset *d = NULL;
	write_bytes(*state, "few.csv", text, sizeof text - 1, path);
	struct job *job = two_tasks(*state, path, "");
	assert_int_equal(dataset_open(&d, job, SPLIT_TRAIN, NULL, &err), WEIR_E_LIMIT);
	CHECK_CONTAINS(err.text, "few.csv:2: column 'y': the label is not a number");
	write_bytes(*state, "few.csv", few, sizeof few - 1, path);
	assert_int_equal(dataset_open(&d, job, SPLIT_TRAIN, NULL, &err), WEIR_E_INVALID);
	CHECK_CONTAINS(err.text, "has no column 'y', which data.columns names");
	CHECK_OK(dataset_open_scored(&d, job, SPLIT_TRAIN, &(struct dataset_scored){0}, NULL, &err), err);
	char *labels = labels_of(d);
	assert_string_equal(labels, "nan/1 nan/nan ");
	free(labels);
	dataset_close(d);
	job_destroy(job);
}

/* `positive` is the text of positive rows, quoted or not; an empty cell has no label. */
static void a_label_may_be_a_text(void **state)
{
	static const char columns[] =
	    "columns: [{name: y, kind: label, positive: '>50K'}, {name: u, kind: categorical}, {name: n, kind: numeric}]";
	static const char texts[] = "y,u,n\n<=50K,a,1\n>50K,b,2\n\">50K\",c,3\n>50K.,d,4\n",
	                  numbers[] = "y,u,n\n0,a,1\n1,b,2\n1,c,3\n0,d,4\n";
	static const char empty[] = "y,u,n\n>50K,a,1\n,b,2\n";
	weir_error err = {0};
	char *dump = rows_of(*state, texts, sizeof texts - 1, "", columns, &err);
	char *same = rows_of(*state, numbers, sizeof numbers - 1, "", small, &err);
	assert_non_null(dump);
	assert_non_null(same);
	assert_string_equal(dump, same);
	free(dump);
	free(same);
	assert_null(rows_of(*state, empty, sizeof empty - 1, "", columns, &err));
	CHECK_CONTAINS(err.text, "rows.csv:3: column 'y': '' is no label; expected a text");
}

/* Criteo's rows as CSV: the same keys and numbers. */
static void criteo_as_csv_gives_the_same_rows(void **state)
{
	size_t n;
	char path[256], columns[4096], *text = criteo_text(3000, 5, &n), *dumps[2];
	int at = sprintf(columns, "csv: {header: false, delimiter: \"\\t\"}, columns: [{name: y, kind: label}");
	for (int i = 0; i < 13; i++)
		at += sprintf(columns + at, ", {name: n%d, kind: numeric, transform: log1p}", i);
	for (int i = 0; i < 26; i++)
		at += sprintf(columns + at, ", {name: c%d, kind: categorical}", i);
	sprintf(columns + at, "]");
	write_bytes(*state, "rows.tsv", text, n, path);
	struct job *job = job_of(*state, DATA_CRITEO, path);
	struct dataset *d = open_part(job, SPLIT_TRAIN);
	dumps[0] = dataset_dump(d, 0);
	dataset_close(d);
	job_of_free(job);
	job = csv_job(*state, path, "", columns);
	d = open_part(job, SPLIT_TRAIN);
	dumps[1] = dataset_dump(d, 0);
	dataset_close(d);
	job_destroy(job);
	assert_true(strcmp(dumps[0], dumps[1]) == 0);
	free(dumps[0]);
	free(dumps[1]);
	free(text);
}

/* A file with newlines inside quotes is cut into many units, in the first and in a later
 * process. */
static void files_with_quotes_are_cut_where_rows_begin(void **state)
{
	char path[256], *text = malloc(1 << 20), *whole = NULL;
	size_t n = (size_t)sprintf(text, "y,u,n\n");
	uint64_t fingerprint = 0;
	for (int i = 0; i < 5000; i++)
		n += (size_t)sprintf(text + n, i % 7 == 0 ? "%d,\"a\n%d,\"\"b\",%d\n" : "%d,u%d,%d\n", i % 2, i, i % 100);
	for (int round = 0; round < 3; round++) {
		weir_error err = {0};
		write_bytes(*state, "cut.csv", text, n, path);
		struct job *job = csv_job(*state, path, round == 0 ? "" : "cache: 'off'", small);
		struct dataset *d = NULL;
		CHECK_OK(dataset_open(&d, job, SPLIT_TRAIN, NULL, &err), err);
		char *dump = dataset_dump(d, 0);
		const struct dataset_info *info = dataset_get_info(d);
		assert_int_equal(count_rows(dump), 5000);
		assert_true(info->units > 100);
		if (round == 2)
			assert_int_equal(info->fingerprint, fingerprint);
		fingerprint = info->fingerprint;
		if (!whole)
			whole = strdup(dump);
		assert_true(strcmp(dump, whole) == 0);
		free(dump);
		dataset_close(d);
		job_destroy(job);
	}
	free(whole);
	free(text);
}

/* Each compression, and a chunk that ends inside quotes. */
static void containers_and_chunks_give_the_same_rows(void **state)
{
	static const char *const names[] = {"c.csv", "c.csv.gz", "c.csv.lz4", "c.csv.zst"};
	char *text = malloc(3 << 20), *first = NULL, path[256];
	size_t n = (size_t)sprintf(text, "y,u,n\n");
	for (int i = 0; n < 2 << 20; i++)
		n += (size_t)sprintf(
		    text + n, "%d,\"%.*s\n\",%d\n", i % 2, i % 90,
		    "aaaaaaaaaaaaaaa,aaaaaaaaaaaaaaaaa\naaaaaaaaaaaaaaaaaaaa\naaaaaaaaaaaaaaaa,aaaaaaaaaaaaaaaaaaaaaaaaaaaa", i);
	for (enum text_kind kind = TEXT_PLAIN; kind <= TEXT_ZSTD; kind++) {
		write_compressed(*state, names[kind], kind, text, n, path);
		struct job *job = csv_job(*state, path, "", small);
		struct dataset *d = open_part(job, SPLIT_TRAIN);
		char *dump = dataset_dump(d, 0);
		first = first ? first : strdup(dump);
		assert_true(strcmp(dump, first) == 0);
		assert_int_equal(dataset_get_info(d)->bad_lines, 0);
		free(dump);
		dataset_close(d);
		job_destroy(job);
	}
	free(first);
	free(text);
}

/* Rows to score need no label, weight or group; each has its line. */
static void rows_to_score_have_lines(void **state)
{
	static const char text[] = "u,n\n\"a\nb\",1\nc,x\n\nd,3\n";
	static const uint64_t lines[] = {2, 4, 5, 6};
	char path[256];
	struct dataset *d;
	struct dataset_lines *l;
	weir_error err = {0};
	const char *file;
	uint64_t line;
	write_bytes(*state, "score.csv", text, sizeof text - 1, path);
	struct job *job = csv_job(*state, path, "", small);
	job->data.bad_lines_max = 10;
	assert_int_equal(dataset_open(&d, job, SPLIT_TRAIN, NULL, &err), WEIR_E_INVALID);
	CHECK_CONTAINS(err.text, "has no column 'y', which data.columns names");
	CHECK_OK(dataset_open_scored(&d, job, SPLIT_TRAIN, &(struct dataset_scored){0}, NULL, &err), err);
	char *dump = dataset_dump(d, 0);
	assert_int_equal(count_rows(dump), 4);
	assert_memory_equal(dump, "nan*1", 5);
	CHECK_CONTAINS(dump, "\n-1*1");
	CHECK_CONTAINS(dump, "\n-2*1");
	CHECK_OK(dataset_lines_open(&l, d, &err), err);
	for (size_t i = 0; i < 4; i++) {
		CHECK_OK(dataset_lines_next(l, &file, &line, &err), err);
		assert_int_equal(line, lines[i]);
	}
	assert_int_equal(dataset_lines_next(l, &file, &line, &err), WEIR_E_NOT_FOUND);
	dataset_lines_close(l);
	free(dump);
	dataset_close(d);
	job_destroy(job);
}

#define DATED                                                                                    \
	"columns: [{name: y, kind: label}, {name: u, kind: categorical}, {name: n, kind: numeric}, " \
	"{name: t, kind: time, format: iso8601}]"

/* The numbers of the part's rows, "3 4 ". */
static char *numbers_of(const struct job *job, enum split_part part, weir_error *err)
{
	struct dataset *d;
	char *dump, *at, *out = calloc(1, 4096);
	CHECK_OK(dataset_open(&d, job, part, NULL, err), *err);
	at = dump = dataset_dump(d, 0);
	for (char *line; (line = strsep(&at, "\n")) != NULL && *line;)
		sprintf(out + strlen(out), "%g ", strtod(strchr(line, ' '), NULL));
	free(dump);
	dataset_close(d);
	return out;
}

static void a_split_by_time_parts_rows_at_its_times(void **state)
{
	static const char text[] = "y,u,n,t\n1,a,1,2026-01-01\n0,a,2,2026-01-03\n1,b,3,2026-01-02\n0,b,4,2026-01-02T23:59:59\n"
	                           "1,c,5,2026-01-01T23:59:59.999Z\n0,c,6,2027-01-01\n1,c,7,soon\n";
	static const char *const expected[] = {"1 5 ", "3 4 ", "2 6 "};
	char path[256];
	write_bytes(*state, "time.csv", text, sizeof text - 1, path);
	for (int cached = 0; cached < 2; cached++) {
		char data[160];
		snprintf(data, sizeof data, "cache: '%s', split: {by: time, valid_from: 2026-01-02, test_from: 2026-01-03}",
		         cached ? "auto" : "off");
		struct job *job = csv_job(*state, path, data, DATED);
		weir_error err = {0};
		struct dataset *d = NULL;
		struct unit_reader *u = NULL;
		const weir_status opened = dataset_open(&d, job, SPLIT_TRAIN, NULL, &err);
		assert_int_equal(cached ? opened : unit_open(&u, d, 0, 0, &err), WEIR_E_LIMIT);
		CHECK_CONTAINS(err.text, "time.csv:8: column 't': 'soon' is no time in the format of its column");
		dataset_close(d);
		job->data.bad_lines_max = 1;
		for (enum split_part part = SPLIT_TRAIN; part <= SPLIT_TEST; part++) {
			char *numbers = numbers_of(job, part, &err);
			assert_string_equal(numbers, expected[part]);
			free(numbers);
		}
		assert_true(job_has_valid(job) && job_has_test(job));
		job_destroy(job);
	}
}

/* All rows of a user are in one part, whatever else they have. */
static void a_split_by_group_keeps_users_together(void **state)
{
	char path[256], *text = malloc(1 << 16);
	size_t n = (size_t)sprintf(text, "y,u,n\n"), rows = 0;
	bool seen[3][40] = {{false}};
	for (int i = 0; i < 1200; i++)
		n += (size_t)sprintf(text + n, "%d,user-%d,%d\n", i % 2, i * 7 % 40, i * 7 % 40);
	write_bytes(*state, "group.csv", text, n, path);
	struct job *job = csv_job(*state, path, "split: {by: group, column: u, train: 2, valid: 1, test: 1}", small);
	for (enum split_part part = SPLIT_TRAIN; part <= SPLIT_TEST; part++) {
		weir_error err = {0};
		char *numbers = numbers_of(job, part, &err), *end;
		for (char *at = numbers; *at; at = end + 1, rows++)
			seen[part][strtol(at, &end, 10)] = true;
		free(numbers);
	}
	for (int user = 0; user < 40; user++)
		assert_int_equal(seen[0][user] + seen[1][user] + seen[2][user], 1);
	assert_int_equal(rows, 1200);
	job_destroy(job);
	free(text);
}

/* All files of a part have the same columns; empty files have no rows. */
static void files_with_other_columns_are_refused(void **state)
{
	char path[256], pattern[256];
	weir_error err = {0};
	struct dataset *d = NULL;
	const struct folder *f = *state;
	write_bytes(f, "many-1.csv", "", 0, path);
	write_bytes(f, "many-2.csv", "y,u,n\n1,a,2\n", 12, path);
	write_bytes(f, "many-3.csv", "y,u,n\n0,b,2\n", 12, path);
	snprintf(pattern, sizeof pattern, "%s/many-*.csv", f->path);
	struct job *job = csv_job(f, pattern, "", small);
	CHECK_OK(dataset_open(&d, job, SPLIT_TRAIN, NULL, &err), err);
	assert_int_equal(dataset_get_info(d)->rows, 2);
	dataset_close(d);
	write_bytes(f, "many-3.csv", "y,n,u\n0,2,b\n", 12, path);
	assert_int_equal(dataset_open(&d, job, SPLIT_TRAIN, NULL, &err), WEIR_E_INVALID);
	CHECK_CONTAINS(err.text, "many-3.csv: column 2 is 'n', and that of");
	job_destroy(job);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_same_rows_in_any_dress),
	    cmocka_unit_test(hostile_files_are_refused_with_the_place),
	    cmocka_unit_test(a_huge_cell_is_a_bad_line_and_a_huge_row_an_error),
	    cmocka_unit_test(every_kind_of_column_becomes_what_it_says),
	    cmocka_unit_test(rows_have_a_label_for_each_task),
	    cmocka_unit_test(a_missing_label_is_masked_or_bad),
	    cmocka_unit_test(a_label_may_be_a_text),
	    cmocka_unit_test(criteo_as_csv_gives_the_same_rows),
	    cmocka_unit_test(files_with_quotes_are_cut_where_rows_begin),
	    cmocka_unit_test(containers_and_chunks_give_the_same_rows),
	    cmocka_unit_test(rows_to_score_have_lines),
	    cmocka_unit_test(a_split_by_time_parts_rows_at_its_times),
	    cmocka_unit_test(a_split_by_group_keeps_users_together),
	    cmocka_unit_test(files_with_other_columns_are_refused),
	};
	return cmocka_run_group_tests_name("data_csv", tests, folder_setup, folder_teardown);
}
