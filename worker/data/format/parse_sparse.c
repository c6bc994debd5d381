/* Parses libsvm and libffm lines: entries between blanks. See parse.h. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "common/base/hash.h"
#include "common/base/limits.h"
#include "worker/data/format/parse_internal.h"

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

/* Finds the next blank-separated word of [*at, end). Returns false at the end. */
static bool word_next(const char **at, const char *end, const char **word, size_t *n)
{
	const char *s = *at;
	while (s < end && is_blank(*s))
		s++;
	*word = s;
	while (s < end && !is_blank(*s))
		s++;
	*at = s;
	*n = (size_t)(s - *word);
	return *n > 0;
}

/* Returns where a comment begins, or the end of the line. */
static const char *entries_end(const char *line, size_t n)
{
	const char *comment = memchr(line, '#', n);
	return !comment ? line + n : comment;
}

/* Parses the first word: LABEL or LABEL:WEIGHT. */
static enum parsed label_word(const struct parser *p, const char *word, size_t n, float *label, float *weight,
                              char why[PARSE_WHY_BYTES])
{
	const char *colon = memchr(word, ':', n);
	const size_t sign = *word == '+', bytes = !colon ? n : (size_t)(colon - word);
	*weight = 1.0f;
	const enum parsed read = parse_label(p, p->positive_above, word + sign, bytes - sign, label, why);
	if (read == PARSED_ROW && colon && (!parse_real(colon + 1, n - bytes - 1, weight) || *weight < 0))
		return parse_bad(why, "the weight after the label is not a finite number of at least 0");
	return read;
}

/* --- Entries */

/* One entry: INDEX:VALUE, or FIELD:INDEX:VALUE. */
struct entry {
	uint64_t field, index;
	float value;
};

/* Parses a whole number of n digits, at least 0. *large: it exceeds 2^64 - 1. */
static bool parse_count(const char *s, size_t n, uint64_t *out, bool *large)
{
	uint64_t x = 0;
	if (n == 0)
		return false;
	for (size_t i = 0; i < n; i++) {
		const unsigned digit = (unsigned)(unsigned char)s[i] - '0';
		if (digit > 9)
			return false;
		*large |= __builtin_mul_overflow(x, 10u, &x) || __builtin_add_overflow(x, digit, &x);
	}
	*out = x;
	return true;
}

/* Returns NULL, or the error. */
static const char *parse_entry(bool with_field, const char *word, size_t n, struct entry *out)
{
	const char *const form = with_field ? "an entry is not FIELD:INDEX:VALUE" : "an entry is not INDEX:VALUE";
	const char *end = word + n, *colon = memchr(word, ':', n);
	bool large = false;
	if (colon && with_field) {
		if (!parse_count(word, (size_t)(colon - word), &out->field, &large))
			return form;
		word = colon + 1;
		colon = memchr(word, ':', (size_t)(end - word));
	}
	if (!colon || !parse_count(word, (size_t)(colon - word), &out->index, &large))
		return form;
	const size_t bytes = (size_t)(end - colon - 1);
	if (!parse_real(colon + 1, bytes, &out->value))
		return parse_is_not_finite(colon + 1, bytes) ? "the value of an entry is not a finite number" : form;
	return large ? "an index or a field is beyond 2^64 - 1" : NULL;
}

static uint64_t index_key(const struct parser *p, const struct entry *e)
{
	const uint64_t buckets = p->hash_buckets;
	if (buckets > 0)
		return e->index % buckets + (p->format == DATA_LIBFFM ? e->field * buckets : 0);
	return p->format == DATA_LIBFFM ? hash_u64(e->index + 0x9e3779b97f4a7c15ull * (e->field + 1)) : e->index;
}

weir_status parse_sparse_key(const struct parser *p, uint32_t field, const char *value, uint64_t *key, weir_error *err)
{
	struct entry e = {.field = field};
	bool large = false;
	if (!parse_count(value, strlen(value), &e.index, &large) || large)
		return weir_fail(err, WEIR_E_INVALID, "the value is '%.60s'; expected an index, a whole number below 2^64", value);
	*key = index_key(p, &e);
	return WEIR_OK;
}

/* Inserts an entry. Entries come in any order of field; insertion keeps bags contiguous and the
 * order within a bag. *top: the number of bags begun so far, whose offsets are known. In the usual
 * order of rising fields nothing moves. */
static void insert_entry(struct rows *out, uint32_t *offsets, uint32_t *top, const struct entry *e, uint64_t key)
{
	uint32_t field = (uint32_t)e->field, last = (uint32_t)out->keys_count++;
	while (*top <= field)
		offsets[++*top] = last;
	size_t place = offsets[field + 1], moved = last - place;
	memmove(out->keys + place + 1, out->keys + place, moved * sizeof *out->keys);
	memmove(out->values + place + 1, out->values + place, moved * sizeof *out->values);
	out->keys[place] = key;
	out->values[place] = e->value;
	for (uint32_t f = field + 1; f <= *top; f++)
		offsets[f]++;
}

/* Reports an entry of a field that does not exist. */
static enum parsed beyond(const struct parser *p, const struct entry *e, const char *at, const char *end,
                          char why[PARSE_WHY_BYTES])
{
	uint64_t needed = e->field + 1;
	const char *word;
	size_t bytes;
	while (p->format == DATA_LIBSVM && word_next(&at, end, &word, &bytes))
		needed++;
	if (p->format == DATA_LIBSVM)
		snprintf(why, PARSE_WHY_BYTES, "%" PRIu64 " entries, ", needed);
	else
		snprintf(why, PARSE_WHY_BYTES, "field %" PRIu64 " is beyond ", e->field);
	const size_t n = strlen(why);
	const char *more = p->format == DATA_LIBSVM ? "more than " : "";
	if (p->fields_counted && !p->every_line)
		snprintf(why + n, PARSE_WHY_BYTES - n,
		         "%sthe %u fields that the beginning of the data has: set data.fields to %" PRIu64 " or more", more, p->fields,
		         needed);
	else
		snprintf(why + n, PARSE_WHY_BYTES - n, "%sdata.fields %u", more, p->fields);
	return p->fields_counted && !p->every_line ? PARSED_REFUSED : PARSED_BAD;
}

static enum parsed parse_entries(const struct parser *p, struct rows *out, const char *at, const char *end,
                                 char why[PARSE_WHY_BYTES])
{
	const bool with_field = p->format == DATA_LIBFFM;
	uint32_t *offsets = out->offsets + (size_t)out->count * out->fields;
	uint32_t entries = 0, top = 0;
	const char *word, *bad;
	size_t bytes;
	bool large = false;
	uint64_t *group = &out->groups[out->count];
	*group = 0;
	for (bool first = true; word_next(&at, end, &word, &bytes); first = false) {
		struct entry e = {.field = entries};
		if (first && !with_field && bytes > 4 && memcmp(word, "qid:", 4) == 0 &&
		    parse_count(word + 4, bytes - 4, group, &large)) {
			*group = *group == 0 ? UINT64_MAX : *group;
			continue;
		}
		if ((bad = parse_entry(with_field, word, bytes, &e)) != NULL)
			return parse_bad(why, bad);
		if (e.field >= out->fields)
			return beyond(p, &e, at, end, why);
		if (++entries > WEIR_FEATURES_PER_ROW_MAX)
			return parse_bad(why, "more features than a row may have");
		if (out->keys_count > UINT32_MAX - 1 || !rows_reserve(out, 1))
			return parse_bad(why, PARSE_OUT_OF_MEMORY);
		insert_entry(out, offsets, &top, &e, index_key(p, &e));
		out->valued |= e.value != 1.0f;
	}
	while (top < out->fields)
		offsets[++top] = (uint32_t)out->keys_count;
	for (uint32_t f = 0; f < out->fields; f++)
		out->one_hot &= offsets[f + 1] - offsets[f] == 1;
	return PARSED_ROW;
}

/* --- Lines */

enum parsed parse_sparse(const struct parser *p, struct rows *out, const char *line, size_t n, char why[PARSE_WHY_BYTES])
{
	const char *at = line, *end = entries_end(line, n), *word;
	size_t bytes, keys_before = out->keys_count;
	float label = LABEL_NONE, weight = 1.0f;
	if (!word_next(&at, end, &word, &bytes))
		return PARSED_NOTHING;
	if (!rows_reserve(out, 1))
		return parse_bad(why, PARSE_OUT_OF_MEMORY);
	if (p->unlabelled)
		at = line;
	enum parsed read = p->unlabelled ? PARSED_ROW : label_word(p, word, bytes, &label, &weight, why);
	if (read == PARSED_ROW)
		read = parse_entries(p, out, at, end, why);
	if (read != PARSED_ROW) {
		out->keys_count = keys_before;
		return read;
	}
	out->weighted |= weight != 1.0f;
	out->grouped |= out->groups[out->count] != 0;
	out->weights[out->count] = weight;
	out->labels[out->count++] = label;
	return PARSED_ROW;
}

/* Returns whether a first word is LABEL or LABEL:WEIGHT. *usual: the label is 0, 1 or -1. */
static bool is_label(const char *word, size_t n, bool *usual)
{
	const char *colon = memchr(word, ':', n);
	const size_t sign = *word == '+' || *word == '-', bytes = !colon ? n : (size_t)(colon - word);
	float x = 0, weight;
	const bool number = parse_real(word + sign, bytes - sign, &x);
	*usual = number && (x == 0.0f || x == 1.0f);
	return (number || parse_says_unknown(word, bytes)) && (!colon || parse_real(colon + 1, n - bytes - 1, &weight));
}

struct line_shape parse_sparse_shape(enum data_format format, const char *line, size_t n)
{
	const char *at = line, *end = entries_end(line, n), *word;
	struct line_shape shape = {.label = LABEL_THERE};
	struct entry e;
	size_t bytes;
	if (!word_next(&at, end, &word, &bytes))
		return shape;
	bool usual;
	const bool is_entry = !parse_entry(format == DATA_LIBFFM, word, bytes, &e), labelled = is_label(word, bytes, &usual);
	if (!is_entry && !labelled)
		return shape;
	if (is_entry)
		shape.label = labelled && usual ? LABEL_PERHAPS : LABEL_ABSENT;
	uint64_t fields = is_entry && format == DATA_LIBFFM ? e.field + 1 : 0;
	for (bool first = true; word_next(&at, end, &word, &bytes); first = false) {
		e = (struct entry){.field = fields};
		if (first && format == DATA_LIBSVM && bytes > 4 && memcmp(word, "qid:", 4) == 0)
			continue;
		if (parse_entry(format == DATA_LIBFFM, word, bytes, &e))
			return shape;
		if (e.field >= fields)
			fields = e.field + 1;
	}
	shape.is_row = fields <= WEIR_FIELDS_MAX;
	shape.fields = shape.is_row ? (uint32_t)fields : 0;
	return shape;
}
