#include "parse.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "hash.h"
#include "limits.h"

#define CRITEO_FIELDS 26u
#define CRITEO_DENSE  13u
#define OUT_OF_MEMORY "out of memory"

void parser_init(struct parser *p, enum data_format format, uint32_t fields, uint32_t dense, uint64_t hash_buckets)
{
	bool criteo = format == DATA_CRITEO;
	*p = (struct parser){.format = format,
	                     .fields = fields == 0 && criteo ? CRITEO_FIELDS : fields,
	                     .dense_dim = dense == 0 && criteo ? CRITEO_DENSE : dense,
	                     .hash_buckets = hash_buckets};
	for (uint32_t i = 0; i < PARSE_LOG_TABLE; i++)
		p->log_table[i] = log1pf((float)i);
}

bool parser_bags(const struct parser *p)
{
	return p->format != DATA_CRITEO;
}

static uint64_t fold(const struct parser *p, uint64_t hash)
{
	return p->hash_buckets == 0 ? hash : (uint64_t)(((unsigned __int128)hash * p->hash_buckets) >> 64);
}

/* Short tokens, in practice all, are one word: the mix is then a bijection of (bytes) for a given (field, length). */
static uint64_t token_key(const struct parser *p, uint32_t field, const char *token, size_t n)
{
	uint64_t salt = 0x9e3779b97f4a7c15ull * (field * 16ull + (n < 9 ? n : 9) + 1), word = 0;
	if (n > 8) {
		word = hash_bytes(token, n, field);
	} else if (n > 0) {
		memcpy(&word, token, 8);
		word &= ~0ull >> (64 - 8 * n);
	}
	return fold(p, hash_u64(word + salt));
}

/* Decimal digits, at most 18. False on anything else. */
static bool parse_integer(const char *s, size_t n, int64_t *out)
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

/* A real number of n bytes; the common short forms by hand, the rest by strtof. */
static bool parse_real(const char *s, size_t n, float *out)
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
	*out = strtof(text, &end);
	return end == text + n && isfinite(*out);
}

static float number_of(const struct parser *p, int64_t x)
{
	if (x <= 0)
		return 0.0f;
	return x < (int64_t)PARSE_LOG_TABLE ? p->log_table[x] : log1pf((float)x);
}

/* Where fields end: walks the tabs of a line, 64 bytes at a time. */
struct tabs {
	const char *base; /* of the word being walked */
	uint64_t mask;    /* tabs in it not yet taken */
};

static uint64_t tab_mask(const char *s)
{
	typedef char v16 __attribute__((vector_size(16)));
	uint64_t mask = 0;
#if defined(__SSE2__)
	for (unsigned i = 0; i < 4; i++) {
		v16 x;
		memcpy(&x, s + 16 * i, 16);
		mask |= (uint64_t)(uint16_t)__builtin_ia32_pmovmskb128((v16)(x == '\t')) << (16 * i);
	}
#else
	for (unsigned i = 0; i < 64; i++)
		mask |= (uint64_t)(s[i] == '\t') << i;
#endif
	return mask;
}

/* The end of the field that begins at `from`: the next tab, or the end of the line. */
static inline const char *tabs_next(struct tabs *t, const char *end)
{
	while (t->mask == 0) {
		t->base += 64;
		if (t->base >= end)
			return end;
		t->mask = tab_mask(t->base);
	}
	const char *at = t->base + __builtin_ctzll(t->mask);
	t->mask &= t->mask - 1;
	return at < end ? at : end;
}

static const char *parse_criteo(const struct parser *p, struct rows *out, const char *line, size_t n)
{
	const char *end = line + n, *at = line, *stop;
	struct tabs tabs = {line, tab_mask(line)};
	if (!rows_reserve(out, p->fields))
		return OUT_OF_MEMORY;
	stop = tabs_next(&tabs, end);
	float label;
	if (!parse_real(at, (size_t)(stop - at), &label))
		return "the label is not a number";
	float *dense = out->dense + (size_t)out->count * p->dense_dim;
	for (uint32_t j = 0; j < p->dense_dim; j++) {
		if (stop == end)
			return "too few columns";
		at = stop + 1;
		stop = tabs_next(&tabs, end);
		int64_t x = 0;
		if (stop != at && !parse_integer(at, (size_t)(stop - at), &x))
			return "a numeric column is not an integer";
		dense[j] = number_of(p, x);
	}
	uint64_t *keys = out->keys + out->keys_count;
	for (uint32_t f = 0; f < p->fields; f++) {
		if (stop == end)
			return "too few columns";
		at = stop + 1;
		stop = tabs_next(&tabs, end);
		keys[f] = token_key(p, f, at, (size_t)(stop - at));
	}
	if (stop != end)
		return "too many columns";
	out->labels[out->count++] = label > 0 ? 1.0f : 0.0f;
	out->keys_count += p->fields;
	return NULL;
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

/* The next blank-separated word of [*at, end): false at the end. */
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

/* The label word: LABEL or LABEL:WEIGHT. */
static const char *parse_label(const char *word, size_t n, float *label, float *weight)
{
	const char *colon = memchr(word, ':', n);
	size_t label_bytes = colon == NULL ? n : (size_t)(colon - word);
	*weight = 1.0f;
	if (!parse_real(word + (*word == '+'), label_bytes - (*word == '+'), label))
		return "the label is not a number";
	*label = *label > 0 ? 1.0f : 0.0f;
	if (colon != NULL && (!parse_real(colon + 1, n - label_bytes - 1, weight) || *weight < 0))
		return "the weight after the label is not a number of at least 0";
	return NULL;
}

/* One entry: INDEX:VALUE, or FIELD:INDEX:VALUE. */
struct entry {
	int64_t field, index;
	float value;
};

static bool parse_entry(bool with_field, const char *word, size_t n, struct entry *out)
{
	const char *end = word + n, *colon = memchr(word, ':', n);
	if (colon == NULL)
		return false;
	if (with_field) {
		if (!parse_integer(word, (size_t)(colon - word), &out->field) || out->field < 0)
			return false;
		word = colon + 1;
		colon = memchr(word, ':', (size_t)(end - word));
		if (colon == NULL)
			return false;
	}
	return parse_integer(word, (size_t)(colon - word), &out->index) && out->index >= 0 &&
	       parse_real(colon + 1, (size_t)(end - colon - 1), &out->value);
}

static uint64_t index_key(const struct parser *p, const struct entry *e)
{
	if (p->format == DATA_LIBFFM)
		return fold(p, hash_u64((uint64_t)e->index + 0x9e3779b97f4a7c15ull * ((uint64_t)e->field + 1)));
	return p->hash_buckets == 0 ? (uint64_t)e->index : fold(p, hash_u64((uint64_t)e->index));
}

/* Entries arrive in any order of field: insertion keeps bags together and the order within a bag. *top: bags begun so far, whose
 * offsets are known; in the usual order of rising fields nothing moves. */
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

static const char *parse_sparse(const struct parser *p, struct rows *out, const char *line, size_t n)
{
	const char *at = line, *end = line + n, *word, *bad;
	size_t bytes, keys_before = out->keys_count;
	uint32_t entries = 0;
	float label, weight;
	if (!rows_reserve(out, 1))
		return OUT_OF_MEMORY;
	if (!word_next(&at, end, &word, &bytes))
		return "the line is empty";
	if ((bad = parse_label(word, bytes, &label, &weight)) != NULL)
		return bad;
	uint32_t *offsets = out->offsets + (size_t)out->count * out->fields;
	uint32_t top = 0;
	while (word_next(&at, end, &word, &bytes)) {
		struct entry e = {.field = entries};
		bad = NULL;
		if (!parse_entry(p->format == DATA_LIBFFM, word, bytes, &e))
			bad = p->format == DATA_LIBFFM ? "an entry is not FIELD:INDEX:VALUE" : "an entry is not INDEX:VALUE";
		else if (e.field >= (int64_t)out->fields)
			bad = p->format == DATA_LIBFFM ? "a field number is beyond data.fields" : "more entries than data.fields";
		else if (++entries > WEIR_FEATURES_PER_ROW_MAX)
			bad = "more features than a row may have";
		else if (out->keys_count > UINT32_MAX - 1 || !rows_reserve(out, 1))
			bad = OUT_OF_MEMORY;
		if (bad != NULL) {
			out->keys_count = keys_before;
			return bad;
		}
		insert_entry(out, offsets, &top, &e, index_key(p, &e));
		out->valued |= e.value != 1.0f;
	}
	while (top < out->fields)
		offsets[++top] = (uint32_t)out->keys_count;
	for (uint32_t f = 0; f < out->fields; f++)
		out->one_hot &= offsets[f + 1] - offsets[f] == 1;
	out->weighted |= weight != 1.0f;
	out->weights[out->count] = weight;
	out->labels[out->count++] = label;
	return NULL;
}

const char *parse_line(const struct parser *p, struct rows *out, const char *line, size_t n)
{
	if (n > WEIR_LINE_BYTES_MAX)
		return "the line is longer than 1 MiB";
	return p->format == DATA_CRITEO ? parse_criteo(p, out, line, n) : parse_sparse(p, out, line, n);
}

uint32_t parse_fields_of(enum data_format format, const char *line, size_t n)
{
	const char *at = line, *end = line + n, *word;
	size_t bytes;
	int64_t fields = 0;
	if (!word_next(&at, end, &word, &bytes))
		return 0;
	while (word_next(&at, end, &word, &bytes)) {
		struct entry e = {.field = fields};
		if (!parse_entry(format == DATA_LIBFFM, word, bytes, &e))
			return 0;
		if (e.field >= fields)
			fields = e.field + 1;
	}
	return fields > WEIR_FIELDS_MAX ? 0 : (uint32_t)fields;
}
