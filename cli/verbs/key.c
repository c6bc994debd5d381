/* weir key: the key of an id, as the formats of click data derive it, for programs that read or
 * write rows of a job's tables. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/core/options.h"
#include "cli/core/verbs.h"
#include "worker/data/format/parse_table.h"

enum { WORDS = 2 };

static weir_status read_field(const char *text, uint32_t *out, weir_error *err)
{
	char *end;
	errno = 0;
	const unsigned long long n = strtoull(text, &end, 10);
	if (errno || end == text || *end || *text == '-' || n >= WEIR_FIELDS_MAX)
		return weir_fail(err, WEIR_E_INVALID, "FIELD is '%s'; expected a whole number from 0 to %u", text, WEIR_FIELDS_MAX - 1);
	*out = (uint32_t)n;
	return WEIR_OK;
}

static weir_status choose_format(const char *name, enum data_format *out, weir_error *err)
{
	static const struct {
		const char *name;
		enum data_format format;
	} formats[] = {{"criteo", DATA_CRITEO}, {"libsvm", DATA_LIBSVM}, {"libffm", DATA_LIBFFM}};
	for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
		if (strcmp(name, formats[i].name) == 0) {
			*out = formats[i].format;
			return WEIR_OK;
		}
	return weir_fail(err, WEIR_E_INVALID, "--format is %s; expected criteo, libsvm or libffm", name);
}

/* The key of a value of a column of the job. */
static weir_status key_of_column(const struct job *job, const char *name, const char *value, uint64_t *key, weir_error *err)
{
	const struct job_column *c = job_column_find(job, name);
	if (c && job_column_is_field(c)) {
		struct column_keys *keys = NULL;
		weir_status status = column_keys_open(&keys, job, c, err);
		if (status == WEIR_OK)
			status = column_keys_get(keys, value, key, err);
		column_keys_close(keys);
		return status;
	}
	const char **names = calloc(job->data.columns_count, sizeof *names);
	uint32_t count = 0;
	for (uint32_t i = 0; names && i < job->data.columns_count; i++)
		if (job_column_is_field(&job->data.columns[i]))
			names[count++] = job->data.columns[i].name;
	const char *nearest = names ? job_nearest(name, names, count) : NULL;
	free(names);
	if (c)
		return weir_fail(err, WEIR_E_INVALID, "the column '%s' is of kind %s, which has no ids", name, column_kind_name(c->kind));
	return weir_fail(err, WEIR_E_NOT_FOUND, "data.columns has no column '%s'%s%s%s", name, nearest ? "; the nearest is '" : "",
	                 nearest ? nearest : "", nearest ? "'" : "");
}

/* A job's data say more than the options' defaults: the format, and its columns. */
static weir_status key_by_job(const struct job_options *o, const char *const words[WORDS], struct parser *p, uint64_t *key,
                              weir_error *err)
{
	uint32_t field;
	struct job *job = NULL;
	weir_status status = job_options_load(o, &job, err);
	if (status == WEIR_OK)
		status = job_check_own(job, err);
	const enum data_format format = status == WEIR_OK ? job->data.format : DATA_CRITEO;
	if (format == DATA_PACKED || format == DATA_TEXT || format == DATA_TOKENS)
		status =
		    weir_fail(err, WEIR_E_UNSUPPORTED,
		              "the job's data.format has keys that no longer tell their ids; give --format of the lines they are from");
	if (status == WEIR_OK && data_format_has_columns(format)) {
		status = key_of_column(job, words[0], words[1], key, err);
	} else if (status == WEIR_OK) {
		parser_init(p, format, job->data.fields, job->data.dense, job->data.hash_buckets);
		status = read_field(words[0], &field, err);
		if (status == WEIR_OK)
			status = parse_key(p, field, words[1], key, err);
	}
	job_destroy(job);
	return status;
}

int verb_key(int count, char **args)
{
	struct job_options jo = {0};
	const char *format = NULL, *words[WORDS] = {0};
	uint64_t buckets = 0, key;
	uint32_t field = 0;
	enum data_format known = DATA_CRITEO;
	struct parser *p = calloc(1, sizeof *p);
	weir_error err = {0};
	const struct option options[] = {JOB_OPTIONS(&jo),
	                                 {"--format", OPTION_TEXT, &format, "FORMAT",
	                                  "criteo, libsvm or libffm (the job's, or criteo); COLUMN is for a job of CSV"},
	                                 {"--hash-buckets", OPTION_COUNT, &buckets, "N", "as data.hash_buckets (the job's, or 0)"}};
	weir_status status = options_parse(count, args, options, sizeof options / sizeof *options, words, WORDS, &err);
	if (status == WEIR_OK && !words[1])
		status = weir_fail(&err, WEIR_E_INVALID, "needs FIELD and VALUE, or with --job of CSV a COLUMN and VALUE");
	if (status == WEIR_OK && jo.path && (format || buckets))
		status = weir_fail(&err, WEIR_E_INVALID, "--job gives the format and the buckets: leave out --format and --hash-buckets");
	if (status == WEIR_OK && !jo.path)
		status = read_field(words[0], &field, &err);
	if (status == WEIR_OK && format)
		status = choose_format(format, &known, &err);
	if (status != WEIR_OK) {
		free(p);
		return verb_usage("key", &err);
	}
	if (!p)
		status = weir_fail(&err, WEIR_E_MEMORY, "no memory");
	else if (jo.path)
		status = key_by_job(&jo, words, p, &key, &err);
	else
		parser_init(p, known, 0, 0, buckets);
	if (status == WEIR_OK && !jo.path)
		status = parse_key(p, field, words[1], &key, &err);
	if (status == WEIR_OK)
		printf("%" PRIu64 "\n", key);
	free(p);
	return status == WEIR_OK ? EXIT_SUCCESS : verb_fail("key", &err);
}
