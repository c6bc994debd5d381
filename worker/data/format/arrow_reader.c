#include "worker/data/format/arrow_reader.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/limits.h"
#include "common/base/utf8_sanitize.h"
#include "worker/data/format/arrow_column.h"
#include "worker/data/format/parse.h"

static void unbind(struct arrow_reader *r)
{
	for (uint32_t i = 0; r->columns && i < r->layout->columns; i++)
		arrow_column_destroy(&r->columns[i]);
}

void arrow_reader_destroy(struct arrow_reader *r)
{
	unbind(r);
	free(r->columns);
	free(r->scratch);
	*r = (struct arrow_reader){0};
}

/* --- Binding */

const char *arrow_reader_expects(enum column_kind kind, const struct arrow_column *c)
{
	const struct arrow_column *values = c->is_dictionary ? c->child : c;
	const bool number = values->type >= ARROW_BOOL && values->type <= ARROW_DOUBLE;
	const bool real = values->type == ARROW_FLOAT || values->type == ARROW_DOUBLE;
	const bool text = values->type == ARROW_TEXT || values->type == ARROW_TEXT_LARGE;
	const bool time = values->type >= ARROW_DATE32 && values->type <= ARROW_TIMESTAMP;
	const bool list = arrow_column_is_list(c);
	if (values->type == ARROW_NULL)
		return NULL;
	switch (kind) {
	case COLUMN_LABEL:
	case COLUMN_NUMERIC:
	case COLUMN_WEIGHT:
		return number || text ? NULL : "numbers or texts";
	case COLUMN_TIME:
		return text || time || (number && !real) ? NULL : "timestamps, dates, integers or texts";
	case COLUMN_MULTI:
	case COLUMN_SEQUENCE:
		if (list) {
			const char *why = arrow_reader_expects(COLUMN_CATEGORICAL, c->child);
			return why ? "lists of texts, integers or booleans" : NULL;
		}
		return text || (number && !real) ? NULL : "lists, texts or integers";
	case COLUMN_IGNORE:
		return NULL;
	default:
		return !list && (text || time || (number && !real)) ? NULL : "texts, integers or booleans";
	}
}

static weir_status bind_column(struct arrow_reader *r, uint32_t i, const struct ArrowSchema *schema,
                               const struct ArrowArray *batch, weir_error *err)
{
	const char *name = r->layout->names[i];
	int64_t k = 0;
	while (k < schema->n_children && (!schema->children[k]->name || strcmp(schema->children[k]->name, name) != 0))
		k++;
	if (k == schema->n_children)
		return weir_fail(err, WEIR_E_INVALID, "the batch has no column '%.60s', which data.columns names", name);
	weir_status status = arrow_column_bind(&r->columns[i], name, schema->children[k], batch->children[k], err);
	if (status != WEIR_OK)
		return status;
	if (r->columns[i].length < batch->offset + batch->length)
		return weir_fail(err, WEIR_E_INVALID, "column '%.60s' has fewer rows than its batch", name);
	const char *expected = arrow_reader_expects(r->layout->kinds[i], &r->columns[i]);
	return expected ? weir_fail(err, WEIR_E_INVALID, "column '%.60s' is of kind %s and of another type; expected %s", name,
	                            column_kind_name(r->layout->kinds[i]), expected)
	                : WEIR_OK;
}

weir_status arrow_reader_begin(struct arrow_reader *r, const struct table_layout *layout, const struct ArrowSchema *schema,
                               const struct ArrowArray *batch, weir_error *err)
{
	unbind(r);
	r->layout = layout;
	if (!r->columns)
		r->columns = calloc(layout->columns, sizeof *r->columns);
	if (!r->columns)
		return weir_fail(err, WEIR_E_MEMORY, "out of memory for rows");
	memset(r->columns, 0, layout->columns * sizeof *r->columns);
	if (!schema->format || strcmp(schema->format, "+s") != 0 || schema->n_children != batch->n_children || batch->length < 0 ||
	    batch->offset < 0 || (batch->n_children > 0 && (!schema->children || !batch->children)))
		return weir_fail(err, WEIR_E_INVALID, "the batch is no table: expected a struct of columns");
	if (batch->n_buffers > 0 && batch->buffers && batch->buffers[0] && batch->null_count != 0)
		return weir_fail(err, WEIR_E_UNSUPPORTED, "the batch has rows that are null as a whole");
	weir_status status = WEIR_OK;
	for (uint32_t i = 0; i < layout->columns && status == WEIR_OK; i++)
		if (layout->kinds[i] != COLUMN_IGNORE)
			status = bind_column(r, i, schema, batch, err);
	r->first = r->row = batch->offset;
	r->end = status == WEIR_OK ? batch->offset + batch->length : r->row;
	return status;
}

bool arrow_reader_next(struct arrow_reader *r)
{
	return r->row < r->end && r->row++ >= r->first;
}

void arrow_reader_seek(struct arrow_reader *r, int64_t i)
{
	r->row = r->first + i + 1;
}

/* --- Texts */

static bool reserve(struct arrow_reader *r, size_t n)
{
	const size_t needed = r->scratch_used + n + PARSE_SLACK;
	if (needed <= r->scratch_capacity)
		return true;
	char *larger = realloc(r->scratch, needed * 2);
	if (!larger)
		return false;
	r->scratch = larger;
	r->scratch_capacity = needed * 2;
	return true;
}

/* Whether a text is of ASCII without zero bytes. The bytes behind it, up to a word, are
 * readable. */
static bool is_plain(const char *text, size_t n)
{
	const uint64_t high = 0x8080808080808080u, low = 0x0101010101010101u;
	uint64_t word, bad = 0;
	for (size_t i = 0; i < n; i += sizeof word) {
		memcpy(&word, text + i, sizeof word);
		const uint64_t found = (word | ((word - low) & ~word)) & high;
		bad |= n - i < sizeof word ? found << (8 * (sizeof word - (n - i))) : found;
	}
	return bad == 0;
}

static const char *append_text(struct arrow_reader *r, const struct arrow_column *c, int64_t i)
{
	int64_t begin, end;
	arrow_column_range(c, i, &begin, &end);
	const size_t n = (size_t)(end - begin);
	if (n > WEIR_CELL_BYTES_MAX)
		return "is longer than 64 KiB";
	if (!reserve(r, n))
		return "needs more memory than there is";
	char *to = r->scratch + r->scratch_used;
	if (n > 0)
		memcpy(to, c->text + begin, n);
	r->scratch_used += n;
	if (is_plain(to, n))
		return NULL;
	return memchr(to, 0, n) ? "has a zero byte" : utf8_is_valid(to, n) ? NULL : "is not valid UTF-8";
}

/* Appends the text of an element that is no list. as_number: booleans are 1 and 0. */
static const char *append_value(struct arrow_reader *r, const struct arrow_column *c, int64_t i, bool as_number)
{
	if (c->is_dictionary) {
		i = arrow_column_place(c, i);
		c = c->child;
		if (i < 0)
			return "has an index outside its dictionary";
		if (arrow_column_is_null(c, i))
			return NULL;
	}
	if (c->type == ARROW_TEXT || c->type == ARROW_TEXT_LARGE)
		return append_text(r, c, i);
	if (!reserve(r, ARROW_NUMBER_BYTES))
		return "needs more memory than there is";
	char *to = r->scratch + r->scratch_used;
	if (c->type == ARROW_FLOAT || c->type == ARROW_DOUBLE)
		r->scratch_used +=
		    (size_t)snprintf(to, ARROW_NUMBER_BYTES, "%.*g", c->type == ARROW_FLOAT ? 9 : 17, arrow_column_real(c, i));
	else
		r->scratch_used += arrow_column_integer_text(c, i, as_number, to);
	return NULL;
}

static const char *append_list(struct arrow_reader *r, const struct arrow_column *c, int64_t i)
{
	int64_t begin, end;
	const char *bad = NULL;
	arrow_column_range(c, i, &begin, &end);
	for (; begin < end && !bad; begin++) {
		if (!arrow_column_is_null(c->child, begin))
			bad = append_value(r, c->child, begin, false);
		if (!reserve(r, 1))
			return "needs more memory than there is";
		r->scratch[r->scratch_used++] = 0;
		if (r->scratch_used > WEIR_CELL_BYTES_MAX)
			return "is longer than 64 KiB";
	}
	return bad;
}

/* --- Cells */

const char *arrow_reader_cell(struct arrow_reader *r, uint32_t i, struct cell *out)
{
	const struct arrow_column *c = &r->columns[i];
	const enum column_kind kind = r->layout->kinds[i];
	const bool as_number = kind == COLUMN_NUMERIC || kind == COLUMN_WEIGHT;
	const int64_t row = r->row - 1;
	r->scratch_used = 0;
	if (!reserve(r, 0))
		return "needs more memory than there is";
	*out = (struct cell){.text = r->scratch};
	if (kind == COLUMN_IGNORE || arrow_column_is_null(c, row))
		return NULL;
	if (as_number && arrow_column_is_number(c)) {
		const double value = arrow_column_real(c, row);
		*out = (struct cell){.text = r->scratch, .form = CELL_NUMBER, .number = (float)value};
		if (isfinite(out->number))
			return NULL;
	}
	if (kind == COLUMN_TIME && c->type >= ARROW_DATE32 && c->type <= ARROW_TIMESTAMP) {
		*out = (struct cell){.text = r->scratch, .form = CELL_TIME, .time_ms = arrow_column_ms(c, row)};
		return NULL;
	}
	const bool list = arrow_column_is_list(c);
	const char *bad = list ? append_list(r, c, row) : append_value(r, c, row, as_number || kind == COLUMN_LABEL);
	*out = (struct cell){.text = r->scratch, .n = r->scratch_used, .form = list ? CELL_LIST : CELL_TEXT};
	return bad;
}

struct cell arrow_reader_text(struct arrow_reader *r)
{
	const int64_t row = r->row - 1;
	r->scratch_used = 0;
	for (uint32_t i = 0; i < r->layout->columns; i++) {
		const struct arrow_column *c = &r->columns[i];
		if (r->layout->kinds[i] == COLUMN_IGNORE)
			continue;
		if (!arrow_column_is_null(c, row))
			(void)(arrow_column_is_list(c) ? append_list(r, c, row) : append_value(r, c, row, false));
		if (!reserve(r, 1))
			break;
		r->scratch[r->scratch_used++] = 0;
	}
	return (struct cell){.text = r->scratch, .n = r->scratch_used};
}
