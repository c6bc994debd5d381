#include "worker/data/format/json_reader.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/limits.h"
#include "common/base/utf8_sanitize.h"
#include "worker/data/format/parse_internal.h"

/* A line being read. */
struct scan {
	struct json_reader *r;
	const char *line, *at, *end;
};

void json_reader_destroy(struct json_reader *r)
{
	free(r->cells);
	free(r->scratch);
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

static bool fail_syntax(const struct scan *s, const char *expected)
{
	snprintf(s->r->why, sizeof s->r->why, "not a JSON object: expected %s at byte %zu", expected, (size_t)(s->at - s->line) + 1);
	return false;
}

static bool fail_column(const struct scan *s, uint32_t column, const char *what)
{
	snprintf(s->r->why, sizeof s->r->why, "column '%.60s': %s", s->r->layout->names[column], what);
	return false;
}

static bool fail_unknown(const struct scan *s, const char *key, size_t n)
{
	const struct table_layout *l = s->r->layout;
	char name[WEIR_COLUMN_NAME_BYTES_MAX];
	snprintf(name, sizeof name, "%.*s", n < sizeof name ? (int)n : 0, key);
	const char *nearest = job_nearest(name, (const char *const *)l->names, l->columns);
	snprintf(s->r->why, sizeof s->r->why, "the key '%.40s', which data.columns does not name%s%.40s%s", name,
	         nearest ? "; the nearest is '" : "", nearest ? nearest : "", nearest ? "'" : "");
	return false;
}

/* --- Characters */

static void skip_space(struct scan *s)
{
	while (s->at < s->end && (*s->at == ' ' || *s->at == '\t' || *s->at == '\r'))
		s->at++;
}

static bool take_char(struct scan *s, char c)
{
	skip_space(s);
	if (s->at == s->end || *s->at != c)
		return false;
	s->at++;
	return true;
}

static bool take_word(struct scan *s, const char *word)
{
	const size_t n = strlen(word);
	if ((size_t)(s->end - s->at) < n || memcmp(s->at, word, n) != 0)
		return false;
	s->at += n;
	return true;
}

/* --- Texts */

static int digit_of(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Takes four hexadecimal digits; UINT32_MAX: there are none. */
static uint32_t take_unit(struct scan *s)
{
	uint32_t unit = 0;
	for (int i = 0; i < 4; i++) {
		const int digit = s->at < s->end ? digit_of(*s->at) : -1;
		if (digit < 0)
			return UINT32_MAX;
		unit = unit << 4 | (uint32_t)digit;
		s->at++;
	}
	return unit;
}

static size_t put_utf8(char *out, uint32_t c)
{
	const size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
	static const unsigned char first[] = {0, 0, 0xc0, 0xe0, 0xf0};
	for (size_t i = n; --i > 0; c >>= 6)
		out[i] = (char)(0x80 | (c & 0x3f));
	out[0] = (char)(first[n] | c);
	return n;
}

/* Takes the character after \u; a pair of surrogates is one. 0: it is none. */
static uint32_t take_escaped_character(struct scan *s)
{
	const uint32_t high = take_unit(s);
	if (high < 0xd800 || (high > 0xdfff && high != UINT32_MAX))
		return high;
	if (high > 0xdbff || !take_word(s, "\\u"))
		return 0;
	const uint32_t low = take_unit(s);
	return low >= 0xdc00 && low <= 0xdfff ? 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00) : 0;
}

/* Takes the escape after a backslash, and appends its character. */
static bool take_escape(struct scan *s)
{
	static const char letters[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
	struct json_reader *r = s->r;
	const char c = s->at < s->end ? *s->at++ : 0;
	const char *known = c ? strchr(letters, c) : NULL;
	if (known) {
		r->scratch[r->scratch_used++] = values[known - letters];
		return true;
	}
	const uint32_t character = c == 'u' ? take_escaped_character(s) : 0;
	if (character == 0)
		return fail_syntax(s, "an escape of a character other than zero");
	r->scratch_used += put_utf8(r->scratch + r->scratch_used, character);
	return true;
}

/* The end of the text's part without escapes: its quote, a backslash, or a byte that is not
 * allowed. *high: whether it has bytes beyond ASCII. */
static const char *plain_end(const char *at, const char *end, bool *high)
{
	unsigned char all = 0;
	while (at < end && *at != '"' && *at != '\\' && (unsigned char)*at >= 0x20)
		all |= (unsigned char)*at++;
	*high |= all >= 0x80;
	return at;
}

/* Takes a text after its opening quote. It points into the chunk, or into the scratch if it has
 * escapes or if `copies`. */
static bool take_text(struct scan *s, bool copies, struct cell *out)
{
	struct json_reader *r = s->r;
	const char *begin = s->at;
	const size_t used = r->scratch_used;
	bool high = false, copied = copies;
	for (;;) {
		const char *from = s->at;
		s->at = plain_end(from, s->end, &high);
		const char stop = s->at < s->end ? *s->at : 0;
		if (stop != '"' && stop != '\\')
			return fail_syntax(s, "a quote");
		copied |= stop == '\\';
		if (copied) {
			memcpy(r->scratch + r->scratch_used, from, (size_t)(s->at - from));
			r->scratch_used += (size_t)(s->at - from);
		}
		s->at++;
		if (stop == '"')
			break;
		if (!take_escape(s))
			return false;
	}
	*out = copied ? (struct cell){.text = r->scratch + used, .n = r->scratch_used - used}
	              : (struct cell){.text = begin, .n = (size_t)(s->at - 1 - begin)};
	return !high || utf8_is_valid(out->text, out->n) || fail_syntax(s, "UTF-8 before this");
}

/* --- Values */

/* Copies a value into the scratch. */
static bool put(struct scan *s, const char *text, size_t n, struct cell *out)
{
	struct json_reader *r = s->r;
	*out = (struct cell){.text = r->scratch + r->scratch_used, .n = n};
	memcpy(r->scratch + r->scratch_used, text, n);
	r->scratch_used += n;
	return true;
}

static bool take_digits(struct scan *s)
{
	const char *begin = s->at;
	while (s->at < s->end && *s->at >= '0' && *s->at <= '9')
		s->at++;
	return s->at > begin;
}

static bool take_number(struct scan *s, struct cell *out)
{
	const char *begin = s->at;
	s->at += *s->at == '-';
	bool valid = s->at < s->end && *s->at == '0' ? s->at++, true : take_digits(s);
	if (valid && s->at < s->end && *s->at == '.')
		valid = (s->at++, take_digits(s));
	if (valid && s->at < s->end && (*s->at == 'e' || *s->at == 'E')) {
		s->at++;
		s->at += s->at < s->end && (*s->at == '+' || *s->at == '-');
		valid = take_digits(s);
	}
	*out = (struct cell){.text = begin, .n = (size_t)(s->at - begin)};
	return valid || fail_syntax(s, "a number");
}

/* Takes a value that is neither a list nor an object. */
static bool take_scalar(struct scan *s, uint32_t column, bool copies, struct cell *out)
{
	const enum column_kind kind = s->r->layout->kinds[column];
	const bool as_number = kind == COLUMN_LABEL || kind == COLUMN_NUMERIC || kind == COLUMN_WEIGHT;
	const char c = s->at < s->end ? *s->at : 0;
	if (c == '"')
		return s->at++, take_text(s, copies, out);
	if (c == '-' || (c >= '0' && c <= '9'))
		return take_number(s, out) && (!copies || put(s, out->text, out->n, out));
	if (take_word(s, "null"))
		return put(s, "", 0, out);
	if (take_word(s, "true"))
		return as_number ? put(s, "1", 1, out) : put(s, "true", 4, out);
	if (take_word(s, "false"))
		return as_number ? put(s, "0", 1, out) : put(s, "false", 5, out);
	return fail_syntax(s, "a value");
}

/* Takes a list after its bracket. Zero bytes separate its elements. */
static bool take_list(struct scan *s, uint32_t column, struct cell *out)
{
	struct json_reader *r = s->r;
	const enum column_kind kind = r->layout->kinds[column];
	const size_t used = r->scratch_used;
	struct cell element;
	if (kind != COLUMN_MULTI && kind != COLUMN_SEQUENCE)
		return fail_column(s, column, "a list; expected one value");
	if (!take_char(s, ']'))
		do {
			skip_space(s);
			if (s->at < s->end && (*s->at == '[' || *s->at == '{'))
				return fail_column(s, column, "a list or an object in a list; expected texts or numbers");
			if (!take_scalar(s, column, true, &element))
				return false;
			r->scratch[r->scratch_used++] = 0;
		} while (take_char(s, ','));
	if (r->scratch_used > used && !take_char(s, ']'))
		return fail_syntax(s, "',' or ']'");
	*out = (struct cell){.text = r->scratch + used, .n = r->scratch_used - used, .form = CELL_LIST};
	return true;
}

/* Skips a value of any kind: up to the comma or brace behind it. */
static bool skip_value(struct scan *s)
{
	struct cell text;
	const size_t used = s->r->scratch_used;
	uint32_t depth = 0;
	for (; s->at < s->end; s->at++) {
		const char c = *s->at;
		if (depth == 0 && (c == ',' || c == '}'))
			return true;
		depth += c == '[' || c == '{';
		depth -= c == ']' || c == '}';
		if (c == '"') {
			s->at++;
			if (!take_text(s, false, &text))
				return false;
			s->r->scratch_used = used;
			s->at--;
		}
	}
	return fail_syntax(s, "'}'");
}

static bool take_value(struct scan *s, uint32_t column)
{
	struct cell *cell = &s->r->cells[column];
	skip_space(s);
	if (s->r->layout->kinds[column] == COLUMN_IGNORE)
		return skip_value(s);
	if (s->at < s->end && *s->at == '{')
		return fail_column(s, column, "an object; expected a text, a number, true, false, null or a list of those");
	if (!(s->at < s->end && *s->at == '[' ? (s->at++, take_list(s, column, cell)) : take_scalar(s, column, false, cell)))
		return false;
	return cell->n <= WEIR_CELL_BYTES_MAX || fail_column(s, column, "the value is longer than 64 KiB");
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

/* Takes `"key": value`. */
static bool take_member(struct scan *s)
{
	struct json_reader *r = s->r;
	struct cell key;
	uint32_t column;
	if (!take_char(s, '"'))
		return fail_syntax(s, "the name of a column in quotes");
	if (!take_text(s, false, &key))
		return false;
	if (!find_column(r, &key, &column))
		return fail_unknown(s, key.text, key.n);
	r->expected = column + 1;
	if (r->cells[column].text)
		return fail_column(s, column, "the line has it twice");
	r->cells[column] = (struct cell){.text = s->end};
	return take_char(s, ':') ? take_value(s, column) : fail_syntax(s, "':'");
}

static bool take_line(struct scan *s)
{
	if (!take_char(s, '{'))
		return fail_syntax(s, "'{'");
	if (!take_char(s, '}')) {
		do {
			if (!take_member(s))
				return false;
		} while (take_char(s, ','));
		if (!take_char(s, '}'))
			return fail_syntax(s, "',' or '}'");
	}
	skip_space(s);
	return s->at == s->end || fail_syntax(s, "the end of the line");
}

/* Texts are never longer decoded; an element of a list has a zero byte in place of its comma. */
static bool reserve_scratch(struct json_reader *r, size_t line_bytes)
{
	const size_t needed = line_bytes + PARSE_SLACK + 1;
	if (needed > r->scratch_capacity) {
		free(r->scratch);
		r->scratch = malloc(needed);
		r->scratch_capacity = r->scratch ? needed : 0;
	}
	r->scratch_used = 0;
	return r->scratch;
}

bool json_reader_next(struct json_reader *r, struct cell *text, uint64_t *line)
{
	if (r->at >= r->end)
		return false;
	const char *newline = memchr(r->at, '\n', (size_t)(r->end - r->at));
	const size_t n = (size_t)((newline ? newline : r->end) - r->at);
	*text = (struct cell){.text = r->at, .n = parse_line_bytes(r->at, n)};
	*line = r->lines++;
	r->at += n + 1;
	struct scan s = {r, text->text, text->text, text->text + text->n};
	for (uint32_t i = 0; i < r->layout->columns; i++)
		r->cells[i] = (struct cell){0};
	r->why[0] = 0;
	r->expected = 0;
	skip_space(&s);
	r->blank = s.at == s.end;
	if (!reserve_scratch(r, text->n))
		snprintf(r->why, sizeof r->why, "%s", PARSE_OUT_OF_MEMORY);
	else if (!r->blank)
		(void)take_line(&s);
	for (uint32_t i = 0; i < r->layout->columns; i++)
		if (!r->cells[i].text)
			r->cells[i].text = s.end;
	return true;
}
