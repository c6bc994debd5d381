/* weir inspect: what the columns of data look like, and a job that trains on them; or whether a
 * job's columns suit its data. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/core/options.h"
#include "cli/core/verbs.h"
#include "cli/verbs/inspect_job.h"
#include "common/web/json.h"
#include "worker/data/inspect/job_draft.h"

enum { PATTERNS = 16 };
#define SAMPLE_BYTES (32ull << 20)

struct inspect {
	const char *patterns[PATTERNS];
	uint32_t patterns_count;
	uint64_t bytes;
	const char *delimiter, *header;
	bool as_json;
	struct job_options job;
};

struct table {
	struct sources sources;
	struct column_source *source;
	const struct table_layout *layout; /* of the source */
	struct column_profile *profiles;   /* (layout->columns) */
	struct column_guess *guesses;      /* (layout->columns) */
	int64_t label;
};

static void table_destroy(struct table *t)
{
	if (t->source)
		t->source->ops->close(t->source);
	free(t->profiles);
	free(t->guesses);
	sources_destroy(&t->sources);
}

static weir_status read_rows(struct table *t, weir_error *err)
{
	weir_status status;
	while ((status = t->source->ops->next(t->source, err)) == WEIR_OK)
		for (uint32_t i = 0; i < t->layout->columns; i++) {
			struct cell cell;
			if (t->source->ops->cell(t->source, i, &cell))
				column_profile_add_broken(&t->profiles[i]);
			else
				column_profile_add(&t->profiles[i], &cell);
		}
	for (uint32_t i = 0; i < t->layout->columns; i++)
		t->profiles[i].type = t->source->types[i];
	return status == WEIR_E_NOT_FOUND ? WEIR_OK : status;
}

static weir_status table_read(struct table *t, const struct inspect *o, weir_error *err)
{
	struct column_source_options sample = {.bytes = o->bytes, .delimiter = o->delimiter ? o->delimiter[0] : '\0'};
	if (o->header)
		sample.header = strcmp(o->header, "true") == 0 ? HEADER_THERE : HEADER_ABSENT;
	weir_status status = sources_find(&t->sources, (char *const *)o->patterns, o->patterns_count, SOURCES_AS_GIVEN, NULL, err);
	if (status == WEIR_OK)
		status = column_source_open(&t->source, &t->sources, &sample, err);
	if (status != WEIR_OK)
		return status;
	t->layout = t->source->layout;
	t->profiles = calloc(t->layout->columns, sizeof *t->profiles);
	t->guesses = calloc(t->layout->columns, sizeof *t->guesses);
	if (!t->profiles || !t->guesses)
		return weir_fail(err, WEIR_E_MEMORY, "no memory for the profiles of %u columns", t->layout->columns);
	status = read_rows(t, err);
	if (status == WEIR_OK && t->profiles[0].rows == 0)
		status = weir_fail(err, WEIR_E_INVALID, "%s has no row%s", t->sources.items[0].path,
		                   t->layout->header ? " below its header" : " that can be read");
	if (status == WEIR_OK)
		t->label = columns_guess(t->guesses, t->layout->names, t->profiles, t->layout->columns);
	return status;
}

/* --- Results */

static struct json *column_json(const struct table *t, uint32_t i)
{
	const struct column_profile *p = &t->profiles[i];
	const struct column_guess *g = &t->guesses[i];
	struct json *j = json_create();
	json_set_text(j, "name", t->layout->names[i]);
	json_set_text(j, "values", column_values_name(p));
	if (p->type.is != TYPE_REFUSED) {
		json_set_count(j, "empty", p->empty);
		json_set_real(j, "distinct", hyperloglog_count(&p->distinct));
	}
	if (p->whole + p->real > 0 && p->whole + p->real == column_profile_given(p)) {
		json_set_real(j, "low", p->low);
		json_set_real(j, "high", p->high);
	}
	json_set_empty_list(j, "examples");
	for (uint32_t v = 0; v < p->values_count; v++)
		json_append_text(j, "examples", p->values[v].text);
	json_set_text(j, "kind", column_kind_name(g->kind));
	if (g->share >= 0)
		json_set_text(j, "share", t->layout->names[g->share]);
	json_set_text(j, "why", g->why);
	return j;
}

static weir_status print_json(const struct table *t, weir_error *err)
{
	const struct column_sample *s = &t->source->sample;
	struct json *j = json_create();
	json_set_text(j, "format", table_rows_name(t->layout->rows));
	json_set_count(j, "files", s->files);
	json_set_count(j, "bytes", s->bytes_all);
	json_set_count(j, "sample.bytes", s->bytes);
	json_set_count(j, "sample.rows", t->profiles[0].rows);
	json_set_count(j, "sample.rows_left_out", s->unread);
	json_set_count(j, "sample.places_left_out", s->skipped);
	json_set_empty_list(j, "columns");
	for (uint32_t i = 0; i < t->layout->columns; i++)
		json_append(j, "columns", column_json(t, i));
	const weir_status status = j ? json_print(j, stdout, err) : weir_fail(err, WEIR_E_MEMORY, "no memory for the result");
	json_destroy(j);
	return status;
}

static void print_draft(const struct inspect *o, const struct table *t)
{
	const struct job_draft draft = {.patterns = o->patterns,
	                                .patterns_count = o->patterns_count,
	                                .source = t->source,
	                                .profiles = t->profiles,
	                                .guesses = t->guesses,
	                                .label = t->label};
	job_draft_write(stdout, &draft);
	fflush(stdout);
	if (t->label < 0)
		fprintf(stderr, "weir inspect: no column looks like a label: give the one to be predicted kind: label\n");
}

static weir_status inspect_data(const struct inspect *o, weir_error *err)
{
	struct table t = {0};
	weir_status status = table_read(&t, o, err);
	if (status == WEIR_OK && o->as_json)
		status = print_json(&t, err);
	else if (status == WEIR_OK)
		print_draft(o, &t);
	table_destroy(&t);
	return status;
}

/* --- The verb */

static weir_status check_options(struct inspect *o, weir_error *err)
{
	while (o->patterns_count < PATTERNS && o->patterns[o->patterns_count])
		o->patterns_count++;
	if (o->patterns_count == 0 && !o->job.path)
		return weir_fail(err, WEIR_E_INVALID, "needs the names of files, or --job JOB.yaml");
	if (o->patterns_count > 0 && o->job.path)
		return weir_fail(err, WEIR_E_INVALID,
		                 "takes either files or --job, whose data.train names them: --set data.train=FILE names others");
	if (o->job.path && (o->delimiter || o->header || o->as_json))
		return weir_fail(err, WEIR_E_INVALID, "--job says how the files are written: leave out --delimiter, --header and --json");
	if (o->delimiter && strlen(o->delimiter) != 1)
		return weir_fail(err, WEIR_E_INVALID, "--delimiter is '%s'; expected one character", o->delimiter);
	if (o->header && strcmp(o->header, "true") != 0 && strcmp(o->header, "false") != 0)
		return weir_fail(err, WEIR_E_INVALID, "--header is '%s'; expected true or false", o->header);
	if (o->bytes == 0)
		return weir_fail(err, WEIR_E_INVALID, "--sample is 0; expected a number of bytes");
	return WEIR_OK;
}

int verb_inspect(int count, char **args)
{
	struct inspect o = {.bytes = SAMPLE_BYTES};
	weir_error err = {0};
	const struct option options[] = {
	    JOB_OPTIONS(&o.job),
	    {"--sample", OPTION_COUNT, &o.bytes, "BYTES", "how much of the files to read (32Mi)"},
	    {"--delimiter", OPTION_TEXT, &o.delimiter, "CHARACTER", "between two cells of CSV; else recognised"},
	    {"--header", OPTION_TEXT, &o.header, "true|false", "whether the first row of CSV names the columns; else recognised"},
	    {"--json", OPTION_FLAG, &o.as_json, NULL, "what the columns look like, as JSON"}};
	weir_status status = options_parse(count, args, options, sizeof options / sizeof *options, o.patterns, PATTERNS, &err);
	if (status == WEIR_OK)
		status = check_options(&o, &err);
	if (status != WEIR_OK)
		return verb_usage("inspect", &err);
	status = o.job.path ? inspect_job(&o.job, o.bytes, &err) : inspect_data(&o, &err);
	return status == WEIR_OK ? EXIT_SUCCESS : verb_fail("inspect", &err);
}
