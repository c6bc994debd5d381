#include "cli/verbs/inspect_job.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "worker/data/format/parse_table.h"
#include "worker/data/format/table_layout.h"
#include "worker/data/inspect/column_profile.h"
#include "worker/data/inspect/column_source.h"
#include "worker/data/remote/remote.h"

#define BAD_ROWS_SHOWN  5u
#define ROWS_THAT_TELL  1000.0 /* fewer do not show whether values come again */
#define OTHER_EACH_TIME 0.97
#define LARGE_NUMBER    1000.0 /* of an input without a transform */

struct job_inspection {
	const struct job *job;
	struct sources sources;
	struct column_source *source;
	struct table_layout *layout;
	struct parser *parser;
	struct rows rows;                /* the current row */
	struct column_profile *profiles; /* (layout->columns) */
	uint64_t good, bad;
	uint64_t labelled[WEIR_TASKS_MAX], positive[WEIR_TASKS_MAX]; /* rows by label */
	uint32_t wrong;
};

WEIR_PRINTF(3, 4) static void tell(struct job_inspection *j, bool wrong, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	fputs(wrong ? "WRONG  " : "note   ", stdout);
	vprintf(format, args);
	putchar('\n');
	va_end(args);
	j->wrong += wrong;
}

/* --- Reading */

static void parse_row(struct job_inspection *j)
{
	char why[PARSE_WHY_BYTES], place[COLUMN_PLACE_BYTES];
	rows_clear(&j->rows);
	const enum parsed parsed = j->source->ops->parse(j->source, j->parser, &j->rows, why);
	j->good += parsed == PARSED_ROW;
	for (uint32_t t = 0; t < j->parser->tasks && parsed == PARSED_ROW; t++) {
		j->labelled[t] += !isnan(j->rows.labels[t]);
		j->positive[t] += j->rows.labels[t] > 0;
	}
	if (parsed == PARSED_ROW || parsed == PARSED_NOTHING || j->bad++ >= BAD_ROWS_SHOWN)
		return;
	j->source->ops->place(j->source, place);
	printf("bad    %s: %s\n", place, why);
}

static weir_status read_rows(struct job_inspection *j, weir_error *err)
{
	weir_status status;
	while ((status = j->source->ops->next(j->source, err)) == WEIR_OK) {
		parse_row(j);
		for (uint32_t i = 0; i < j->layout->columns; i++) {
			struct cell cell;
			if (!j->source->ops->cell(j->source, i, &cell))
				column_profile_add(&j->profiles[i], &cell);
		}
	}
	return status == WEIR_E_NOT_FOUND ? WEIR_OK : status;
}

static weir_status open_data(struct job_inspection *j, uint64_t bytes, weir_error *err)
{
	const struct job *job = j->job;
	for (uint32_t i = 0; i < job->data.train_count; i++)
		if (remote_is(job->data.train[i]))
			return weir_fail(err, WEIR_E_UNSUPPORTED,
			                 "%s is remote: copy a file of it here, and name it by --set data.train=FILE", job->data.train[i]);
	weir_status status = sources_find(&j->sources, job->data.train, job->data.train_count, SOURCES_BY_PATH, NULL, err);
	if (status == WEIR_OK)
		status = sources_check_format(&j->sources, job->data.format, err);
	if (status == WEIR_OK)
		status = table_layout_open(&j->layout, job, &j->sources, false, err);
	if (status != WEIR_OK)
		return status;
	const struct column_source_options sample = {.bytes = bytes, .layout = j->layout};
	status = column_source_open(&j->source, &j->sources, &sample, err);
	if (status != WEIR_OK)
		return status;
	j->profiles = calloc(j->layout->columns, sizeof *j->profiles);
	j->parser = malloc(sizeof *j->parser);
	if (!j->profiles || !j->parser)
		return weir_fail(err, WEIR_E_MEMORY, "no memory for the profiles of %u columns", j->layout->columns);
	parse_table_init(j->parser, j->layout, job);
	rows_init(&j->rows, parser_shape(j->parser), parser_bags(j->parser));
	return WEIR_OK;
}

/* --- What is worth a look */

static void look_at_ids(struct job_inspection *j, const struct job_column *c, const struct column_profile *p)
{
	const double given = (double)column_profile_given(p), different = hyperloglog_count(&p->distinct);
	if (c->kind == COLUMN_CATEGORICAL && given > ROWS_THAT_TELL && different > OTHER_EACH_TIME * given)
		tell(j, false, "%s: %.0f different values in %.0f rows: a model learns nothing of values that come once; kind: ignore?",
		     c->name, different, given);
	if (c->kind == COLUMN_CATEGORICAL && p->values_count == 1 && !p->values_more)
		tell(j, false, "%s: '%s' in each row: it tells nothing", c->name, p->values[0].text);
	if (c->kind == COLUMN_CATEGORICAL)
		return;
	const char *separator = strchr(PROFILE_SEPARATORS, c->separator[0]);
	if (separator && *separator && p->lists == 0 && p->having[separator - PROFILE_SEPARATORS] == 0)
		tell(j, false, "%s: no value has the separator '%s': is it another character?", c->name, c->separator);
	if ((p->lists > 0 || p->list.separator == c->separator[0]) && p->list.longest_list > c->max_length)
		tell(j, false, "%s: lists of up to %u ids are cut to max_length: %u", c->name, p->list.longest_list, c->max_length);
}

static void look_at_numbers(struct job_inspection *j, const struct job_column *c, const struct column_profile *p)
{
	const double most = fmax(fabs(p->low), fabs(p->high));
	if (p->values_count == 1 && !p->values_more && p->empty == 0)
		tell(j, false, "%s: %s in each row: it tells nothing", c->name, p->values[0].text);
	else if (c->transform == TRANSFORM_NONE && most > LARGE_NUMBER)
		tell(j, false, "%s: from %g to %g, without a transform: such numbers drown the others", c->name, p->low, p->high);
}

static void look_at_columns(struct job_inspection *j)
{
	for (uint32_t i = 0; i < j->layout->columns; i++) {
		const struct job_column *c = job_column_find(j->job, j->layout->names[i]);
		const struct column_profile *p = &j->profiles[i];
		if (c && c->kind != COLUMN_IGNORE && column_profile_given(p) == 0)
			tell(j, false, "%s: always empty", c->name);
		else if (c && job_column_is_field(c))
			look_at_ids(j, c, p);
		else if (c && c->kind == COLUMN_NUMERIC)
			look_at_numbers(j, c, p);
	}
}

static void look_at_rows(struct job_inspection *j)
{
	const uint64_t bad = j->bad;
	if (j->good == 0)
		tell(j, true, "no row of the sample can be read");
	else if (bad > j->job->data.bad_lines_max)
		tell(j, true, "%" PRIu64 " bad rows in the sample alone, more than data.bad_lines_max %" PRIu64, bad,
		     j->job->data.bad_lines_max);
	else if (bad > 0)
		tell(j, false, "%" PRIu64 " bad rows in the sample; they are left out", bad);
}

static void look_at_labels(struct job_inspection *j)
{
	for (uint32_t t = 0; t < j->parser->tasks && j->good > 0; t++) {
		const char *name = job_column_label(j->job, t)->name;
		const uint64_t positive = j->positive[t], labelled = j->labelled[t];
		if (positive == 0 || positive == labelled)
			tell(j, true, "%s: all %" PRIu64 " rows of the sample with a label are %s: there is nothing to tell apart", name,
			     labelled, positive == 0 ? "negative" : "positive");
		else
			printf("ok     %s: %.2f %% of %" PRIu64 " rows are positive\n", name, 100 * (double)positive / (double)labelled,
			       labelled);
	}
}

static weir_status check(struct job_inspection *j, uint64_t bytes, weir_error *err)
{
	weir_status status = job_check_own(j->job, err);
	if (status == WEIR_OK && !data_format_has_columns(j->job->data.format))
		return weir_fail(err, WEIR_E_UNSUPPORTED,
		                 "weir inspect looks at columns with names, which the job's data.format does not have; weir check reads "
		                 "its first rows");
	if (status == WEIR_OK)
		status = open_data(j, bytes, err);
	if (status == WEIR_OK)
		status = read_rows(j, err);
	if (status != WEIR_OK)
		return status;
	look_at_rows(j);
	look_at_labels(j);
	look_at_columns(j);
	if (j->good > 0)
		printf("ok     %" PRIu64 " rows of a sample of %.1f MB can be read\n", j->good, (double)j->source->sample.bytes / 1e6);
	return j->wrong == 0
	           ? WEIR_OK
	           : weir_fail(err, WEIR_E_INVALID, "%u thing%s wrong: see above", j->wrong, j->wrong == 1 ? " is" : "s are");
}

weir_status inspect_job(const struct job_options *options, uint64_t bytes, weir_error *err)
{
	struct job *job = NULL;
	struct job_inspection j = {0};
	weir_status status = job_options_load(options, &job, err);
	j.job = job;
	if (status == WEIR_OK)
		status = check(&j, bytes, err);
	if (j.source)
		j.source->ops->close(j.source);
	rows_destroy(&j.rows);
	free(j.profiles);
	free(j.parser);
	table_layout_close(j.layout);
	sources_destroy(&j.sources);
	job_destroy(job);
	return status;
}
