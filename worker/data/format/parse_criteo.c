/* Parses criteo lines: columns between tabs. See parse.h. */
#include <math.h>
#include <string.h>

#include "common/base/hash.h"
#include "worker/data/format/parse_internal.h"

/* A token of up to 8 bytes is one word; in practice all are. The mix is then a bijection of its
 * bytes for a given (field, length). */
uint64_t parse_token_key(const struct parser *p, uint32_t field, const char *token, size_t n)
{
	uint64_t salt = 0x9e3779b97f4a7c15ull * (field * 16ull + (n < 9 ? n : 9) + 1), word = 0;
	if (n > 8) {
		word = hash_bytes(token, n, field);
	} else if (n > 0) {
		memcpy(&word, token, 8);
		word &= ~0ull >> (64 - 8 * n);
	}
	const uint64_t hash = hash_u64(word + salt), buckets = p->hash_buckets;
	return buckets == 0 ? hash : field * buckets + (uint64_t)(((unsigned __int128)hash * buckets) >> 64);
}

weir_status parse_category_key(const struct parser *p, uint32_t field, const char *value, uint64_t *key, weir_error *err)
{
	char text[PARSE_VALUE_BYTES + PARSE_SLACK] = "";
	const size_t n = strlen(value);
	if (n > PARSE_VALUE_BYTES)
		return weir_fail(err, WEIR_E_LIMIT, "the value has %zu bytes; at most %u", n, PARSE_VALUE_BYTES);
	memcpy(text, value, n);
	*key = parse_token_key(p, field, text, n);
	return WEIR_OK;
}

/* Finds the ends of fields: walks the tabs of a line, 64 bytes at a time. */
struct tabs {
	const char *base; /* start of the 64 bytes being walked */
	uint64_t mask;    /* tabs in these bytes, not yet taken */
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

/* Returns the end of the current field: the next tab, or the end of the line. */
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

/* Parses a number, also one that another program wrote as 1.0. */
static bool column_number(const struct parser *p, const char *s, size_t n, float *out)
{
	int64_t whole;
	float x;
	*out = 0.0f;
	if (n == 0)
		return true;
	if (parse_integer(s, n, &whole) && whole < (int64_t)PARSE_LOG_TABLE) {
		*out = whole <= 0 ? 0.0f : p->log_table[whole];
		return true;
	}
	if (!parse_real(s, n, &x))
		return false;
	*out = x <= 0 ? 0.0f : log1pf(x);
	return true;
}

/* Parses the columns after the label, from `at` to the end of the line. */
static const char *parse_columns(const struct parser *p, struct rows *out, struct tabs *tabs, const char *at, const char *end)
{
	const char *stop = at - 1;
	float *dense = out->dense + (size_t)out->count * p->dense_dim;
	uint64_t *keys = out->keys + out->keys_count;
	for (uint32_t j = 0; j < p->dense_dim; j++) {
		if (stop == end)
			return "too few columns";
		at = stop + 1;
		stop = tabs_next(tabs, end);
		const size_t n = (size_t)(stop - at);
		if (!column_number(p, at, n, &dense[j]))
			return parse_is_not_finite(at, n) ? "a numeric column is not a finite number" : "a numeric column is not a number";
	}
	for (uint32_t f = 0; f < p->fields; f++) {
		if (stop == end)
			return "too few columns";
		at = stop + 1;
		stop = tabs_next(tabs, end);
		keys[f] = parse_token_key(p, f, at, (size_t)(stop - at));
	}
	return stop == end ? NULL : "too many columns";
}

static enum parsed append(const struct parser *p, struct rows *out, float label)
{
	out->labels[out->count++] = label;
	out->keys_count += p->fields;
	return PARSED_ROW;
}

static enum parsed parse_labelled(const struct parser *p, struct rows *out, const char *line, size_t n, char why[PARSE_WHY_BYTES])
{
	const char *end = line + n;
	struct tabs tabs = {line, tab_mask(line)};
	const char *stop = tabs_next(&tabs, end);
	float label;
	const enum parsed read = parse_label(p, p->positive_above, line, (size_t)(stop - line), &label, why);
	if (read != PARSED_ROW)
		return read;
	const char *bad = stop == end ? "too few columns" : parse_columns(p, out, &tabs, stop + 1, end);
	return bad ? parse_bad(why, bad) : append(p, out, label);
}

static uint32_t columns_of(const char *line, size_t n)
{
	uint32_t columns = 1;
	for (const char *at = line, *end = line + n; (at = memchr(at, '\t', (size_t)(end - at))) != NULL; at++)
		columns++;
	return columns;
}

/* A line with one column less than the file's others is never read as one without a label, nor a
 * line with one more as one with a label: each column would be taken for its neighbour. To be
 * scored, such lines are refused: the file may have been put together from both kinds. */
static enum parsed refuse_mixed(char why[PARSE_WHY_BYTES], const char *text)
{
	(void)parse_bad(why, text);
	return PARSED_REFUSED;
}

static enum parsed parse_unlabelled(const struct parser *p, struct rows *out, const char *line, size_t n,
                                    char why[PARSE_WHY_BYTES])
{
	struct tabs tabs = {line, tab_mask(line)};
	const char *bad = parse_columns(p, out, &tabs, line, line + n);
	if (bad && columns_of(line, n) == p->dense_dim + p->fields + 1)
		return refuse_mixed(why,
		                    "too many columns: is there a label? Most lines have none; expected one on all lines, or on none");
	return bad ? parse_bad(why, bad) : append(p, out, LABEL_NONE);
}

enum parsed parse_criteo(const struct parser *p, struct rows *out, const char *line, size_t n, char why[PARSE_WHY_BYTES])
{
	if (n == 0)
		return PARSED_NOTHING;
	if (!rows_reserve(out, p->fields))
		return parse_bad(why, PARSE_OUT_OF_MEMORY);
	if (p->unlabelled)
		return parse_unlabelled(p, out, line, n, why);
	const enum parsed read = parse_labelled(p, out, line, n, why);
	if (read == PARSED_ROW || columns_of(line, n) != p->dense_dim + p->fields)
		return read;
	return p->every_line
	           ? refuse_mixed(why,
	                          "a column is missing: is it the label? Most lines have one; expected one on all lines, or on none")
	           : parse_bad(why, "a column is missing: is it the label?");
}

struct line_shape parse_criteo_shape(uint32_t columns, const char *line, size_t n)
{
	const uint32_t has = n == 0 ? 0 : columns_of(line, n);
	return (struct line_shape){.is_row = has == columns || has == columns + 1,
	                           .label = has == columns ? LABEL_ABSENT : LABEL_THERE};
}
