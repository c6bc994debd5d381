/* weir/columns.h over the readers of a job's data. A batch's schema is the stream's: it is asked
 * for once. */
#include "weir/columns.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker/client/api_struct.h"
#include "worker/data/format/column_scales.h"
#include "worker/data/format/parse_batch.h"
#include "worker/data/format/parse_table.h"

#define WHAT "the stream"

struct weir_columns {
	struct job *job;
	struct table_layout *layout;
	struct parser parser;
	struct row_reader reader;
	struct parse_batch *columns;
	struct column_scales scales;
	struct rows rows;
	struct ArrowArrayStream stream;
	struct ArrowSchema schema;
	/* before: of the last batch, which parse_batch may still compare with */
	struct ArrowArray batch, before;
	uint64_t rows_before; /* the batch */
	uint64_t bad_rows;
	char first_bad[PARSE_WHY_BYTES + 32];
	weir_error failure;
};

/* --- The description */

/* A job with the data of the description, which begins its text, so that mistakes have its
 * lines. */
static weir_status parse_data(struct job **out, const char *data, weir_error *err)
{
	static const char *const sets[] = {"data.format=arrow", "data.train=" WHAT};
	static const char rest[] = "\njob: columns\nmodel: {kind: mmoe}\n";
	if (strstr(data, "${"))
		return weir_fail(err, WEIR_E_INVALID, "the description of the columns has ${...}, which only job files have");
	const size_t bytes = strlen(data) + sizeof "data: " + sizeof rest;
	char *text = malloc(bytes);
	if (!text)
		return weir_fail(err, WEIR_E_MEMORY, "out of memory for the description of the columns");
	snprintf(text, bytes, "data: %s%s", data, rest);
	weir_status status = job_parse(text, "columns", sets, sizeof sets / sizeof *sets, out, err);
	free(text);
	if (status == WEIR_OK && ((*out)->data.columns_count == 0 || (*out)->data.split.by != SPLIT_NONE)) {
		status = weir_fail(err, WEIR_E_INVALID, "the description of the columns %s",
		                   (*out)->data.columns_count == 0 ? "has no columns" : "has a split: a stream is one part");
		job_destroy(*out);
	}
	return status;
}

static weir_status fail_stream(struct ArrowArrayStream *stream, weir_error *err)
{
	const char *why = stream->get_last_error ? stream->get_last_error(stream) : NULL;
	return weir_fail(err, WEIR_E_IO, WHAT " of columns fails: %.400s", why && *why ? why : "it does not say why");
}

static weir_status open_layout(struct weir_columns *c, struct ArrowArrayStream *stream, weir_error *err)
{
	weir_status status = stream->get_schema(stream, &c->schema) == 0 ? WEIR_OK : fail_stream(stream, err);
	if (status == WEIR_OK)
		status = table_layout_of_schema(&c->layout, c->job, &c->schema, WHAT, err);
	if (status == WEIR_OK)
		status = column_scales_take(&c->scales, c->job, err);
	if (status != WEIR_OK)
		return status;
	parse_table_init(&c->parser, c->layout, c->job);
	rows_init(&c->rows, parser_shape(&c->parser), parser_bags(&c->parser));
	return parse_batch_create(&c->columns, &c->parser, &c->reader, err);
}

weir_status weir_columns_open(weir_columns **out, const char *data, struct ArrowArrayStream *stream, weir_error *err)
{
	if (!stream->release)
		return weir_fail(err, WEIR_E_INVALID, WHAT " of columns is released: a stream is read once");
	struct weir_columns *c = calloc(1, sizeof *c);
	if (!c)
		return weir_fail(err, WEIR_E_MEMORY, "out of memory for columns");
	weir_status status = parse_data(&c->job, data, err);
	if (status != WEIR_OK)
		c->job = NULL;
	else
		status = open_layout(c, stream, err);
	if (status != WEIR_OK) {
		weir_columns_close(c);
		return status;
	}
	c->stream = *stream;
	stream->release = NULL;
	*out = c;
	return WEIR_OK;
}

static void release(struct ArrowArray *a)
{
	if (a->release)
		a->release(a);
	a->release = NULL;
}

void weir_columns_close(weir_columns *c)
{
	if (!c)
		return;
	parse_batch_destroy(c->columns);
	row_reader_destroy(&c->reader);
	rows_destroy(&c->rows);
	column_scales_destroy(&c->scales);
	release(&c->batch);
	release(&c->before);
	if (c->schema.release)
		c->schema.release(&c->schema);
	if (c->stream.release)
		c->stream.release(&c->stream);
	table_layout_close(c->layout);
	job_destroy(c->job);
	free(c);
}

/* --- Batches */

static void note_bad(struct weir_columns *c, int64_t row, const char *why)
{
	if (c->bad_rows++ == 0)
		snprintf(c->first_bad, sizeof c->first_bad, "row %" PRIu64 ": %s", c->rows_before + (uint64_t)row + 1, why);
}

/* Appends the rows at[0 .. n) that were read; the odd ones singly. */
static weir_status append_rows(struct weir_columns *c, const int64_t *at, uint32_t n, weir_error *err)
{
	char why[PARSE_WHY_BYTES];
	for (uint32_t j = 0, run; j < n; j += run) {
		run = 1;
		if (parse_batch_is_odd(c->columns, j)) {
			arrow_reader_seek(&c->reader.arrow, at[j]);
			if (parse_table(&c->parser, &c->reader, &c->rows, why) != PARSED_ROW)
				note_bad(c, at[j], why);
			continue;
		}
		while (j + run < n && !parse_batch_is_odd(c->columns, j + run))
			run++;
		if (!parse_batch_append(c->columns, j, run, &c->rows))
			return weir_fail(err, WEIR_E_MEMORY, "out of memory for rows");
	}
	return WEIR_OK;
}

static weir_status parse_rows(struct weir_columns *c, weir_error *err)
{
	int64_t at[PARSE_BATCH_ROWS];
	weir_status status = row_reader_begin_batch(&c->reader, c->layout, &c->schema, &c->batch, err);
	if (status == WEIR_OK)
		status = parse_batch_begin(c->columns, c->batch.length, err);
	for (int64_t row = 0; row < c->batch.length && status == WEIR_OK; row += PARSE_BATCH_ROWS) {
		const int64_t left = c->batch.length - row;
		const uint32_t n = left < PARSE_BATCH_ROWS ? (uint32_t)left : PARSE_BATCH_ROWS;
		for (uint32_t i = 0; i < n; i++)
			at[i] = row + i;
		status = parse_batch_read(c->columns, at, n, err);
		if (status == WEIR_OK)
			status = append_rows(c, at, n, err);
	}
	c->rows_before += (uint64_t)c->batch.length;
	return status;
}

/* Reads batches until one has a good row, or to the end. */
static weir_status read_batch(struct weir_columns *c, weir_error *err)
{
	weir_status status = WEIR_OK;
	rows_clear(&c->rows);
	do {
		release(&c->before);
		c->before = c->batch;
		c->batch = (struct ArrowArray){0};
		if (c->stream.get_next(&c->stream, &c->batch) != 0) {
			c->batch.release = NULL;
			return fail_stream(&c->stream, err);
		}
		if (c->batch.release)
			status = parse_rows(c, err);
	} while (status == WEIR_OK && c->batch.release && c->rows.count == 0);
	column_scales_apply(&c->scales, c->rows.dense, c->rows.count, c->rows.dense_dim);
	return status;
}

weir_status weir_columns_next(weir_columns *c, weir_columns_rows *rows, weir_error *err)
{
	const weir_status status = api_struct_check(API_weir_columns_rows, rows, err);
	if (status != WEIR_OK)
		return status;
	if (!c->failure.status)
		(void)read_batch(c, &c->failure);
	if (c->failure.status)
		return weir_fail(err, c->failure.status, "%s", c->failure.text);
	const struct rows_view v = rows_as_view(&c->rows);
	const weir_columns_rows found = {.rows = v.count,
	                                 .keys_count = v.keys_count,
	                                 .bad_rows = c->bad_rows,
	                                 .tasks = v.tasks,
	                                 .fields = v.fields,
	                                 .dense_dim = v.dense_dim,
	                                 .labels = v.labels,
	                                 .weights = v.weights,
	                                 .dense = v.dense,
	                                 .offsets = v.offsets,
	                                 .keys = v.keys,
	                                 .values = v.values,
	                                 .groups = v.groups,
	                                 .first_bad = c->first_bad};
	api_struct_write(API_weir_columns_rows, rows, &found);
	return WEIR_OK;
}
