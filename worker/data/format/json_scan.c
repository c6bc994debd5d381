#include "worker/data/format/json_scan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/utf8_sanitize.h"

void json_scan_destroy(struct json_scan *s)
{
	free(s->scratch);
	*s = (struct json_scan){0};
}

/* Texts are never longer decoded; an element of a list has a zero byte in place of its comma. */
bool json_scan_begin(struct json_scan *s, const char *line, size_t n)
{
	const size_t needed = n + PARSE_SLACK + 1;
	if (needed > s->scratch_capacity) {
		free(s->scratch);
		s->scratch = malloc(needed);
		s->scratch_capacity = s->scratch ? needed : 0;
	}
	s->line = s->at = line;
	s->end = line + n;
	s->scratch_used = 0;
	s->inside = false;
	s->why[0] = 0;
	return s->scratch;
}

bool json_scan_fail(struct json_scan *s, const char *expected)
{
	snprintf(s->why, sizeof s->why, "not a JSON object: expected %s at byte %zu", expected, (size_t)(s->at - s->line) + 1);
	return false;
}

static bool take_word(struct json_scan *s, const char *word)
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

/* Takes four hexadecimal digits. Returns UINT32_MAX if something else stands there. */
static uint32_t take_unit(struct json_scan *s)
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

/* Takes the character after \u, or a pair of surrogates. Returns 0 if it is invalid. */
static uint32_t take_escaped_character(struct json_scan *s)
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
static bool take_escape(struct json_scan *s)
{
	static const char letters[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
	const char c = s->at < s->end ? *s->at++ : 0;
	const char *known = c ? strchr(letters, c) : NULL;
	if (known) {
		s->scratch[s->scratch_used++] = values[known - letters];
		return true;
	}
	const uint32_t character = c == 'u' ? take_escaped_character(s) : 0;
	if (character == 0)
		return json_scan_fail(s, "an escape of a character other than zero");
	s->scratch_used += put_utf8(s->scratch + s->scratch_used, character);
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

bool json_scan_text(struct json_scan *s, bool copies, struct cell *out)
{
	const char *begin = s->at;
	const size_t used = s->scratch_used;
	bool high = false, copied = copies;
	for (;;) {
		const char *from = s->at;
		s->at = plain_end(from, s->end, &high);
		const char stop = json_scan_peek(s);
		if (stop != '"' && stop != '\\')
			return json_scan_fail(s, "a quote");
		copied |= stop == '\\';
		if (copied) {
			memcpy(s->scratch + s->scratch_used, from, (size_t)(s->at - from));
			s->scratch_used += (size_t)(s->at - from);
		}
		s->at++;
		if (stop == '"')
			break;
		if (!take_escape(s))
			return false;
	}
	*out = copied ? (struct cell){.text = s->scratch + used, .n = s->scratch_used - used}
	              : (struct cell){.text = begin, .n = (size_t)(s->at - 1 - begin)};
	return !high || utf8_is_valid(out->text, out->n) || json_scan_fail(s, "UTF-8 before this");
}

/* --- Values */

/* Copies a value into the scratch. */
static bool put(struct json_scan *s, const char *text, size_t n, struct cell *out)
{
	*out = (struct cell){.text = s->scratch + s->scratch_used, .n = n};
	memcpy(s->scratch + s->scratch_used, text, n);
	s->scratch_used += n;
	return true;
}

static bool take_digits(struct json_scan *s)
{
	const char *begin = s->at;
	while (s->at < s->end && *s->at >= '0' && *s->at <= '9')
		s->at++;
	return s->at > begin;
}

static bool take_number(struct json_scan *s, struct cell *out)
{
	const char *begin = s->at;
	s->at += *s->at == '-';
	bool valid = json_scan_peek(s) == '0' ? s->at++, true : take_digits(s);
	if (valid && json_scan_peek(s) == '.')
		valid = (s->at++, take_digits(s));
	if (valid && (json_scan_peek(s) == 'e' || json_scan_peek(s) == 'E')) {
		s->at++;
		s->at += json_scan_peek(s) == '+' || json_scan_peek(s) == '-';
		valid = take_digits(s);
	}
	*out = (struct cell){.text = begin, .n = (size_t)(s->at - begin)};
	return valid || json_scan_fail(s, "a number");
}

bool json_scan_scalar(struct json_scan *s, bool as_number, bool copies, struct cell *out)
{
	const char c = json_scan_peek(s);
	if (c == '"')
		return s->at++, json_scan_text(s, copies, out);
	if (c == '-' || (c >= '0' && c <= '9'))
		return take_number(s, out) && (!copies || put(s, out->text, out->n, out));
	if (take_word(s, "null"))
		return put(s, "", 0, out);
	if (take_word(s, "true"))
		return as_number ? put(s, "1", 1, out) : put(s, "true", 4, out);
	if (take_word(s, "false"))
		return as_number ? put(s, "0", 1, out) : put(s, "false", 5, out);
	return json_scan_fail(s, "a value");
}

bool json_scan_skip(struct json_scan *s)
{
	struct cell text;
	const size_t used = s->scratch_used;
	uint32_t depth = 0;
	for (; s->at < s->end; s->at++) {
		const char c = *s->at;
		if (depth == 0 && (c == ',' || c == '}' || c == ']'))
			return true;
		depth += c == '[' || c == '{';
		depth -= c == ']' || c == '}';
		if (c == '"') {
			s->at++;
			if (!json_scan_text(s, false, &text))
				return false;
			s->scratch_used = used;
			s->at--;
		}
	}
	return json_scan_fail(s, "'}'");
}

/* --- Keys */

/* Moves to the next key. *any: false behind the last one. */
static bool find_key(struct json_scan *s, bool *any)
{
	if (!s->inside) {
		if (!json_scan_char(s, '{'))
			return json_scan_fail(s, "'{'");
		s->inside = true;
		*any = !json_scan_char(s, '}');
		return true;
	}
	*any = json_scan_char(s, ',');
	return *any || json_scan_char(s, '}') || json_scan_fail(s, "',' or '}'");
}

bool json_scan_key(struct json_scan *s, struct cell *key)
{
	bool any;
	if (!find_key(s, &any))
		return false;
	if (!any) {
		json_scan_space(s);
		return s->at < s->end && json_scan_fail(s, "the end of the line");
	}
	if (!json_scan_char(s, '"'))
		return json_scan_fail(s, "the name of a column in quotes");
	return json_scan_text(s, false, key) && (json_scan_char(s, ':') || json_scan_fail(s, "':'"));
}
