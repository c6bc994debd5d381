/* What the parsers of formats share: numbers, labels, buckets. Of parse*.c. */
#ifndef WEIR_PARSE_INTERNAL_H
#define WEIR_PARSE_INTERNAL_H

#include <stdio.h>

#include "worker/data/format/parse.h"

#define PARSE_OUT_OF_MEMORY "out of memory"

/* Decimal digits, at most 18, behind a minus perhaps. False on anything else. */
bool parse_integer(const char *s, size_t n, int64_t *out);
/* A finite decimal number. */
bool parse_real(const char *s, size_t n, float *out);
/* Whether it is a number or a word for one that is no finite float: nan, -inf, 1e99. */
bool parse_is_not_finite(const char *s, size_t n);
/* Whether it is what files have for a label that nobody knows. */
bool parse_says_unknown(const char *word, size_t n);
/* The word of a label to 0, 1, or, with every_line, LABEL_NONE. */
enum parsed parse_label(const struct parser *p, const char *word, size_t n, float *out, char why[PARSE_WHY_BYTES]);

enum parsed parse_criteo(const struct parser *p, struct rows *out, const char *line, size_t n, char why[PARSE_WHY_BYTES]);
struct line_shape parse_criteo_shape(uint32_t columns, const char *line, size_t n);
/* The key of a category that is missing. */
uint64_t parse_criteo_missing(const struct parser *p, uint32_t field);

enum parsed parse_sparse(const struct parser *p, struct rows *out, const char *line, size_t n, char why[PARSE_WHY_BYTES]);
struct line_shape parse_sparse_shape(enum data_format format, const char *line, size_t n);

static inline enum parsed parse_bad(char why[PARSE_WHY_BYTES], const char *text)
{
	snprintf(why, PARSE_WHY_BYTES, "%s", text);
	return PARSED_BAD;
}

#endif
