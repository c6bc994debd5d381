#include "worker/data/format/json_reader.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/limits.h"
#include "worker/data/format/parse_internal.h"

void json_reader_destroy(struct json_reader *r)
{
	free(r->cells);
	json_scan_destroy(&r->scan);
	*r = (struct json_reader){0};
}

bool json_reader_begin(struct json_reader *r, const struct table_layout *layout, const char *data, size_t size)
{
	if (!r->cells)
		r->cells = calloc(layout->columns, sizeof *r->cells);
	r->layout = layout;
	r->at = data;
	r->end = data + size;
	r->lines = 0;
	return r->cells;
}

/* --- Faults. Each sets `why` and returns false. */

static bool fail_column(struct json_reader *r, uint32_t column, const char *what)
{
	snprintf(r->scan.why, sizeof r->scan.why, "column '%.60s': %s", r->layout->names[column], what);
	return false;
}

static bool fail_unknown(struct json_reader *r, const char *key, size_t n)
{
	const struct table_layout *l = r->layout;
	char name[WEIR_COLUMN_NAME_BYTES_MAX];
	snprintf(name, sizeof name, "%.*s", n < sizeof name ? (int)n : 0, key);
	const char *nearest = job_nearest(name, (const char *const *)l->names, l->columns);
	snprintf(r->scan.why, sizeof r->scan.why, "the key '%.40s', which data.columns does not name%s%.40s%s", name,
	         nearest ? "; the nearest is '" : "", nearest ? nearest : "", nearest ? "'" : "");
	return false;
}

/* --- Values */

/* Whether a column's true and false are 1 and 0. */
static bool takes_numbers(enum column_kind kind)
{
	return kind == COLUMN_LABEL || kind == COLUMN_NUMERIC || kind == COLUMN_WEIGHT;
}

/* Takes a list after its bracket. Zero bytes separate its elements. */
static bool take_list(struct json_reader *r, uint32_t column, struct cell *out)
{
	struct json_scan *s = &r->scan;
	const enum column_kind kind = r->layout->kinds[column];
	const size_t used = s->scratch_used;
	struct cell element;
	if (kind != COLUMN_MULTI && kind != COLUMN_SEQUENCE)
		return fail_column(r, column, "a list; expected one value");
	if (!json_scan_char(s, ']'))
		do {
			json_scan_space(s);
			if (json_scan_peek(s) == '[' || json_scan_peek(s) == '{')
				return fail_column(r, column, "a list or an object in a list; expected texts or numbers");
			if (!json_scan_scalar(s, false, true, &element))
				return false;
			s->scratch[s->scratch_used++] = 0;
		} while (json_scan_char(s, ','));
	if (s->scratch_used > used && !json_scan_char(s, ']'))
		return json_scan_fail(s, "',' or ']'");
	*out = (struct cell){.text = s->scratch + used, .n = s->scratch_used - used, .form = CELL_LIST};
	return true;
}

static bool take_value(struct json_reader *r, uint32_t column)
{
	struct json_scan *s = &r->scan;
	struct cell *cell = &r->cells[column];
	const enum column_kind kind = r->layout->kinds[column];
	json_scan_space(s);
	if (kind == COLUMN_IGNORE)
		return json_scan_skip(s);
	if (json_scan_peek(s) == '{')
		return fail_column(r, column, "an object; expected a text, a number, true, false, null or a list of those");
	const bool list = json_scan_peek(s) == '[';
	if (!(list ? (s->at++, take_list(r, column, cell)) : json_scan_scalar(s, takes_numbers(kind), false, cell)))
		return false;
	return cell->n <= WEIR_CELL_BYTES_MAX || fail_column(r, column, "the value is longer than 64 KiB");
}

/* --- Lines */

/* Finds the column of a key: mostly the one after that of the key before. */
static bool find_column(const struct json_reader *r, const struct cell *key, uint32_t *column)
{
	const struct table_layout *l = r->layout;
	for (uint32_t i = 0; i < l->columns; i++) {
		*column = (r->expected + i) % l->columns;
		if (strncmp(l->names[*column], key->text, key->n) == 0 && l->names[*column][key->n] == 0)
			return true;
	}
	return false;
}

/* Takes the value behind a key. */
static bool take_member(struct json_reader *r, const struct cell *key)
{
	uint32_t column;
	if (!find_column(r, key, &column))
		return fail_unknown(r, key->text, key->n);
	r->expected = column + 1;
	if (r->cells[column].text)
		return fail_column(r, column, "the line has it twice");
	r->cells[column] = (struct cell){.text = r->scan.end};
	return take_value(r, column);
}

static void take_line(struct json_reader *r)
{
	struct cell key;
	while (json_scan_key(&r->scan, &key) && take_member(r, &key))
		;
}

bool json_reader_next(struct json_reader *r, struct cell *text, uint64_t *line)
{
	struct json_scan *s = &r->scan;
	if (r->at >= r->end)
		return false;
	const char *newline = memchr(r->at, '\n', (size_t)(r->end - r->at));
	const size_t n = (size_t)((newline ? newline : r->end) - r->at);
	*text = (struct cell){.text = r->at, .n = parse_line_bytes(r->at, n)};
	*line = r->lines++;
	r->at += n + 1;
	for (uint32_t i = 0; i < r->layout->columns; i++)
		r->cells[i] = (struct cell){0};
	r->expected = 0;
	const bool begun = json_scan_begin(s, text->text, text->n);
	json_scan_space(s);
	r->blank = s->at == s->end;
	if (!begun)
		snprintf(s->why, sizeof s->why, "%s", PARSE_OUT_OF_MEMORY);
	else if (!r->blank)
		take_line(r);
	for (uint32_t i = 0; i < r->layout->columns; i++)
		if (!r->cells[i].text)
			r->cells[i].text = s->end;
	return true;
}
