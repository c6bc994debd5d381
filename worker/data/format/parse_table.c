#include "worker/data/format/parse_table.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/limits.h"
#include "worker/data/format/parse_cell.h"
#include "worker/data/format/parse_internal.h"

/* --- Rows */

static enum parsed parse_labels(const struct parsing *g, float *out)
{
	enum parsed read = PARSED_ROW;
	for (uint32_t t = 0; t < g->layout->labels_count && read == PARSED_ROW; t++)
		read = parse_cell_label(g, &g->layout->labels[t], &out[t]);
	return read;
}

static enum parsed parse_numbers(const struct parsing *g, float *out)
{
	enum parsed read = PARSED_ROW;
	for (uint32_t j = 0; j < g->layout->dense_count && read == PARSED_ROW; j++)
		read = parse_cell_number(g, &g->layout->dense[j], &out[j]);
	return read;
}

static enum parsed parse_id(const struct parsing *g, const struct table_feature *f)
{
	struct rows *out = g->out;
	uint64_t key;
	const enum parsed read = parse_cell_key(g, f, &key);
	if (read != PARSED_ROW)
		return read;
	if (out->bags) {
		if (out->keys_count == UINT32_MAX || !rows_reserve(out, 1))
			return parse_bad(g->why, PARSE_OUT_OF_MEMORY);
		out->values[out->keys_count] = 1.0f;
	}
	out->keys[out->keys_count++] = key;
	return PARSED_ROW;
}

static enum parsed parse_fields(const struct parsing *g)
{
	const struct table_layout *l = g->layout;
	const size_t before = g->out->keys_count;
	for (uint32_t f = 0; f < l->fields_count; f++) {
		const struct table_feature *field = &l->fields[f];
		const bool bag = field->column->kind == COLUMN_MULTI || field->column->kind == COLUMN_SEQUENCE;
		const enum parsed read = bag ? parse_cell_bag(g, field) : parse_id(g, field);
		if (read != PARSED_ROW)
			return read;
		if (g->out->keys_count - before > WEIR_FEATURES_PER_ROW_MAX)
			return parse_bad(g->why, "more ids than a row may have");
		if (g->out->bags)
			g->out->offsets[(size_t)g->out->count * l->fields_count + f + 1] = (uint32_t)g->out->keys_count;
	}
	return PARSED_ROW;
}

static enum parsed parse_cells(const struct parsing *g)
{
	struct rows *out = g->out;
	float weight;
	uint64_t group;
	enum parsed read = parse_labels(g, out->labels + (size_t)out->count * out->tasks);
	if (read == PARSED_ROW)
		read = parse_cell_weight(g, &weight);
	if (read == PARSED_ROW)
		read = parse_cell_group(g, &group);
	if (read == PARSED_ROW && g->layout->split_is_time)
		read = parse_cell_time(g);
	if (read == PARSED_ROW)
		read = parse_numbers(g, out->dense + (size_t)out->count * out->dense_dim);
	if (read == PARSED_ROW)
		read = parse_fields(g);
	if (read != PARSED_ROW || !out->bags)
		return read;
	out->weights[out->count] = weight;
	out->groups[out->count] = group;
	out->weighted |= weight != 1.0f;
	out->grouped |= group != 0;
	return PARSED_ROW;
}

void parse_table_init(struct parser *p, const struct table_layout *layout, const struct job *job)
{
	parser_init(p, job->data.format, layout->fields_count, layout->dense_count, job->data.hash_buckets);
	p->layout = layout;
	p->tasks = layout->labels_count;
	p->positive_above = job->data.positive_above;
}

enum split_part parse_table_part(const struct parser *p, const struct split *s, struct row_reader *r, const struct cell *row)
{
	const struct table_layout *l = p->layout;
	struct cell cell;
	int64_t ms;
	if (!s->on)
		return SPLIT_TRAIN;
	if (!s->by_column) {
		const struct cell text = row_reader_text(r, row);
		return split_line(s, text.text, text.n);
	}
	char why[PARSE_WHY_BYTES];
	if (!row_reader_is_whole(r, why) || row_reader_cell(r, l->split, &cell))
		return SPLIT_TRAIN;
	if (parse_cell_is_empty(&cell))
		cell = (struct cell){.text = l->split_column->empty, .n = strlen(l->split_column->empty)};
	if (!s->by_time)
		return split_line(s, cell.text, cell.n);
	return parse_cell_ms(&cell, l->split_column, &ms) ? split_time(s, ms) : SPLIT_TRAIN;
}

enum parsed parse_table(const struct parser *p, struct row_reader *r, struct rows *out, char why[PARSE_WHY_BYTES])
{
	const struct parsing g = {.parser = p, .layout = p->layout, .reader = r, .out = out, .why = why};
	const size_t keys = out->keys_count;
	if (row_reader_is_blank(r))
		return PARSED_NOTHING;
	if (!row_reader_is_whole(r, why))
		return PARSED_BAD;
	if (!rows_reserve(out, p->fields))
		return parse_bad(why, PARSE_OUT_OF_MEMORY);
	const enum parsed read = parse_cells(&g);
	if (read == PARSED_ROW)
		out->count++;
	else
		out->keys_count = keys;
	return read;
}

/* --- Keys alone */

struct column_keys {
	const struct job_column *column;
	uint32_t field;
	struct vocabulary *vocabulary; /* NULL: ids are hashed */
	struct parser parser;
};

weir_status column_keys_open(struct column_keys **out, const struct job *job, const struct job_column *c, weir_error *err)
{
	const struct job_column *owner = c->share[0] ? job_column_find(job, c->share) : c;
	struct column_keys *k = calloc(1, sizeof *k);
	if (!k)
		return weir_fail(err, WEIR_E_MEMORY, "out of memory for keys");
	k->column = c;
	k->field = job_column_key_field(job, c);
	parser_init(&k->parser, job->data.format, 0, 0, job->data.hash_buckets);
	if (owner->vocabulary[0]) {
		const weir_status status = vocabulary_open(&k->vocabulary, owner->vocabulary, job->data.hash_buckets, err);
		if (status != WEIR_OK) {
			free(k);
			return status;
		}
	}
	*out = k;
	return WEIR_OK;
}

weir_status column_keys_get(const struct column_keys *k, const char *value, uint64_t *key, weir_error *err)
{
	char bucket[PARSE_BUCKET_BYTES];
	float x;
	if (k->vocabulary) {
		*key = vocabulary_key(k->vocabulary, k->field, value, strlen(value));
		return WEIR_OK;
	}
	if (k->column->kind == COLUMN_NUMERIC && *value) {
		if (!parse_real(value, strlen(value), &x))
			return weir_fail(err, WEIR_E_INVALID, "the value is '%.60s'; expected a number, as '%.60s' has buckets", value,
			                 k->column->name);
		(void)parse_cell_bucket(k->column, x, bucket);
		value = bucket;
	}
	return parse_key(&k->parser, k->field, value, key, err);
}

void column_keys_close(struct column_keys *k)
{
	if (!k)
		return;
	vocabulary_close(k->vocabulary);
	free(k);
}
