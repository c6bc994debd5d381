#include "worker/data/format/parse_cell.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "common/base/hash.h"
#include "common/base/limits.h"
#include "worker/data/format/parse_internal.h"

/* parse_token_key reads a word at each id, also at those of a default. */
_Static_assert(sizeof(struct job_column) - offsetof(struct job_column, empty) >= WEIR_COLUMN_VALUE_BYTES_MAX + sizeof(uint64_t),
               "a word at the end of a default is inside its column");

#define VALUE_SHOWN 40

/* Reports a cell: its column, its value and what is wrong with it. */
static enum parsed bad_cell(const struct parsing *g, uint32_t cell, const struct cell *value, const char *what)
{
	const int shown = value->n < VALUE_SHOWN ? (int)value->n : VALUE_SHOWN;
	snprintf(g->why, PARSE_WHY_BYTES, "column '%.60s': '%.*s'%s %s", g->layout->names[cell], shown, value->text,
	         value->n > VALUE_SHOWN ? "..." : "", what);
	return PARSED_BAD;
}

static bool number_of(const struct cell *cell, float *out)
{
	if (cell->form != CELL_NUMBER)
		return parse_real(cell->text, cell->n, out);
	*out = cell->number;
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
	if (parse_cell_is_empty(out) && *empty)
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

enum parsed parse_cell_label(const struct parsing *g, const struct table_label *label, float *out)
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

enum parsed parse_cell_weight(const struct parsing *g, float *out)
{
	const struct table_layout *l = g->layout;
	struct cell cell;
	*out = 1.0f;
	if (l->weight == TABLE_NO_COLUMN)
		return PARSED_ROW;
	const enum parsed read = take(g, l->weight, "", &cell);
	if (read != PARSED_ROW)
		return read;
	if (parse_cell_is_empty(&cell) && !isnan(l->weight_missing))
		*out = l->weight_missing;
	else if (!number_of(&cell, out) || *out < 0)
		return bad_cell(g, l->weight, &cell, "is no weight; expected a number from 0");
	return PARSED_ROW;
}

enum parsed parse_cell_group(const struct parsing *g, uint64_t *out)
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

enum parsed parse_cell_time(const struct parsing *g)
{
	const struct table_layout *l = g->layout;
	struct cell cell;
	int64_t ms;
	const enum parsed read = take(g, l->split, l->split_column->empty, &cell);
	if (read == PARSED_ROW && !parse_cell_ms(&cell, l->split_column, &ms))
		return bad_cell(g, l->split, &cell, "is no time in the format of its column");
	return read;
}

enum parsed parse_cell_number(const struct parsing *g, const struct table_feature *f, float *out)
{
	struct cell cell;
	const enum parsed read = take(g, f->cell, "", &cell);
	if (read != PARSED_ROW)
		return read;
	if (parse_cell_is_empty(&cell))
		*out = f->missing;
	else if (!number_of(&cell, out))
		return bad_cell(g, f->cell, &cell, parse_is_not_finite(cell.text, cell.n) ? "is not a finite number" : "is not a number");
	if (f->column->transform == TRANSFORM_LOG1P)
		*out = parse_cell_log(g->parser, *out);
	return PARSED_ROW;
}

/* --- Ids */

uint64_t parse_cell_id(const struct parser *p, const struct table_feature *f, const char *id, size_t n)
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
			out->keys[out->keys_count++] = parse_cell_id(g->parser, f, at, n);
		}
		at += n;
	}
	out->valued |= value != 1.0f;
}

enum parsed parse_cell_bag(const struct parsing *g, const struct table_feature *f)
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

size_t parse_cell_bucket(const struct job_column *c, float x, char out[PARSE_BUCKET_BYTES])
{
	uint32_t low = 0, high = c->boundaries_count; /* all before low are at most x, all from high on above */
	while (low < high) {
		const uint32_t middle = low + (high - low) / 2;
		if (c->boundaries[middle] <= x)
			low = middle + 1;
		else
			high = middle;
	}
	return (size_t)snprintf(out, PARSE_BUCKET_BYTES, "%" PRIu32, low);
}

/* Takes the bucket of a number in place of it; an empty cell stays one. */
static enum parsed take_bucket(const struct parsing *g, const struct table_feature *f, char text[PARSE_BUCKET_BYTES],
                               struct cell *cell)
{
	float x;
	if (parse_cell_is_empty(cell)) {
		*cell = (struct cell){.text = text};
		return PARSED_ROW;
	}
	if (!number_of(cell, &x))
		return bad_cell(g, f->cell, cell,
		                parse_is_not_finite(cell->text, cell->n) ? "is not a finite number" : "is not a number");
	*cell = (struct cell){.text = text, .n = parse_cell_bucket(f->column, x, text)};
	return PARSED_ROW;
}

enum parsed parse_cell_key(const struct parsing *g, const struct table_feature *f, uint64_t *out)
{
	struct cell cell;
	char bucket[PARSE_BUCKET_BYTES] = "";
	enum parsed read = take(g, f->cell, f->column->empty, &cell);
	if (read == PARSED_ROW && f->column->kind == COLUMN_NUMERIC)
		read = take_bucket(g, f, bucket, &cell);
	if (read == PARSED_ROW)
		*out = parse_cell_id(g->parser, f, cell.text, cell.n);
	return read;
}
