#include "worker/data/format/parse_table.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/hash.h"
#include "common/base/limits.h"
#include "worker/data/format/parse_internal.h"

/* parse_token_key reads a word at each id, also at those of a default. */
_Static_assert(sizeof(struct job_column) - offsetof(struct job_column, empty) >= WEIR_COLUMN_VALUE_BYTES_MAX + sizeof(uint64_t),
               "a word at the end of a default is inside its column");

/* A row being parsed. */
struct parsing {
	const struct parser *parser;
	const struct table_layout *layout;
	struct row_reader *reader;
	struct rows *out;
	char *why; /* (PARSE_WHY_BYTES) */
};

#define VALUE_SHOWN  40
#define BUCKET_BYTES 32u

/* Reports a cell: its column, its value and what is wrong with it. */
static enum parsed bad_cell(const struct parsing *g, uint32_t cell, const struct cell *value, const char *what)
{
	const int shown = value->n < VALUE_SHOWN ? (int)value->n : VALUE_SHOWN;
	snprintf(g->why, PARSE_WHY_BYTES, "column '%.60s': '%.*s'%s %s", g->layout->names[cell], shown, value->text,
	         value->n > VALUE_SHOWN ? "..." : "", what);
	return PARSED_BAD;
}

static bool is_empty(const struct cell *cell)
{
	return cell->n == 0 && (cell->form == CELL_TEXT || cell->form == CELL_LIST);
}

static bool number_of(const struct cell *cell, float *out)
{
	if (cell->form != CELL_NUMBER)
		return parse_real(cell->text, cell->n, out);
	*out = cell->number;
	return true;
}

/* False: it is no time of this form. */
static bool time_of(const struct cell *cell, const struct job_column *column, int64_t *ms)
{
	if (cell->form != CELL_TIME)
		return job_column_time_read(column, cell->text, cell->n, ms);
	*ms = cell->time_ms;
	return true;
}

/* Takes a cell; an empty one has the value `empty`. */
static enum parsed take(const struct parsing *g, uint32_t cell, const char *empty, struct cell *out)
{
	const char *bad = row_reader_cell(g->reader, cell, out);
	if (bad) {
		snprintf(g->why, PARSE_WHY_BYTES, "column '%.60s': the value %s", g->layout->names[cell], bad);
		return PARSED_BAD;
	}
	if (is_empty(out) && *empty)
		*out = (struct cell){.text = empty, .n = strlen(empty)};
	return PARSED_ROW;
}

/* --- Labels, weights, groups, numbers */

/* A label that is positive if it is a text; a row to score may lack it. */
static enum parsed parse_text_label(const struct parsing *g, const struct table_label *label, const struct cell *cell, float *out)
{
	if (cell->n == 0 && !g->parser->every_line)
		return bad_cell(g, label->cell, cell, "is no label; expected a text");
	if (cell->n > 0)
		*out = strlen(label->positive) == cell->n && memcmp(label->positive, cell->text, cell->n) == 0 ? 1.0f : 0.0f;
	return PARSED_ROW;
}

static enum parsed parse_cell_label(const struct parsing *g, const struct table_label *label, float *out)
{
	struct cell cell;
	char why[PARSE_WHY_BYTES];
	*out = LABEL_NONE;
	if (label->cell == TABLE_NO_COLUMN)
		return PARSED_ROW;
	enum parsed read = take(g, label->cell, label->empty, &cell);
	if (read != PARSED_ROW || (label->masked && parse_says_unknown(cell.text, cell.n)))
		return read;
	if (*label->positive)
		return parse_text_label(g, label, &cell, out);
	read = parse_label(g->parser, label->positive_above, cell.text, cell.n, out, why);
	if (read != PARSED_ROW)
		snprintf(g->why, PARSE_WHY_BYTES, "column '%.24s': %.120s", g->layout->names[label->cell], why);
	return read;
}

static enum parsed parse_labels(const struct parsing *g, float *out)
{
	enum parsed read = PARSED_ROW;
	for (uint32_t t = 0; t < g->layout->labels_count && read == PARSED_ROW; t++)
		read = parse_cell_label(g, &g->layout->labels[t], &out[t]);
	return read;
}

static enum parsed parse_weight(const struct parsing *g, float *out)
{
	const struct table_layout *l = g->layout;
	struct cell cell;
	*out = 1.0f;
	if (l->weight == TABLE_NO_COLUMN)
		return PARSED_ROW;
	const enum parsed read = take(g, l->weight, "", &cell);
	if (read != PARSED_ROW)
		return read;
	if (is_empty(&cell) && !isnan(l->weight_missing))
		*out = l->weight_missing;
	else if (!number_of(&cell, out) || *out < 0)
		return bad_cell(g, l->weight, &cell, "is no weight; expected a number from 0");
	return PARSED_ROW;
}

static enum parsed parse_group(const struct parsing *g, uint64_t *out)
{
	struct cell cell;
	*out = 0;
	if (g->layout->group == TABLE_NO_COLUMN)
		return PARSED_ROW;
	const enum parsed read = take(g, g->layout->group, g->layout->group_empty, &cell);
	if (read == PARSED_ROW && cell.n > 0)
		*out = hash_bytes(cell.text, cell.n, 0);
	return read;
}

static enum parsed parse_time(const struct parsing *g)
{
	const struct table_layout *l = g->layout;
	struct cell cell;
	int64_t ms;
	const enum parsed read = take(g, l->split, l->split_column->empty, &cell);
	if (read == PARSED_ROW && !time_of(&cell, l->split_column, &ms))
		return bad_cell(g, l->split, &cell, "is no time in the format of its column");
	return read;
}

/* log(1 + max(x, 0)), from the table for small whole numbers. */
static float log_of(const struct parser *p, float x)
{
	const uint32_t whole = x > 0 && x < (float)PARSE_LOG_TABLE ? (uint32_t)x : 0;
	return x <= 0 ? 0.0f : (float)whole == x ? p->log_table[whole] : log1pf(x);
}

static enum parsed parse_numbers(const struct parsing *g, float *out)
{
	const struct table_layout *l = g->layout;
	struct cell cell;
	for (uint32_t j = 0; j < l->dense_count; j++) {
		const struct table_feature *f = &l->dense[j];
		const enum parsed read = take(g, f->cell, "", &cell);
		if (read != PARSED_ROW)
			return read;
		if (is_empty(&cell))
			out[j] = f->missing;
		else if (!number_of(&cell, &out[j]))
			return bad_cell(g, f->cell, &cell,
			                parse_is_not_finite(cell.text, cell.n) ? "is not a finite number" : "is not a number");
		if (f->column->transform == TRANSFORM_LOG1P)
			out[j] = log_of(g->parser, out[j]);
	}
	return PARSED_ROW;
}

/* --- Ids */

/* The key of an id of a field; 8 bytes must be readable at the id. */
static uint64_t key_of(const struct parser *p, const struct table_feature *f, const char *id, size_t n)
{
	return f->vocabulary ? vocabulary_key(f->vocabulary, f->key_field, id, n) : parse_token_key(p, f->key_field, id, n);
}

static char separator_of(const struct table_feature *f, const struct cell *cell)
{
	return cell->form == CELL_LIST ? '\0' : f->column->separator[0];
}

static uint32_t count_ids(const struct cell *cell, char separator)
{
	uint32_t count = 0;
	for (size_t i = 0; i < cell->n; i++)
		count += cell->text[i] != separator && (i == 0 || cell->text[i - 1] == separator);
	return count;
}

/* Appends the keys of ids [first, first + count) of a cell. */
static void append_ids(const struct parsing *g, const struct table_feature *f, const struct cell *cell, uint32_t first,
                       uint32_t count)
{
	struct rows *out = g->out;
	const char *at = cell->text, *end = at + cell->n, separator = separator_of(f, cell);
	const float value = f->column->pooling == POOLING_MEAN && count > 1 ? 1.0f / (float)count : 1.0f;
	for (uint32_t id = 0; id < first + count; at++) {
		const char *stop = memchr(at, separator, (size_t)(end - at));
		const size_t n = (size_t)((stop ? stop : end) - at);
		if (n > 0 && id++ >= first) {
			out->values[out->keys_count] = value;
			out->keys[out->keys_count++] = key_of(g->parser, f, at, n);
		}
		at += n;
	}
	out->valued |= value != 1.0f;
}

static enum parsed parse_bag(const struct parsing *g, const struct table_feature *f)
{
	const struct job_column *c = f->column;
	struct cell cell;
	const enum parsed read = take(g, f->cell, c->empty, &cell);
	if (read != PARSED_ROW)
		return read;
	const uint32_t ids = count_ids(&cell, separator_of(f, &cell)), count = ids < c->max_length ? ids : c->max_length;
	if (g->out->keys_count > UINT32_MAX - count || !rows_reserve(g->out, count))
		return parse_bad(g->why, PARSE_OUT_OF_MEMORY);
	append_ids(g, f, &cell, c->kind == COLUMN_SEQUENCE ? ids - count : 0, count);
	g->out->one_hot &= count == 1;
	return PARSED_ROW;
}

/* Writes the bucket of a number, "0" to "N": the boundaries that are not above it. */
static size_t bucket_text(const struct job_column *c, float x, char out[BUCKET_BYTES])
{
	uint32_t low = 0, high = c->boundaries_count; /* all before low are at most x, all from high on above */
	while (low < high) {
		const uint32_t middle = low + (high - low) / 2;
		if (c->boundaries[middle] <= x)
			low = middle + 1;
		else
			high = middle;
	}
	return (size_t)snprintf(out, BUCKET_BYTES, "%" PRIu32, low);
}

/* Takes the bucket of a number in place of it; an empty cell stays one. */
static enum parsed take_bucket(const struct parsing *g, const struct table_feature *f, char text[BUCKET_BYTES], struct cell *cell)
{
	float x;
	if (is_empty(cell)) {
		*cell = (struct cell){.text = text};
		return PARSED_ROW;
	}
	if (!number_of(cell, &x))
		return bad_cell(g, f->cell, cell,
		                parse_is_not_finite(cell->text, cell->n) ? "is not a finite number" : "is not a number");
	*cell = (struct cell){.text = text, .n = bucket_text(f->column, x, text)};
	return PARSED_ROW;
}

/* Reads the cell of an id and hashes it. */
static enum parsed read_key(const struct parsing *g, const struct table_feature *f, uint64_t *out)
{
	struct cell cell;
	char bucket[BUCKET_BYTES] = "";
	enum parsed read = take(g, f->cell, f->column->empty, &cell);
	if (read == PARSED_ROW && f->column->kind == COLUMN_NUMERIC)
		read = take_bucket(g, f, bucket, &cell);
	if (read == PARSED_ROW)
		*out = key_of(g->parser, f, cell.text, cell.n);
	return read;
}

static enum parsed parse_id(const struct parsing *g, const struct table_feature *f)
{
	struct rows *out = g->out;
	struct arrow_key *kept = row_reader_key(g->reader, f->cell), own = {0};
	struct arrow_key *key = kept ? kept : &own;
	if (!key->known) {
		const enum parsed read = read_key(g, f, &key->key);
		if (read != PARSED_ROW)
			return read;
		key->known = true;
	}
	if (out->bags) {
		if (out->keys_count == UINT32_MAX || !rows_reserve(out, 1))
			return parse_bad(g->why, PARSE_OUT_OF_MEMORY);
		out->values[out->keys_count] = 1.0f;
	}
	out->keys[out->keys_count++] = key->key;
	return PARSED_ROW;
}

static enum parsed parse_fields(const struct parsing *g)
{
	const struct table_layout *l = g->layout;
	const size_t before = g->out->keys_count;
	for (uint32_t f = 0; f < l->fields_count; f++) {
		const struct table_feature *field = &l->fields[f];
		const bool bag = field->column->kind == COLUMN_MULTI || field->column->kind == COLUMN_SEQUENCE;
		const enum parsed read = bag ? parse_bag(g, field) : parse_id(g, field);
		if (read != PARSED_ROW)
			return read;
		if (g->out->keys_count - before > WEIR_FEATURES_PER_ROW_MAX)
			return parse_bad(g->why, "more ids than a row may have");
		if (g->out->bags)
			g->out->offsets[(size_t)g->out->count * l->fields_count + f + 1] = (uint32_t)g->out->keys_count;
	}
	return PARSED_ROW;
}

/* --- Rows */

static enum parsed parse_cells(const struct parsing *g)
{
	struct rows *out = g->out;
	float weight;
	uint64_t group;
	enum parsed read = parse_labels(g, out->labels + (size_t)out->count * out->tasks);
	if (read == PARSED_ROW)
		read = parse_weight(g, &weight);
	if (read == PARSED_ROW)
		read = parse_group(g, &group);
	if (read == PARSED_ROW && g->layout->split_is_time)
		read = parse_time(g);
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
	if (is_empty(&cell))
		cell = (struct cell){.text = l->split_column->empty, .n = strlen(l->split_column->empty)};
	if (!s->by_time)
		return split_line(s, cell.text, cell.n);
	return time_of(&cell, l->split_column, &ms) ? split_time(s, ms) : SPLIT_TRAIN;
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
	char bucket[BUCKET_BYTES];
	float x;
	if (k->vocabulary) {
		*key = vocabulary_key(k->vocabulary, k->field, value, strlen(value));
		return WEIR_OK;
	}
	if (k->column->kind == COLUMN_NUMERIC && *value) {
		if (!parse_real(value, strlen(value), &x))
			return weir_fail(err, WEIR_E_INVALID, "the value is '%.60s'; expected a number, as '%.60s' has buckets", value,
			                 k->column->name);
		(void)bucket_text(k->column, x, bucket);
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
