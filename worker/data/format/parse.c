/* The common parts of all parsers. See parse.h. */
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/limits.h"
#include "worker/data/format/parse_internal.h"
#include "worker/data/format/table_layout.h"

#define CRITEO_FIELDS 26u
#define CRITEO_DENSE  13u

_Static_assert(WEIR_HASH_BUCKETS_MAX - 1 <= UINT64_MAX / WEIR_FIELDS_MAX, "the buckets of all fields must have 64-bit keys");

void parser_init(struct parser *p, enum data_format format, uint32_t fields, uint32_t dense, uint64_t hash_buckets)
{
	bool criteo = format == DATA_CRITEO;
	assert(hash_buckets <= WEIR_HASH_BUCKETS_MAX);
	*p = (struct parser){.format = format,
	                     .tasks = 1,
	                     .fields = fields == 0 && criteo ? CRITEO_FIELDS : fields,
	                     .dense_dim = dense == 0 && criteo ? CRITEO_DENSE : dense,
	                     .hash_buckets = hash_buckets,
	                     .positive_above = NAN};
	for (uint32_t i = 0; i < PARSE_LOG_TABLE; i++)
		p->log_table[i] = log1pf((float)i);
}

struct row_shape parser_shape(const struct parser *p)
{
	return (struct row_shape){p->tasks, p->fields, p->dense_dim};
}

bool parser_bags(const struct parser *p)
{
	return p->layout ? p->layout->bags : p->format != DATA_CRITEO;
}

bool parse_integer(const char *s, size_t n, int64_t *out)
{
	bool negative = n > 0 && *s == '-';
	int64_t x = 0;
	const char *end = s + n;
	s += negative;
	if (s == end || end - s > 18)
		return false;
	for (; s < end; s++) {
		unsigned digit = (unsigned)(unsigned char)*s - '0';
		if (digit > 9)
			return false;
		x = x * 10 + (int64_t)digit;
	}
	*out = negative ? -x : x;
	return true;
}

/* Parses common short forms itself, and others with strtof, after excluding what strtof accepts
 * beyond decimal numbers. */
bool parse_real(const char *s, size_t n, float *out)
{
	int64_t whole;
	if (n > 0 && n <= 7 && parse_integer(s, n, &whole)) {
		*out = (float)whole;
		return true;
	}
	char text[64], *end;
	if (n == 0 || n >= sizeof text)
		return false;
	memcpy(text, s, n);
	text[n] = 0;
	if (text[strspn(text, "0123456789+-.eE")] != 0)
		return false;
	*out = strtof(text, &end);
	return end == text + n && isfinite(*out);
}

bool parse_is_not_finite(const char *s, size_t n)
{
	char text[64], *end;
	if (n == 0 || n >= sizeof text)
		return false;
	memcpy(text, s, n);
	text[n] = 0;
	return text[strspn(text, "0123456789+-.eEinftyaINFTYA")] == 0 && !isfinite(strtof(text, &end)) && end == text + n;
}

bool parse_says_unknown(const char *word, size_t n)
{
	return n == 0 || (n == 1 && *word == '?') || (n == 3 && (memcmp(word, "nan", 3) == 0 || memcmp(word, "NaN", 3) == 0));
}

enum parsed parse_label(const struct parser *p, float positive_above, const char *word, size_t n, float *out,
                        char why[PARSE_WHY_BYTES])
{
	float x;
	*out = LABEL_NONE;
	if (p->every_line && parse_says_unknown(word, n))
		return PARSED_ROW;
	if (!parse_real(word, n, &x))
		return parse_bad(why, parse_is_not_finite(word, n) ? "the label is not a finite number" : "the label is not a number");
	if (!isnan(positive_above)) {
		*out = x > positive_above ? 1.0f : 0.0f;
		return PARSED_ROW;
	}
	if (x == 0.0f || x == 1.0f || x == -1.0f) {
		*out = x == 1.0f ? 1.0f : 0.0f;
		return PARSED_ROW;
	}
	if (p->every_line)
		return PARSED_ROW;
	snprintf(why, PARSE_WHY_BYTES,
	         "the label is %.*s, and not 0 or 1, or -1 or 1; data.positive_above says which other numbers are positive",
	         n < 24 ? (int)n : 24, word);
	return PARSED_LABEL;
}

size_t parse_line_bytes(const char *line, size_t n)
{
	while (n > 0 && line[n - 1] == '\r')
		n--;
	return n;
}

enum parsed parse_line(const struct parser *p, struct rows *out, const char *line, size_t n, char why[PARSE_WHY_BYTES])
{
	n = parse_line_bytes(line, n);
	if (n > WEIR_LINE_BYTES_MAX)
		return parse_bad(why, "the line is longer than 1 MiB");
	return p->format == DATA_CRITEO ? parse_criteo(p, out, line, n, why) : parse_sparse(p, out, line, n, why);
}

bool parse_placeholder(const struct parser *p, struct rows *out, float label)
{
	const bool bags = parser_bags(p);
	if (!rows_reserve(out, bags ? 1 : p->fields))
		return false;
	for (uint32_t j = 0; j < p->dense_dim; j++)
		out->dense[(size_t)out->count * p->dense_dim + j] = 0;
	for (uint32_t f = 0; f < p->fields && !bags; f++)
		out->keys[out->keys_count++] = parse_token_key(p, f, "", 0);
	for (uint32_t f = 0; f < p->fields && bags; f++)
		out->offsets[(size_t)out->count * p->fields + f + 1] = (uint32_t)out->keys_count;
	if (bags) {
		out->weights[out->count] = 1.0f;
		out->groups[out->count] = 0;
		out->one_hot = false;
	}
	for (uint32_t t = 0; t < p->tasks; t++)
		out->labels[(size_t)out->count * p->tasks + t] = label;
	out->count++;
	return true;
}

struct line_shape parse_shape(enum data_format format, uint32_t columns, const char *line, size_t n)
{
	n = parse_line_bytes(line, n);
	return format == DATA_CRITEO ? parse_criteo_shape(columns, line, n) : parse_sparse_shape(format, line, n);
}

weir_status parse_key(const struct parser *p, uint32_t field, const char *value, uint64_t *key, weir_error *err)
{
	const bool category = p->format == DATA_CRITEO || data_format_has_columns(p->format);
	return category ? parse_category_key(p, field, value, key, err) : parse_sparse_key(p, field, value, key, err);
}
