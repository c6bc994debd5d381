/* Shared code of the parsers (parse*.c only): numbers, labels, buckets. */
#ifndef WEIR_PARSE_INTERNAL_H
#define WEIR_PARSE_INTERNAL_H

#include <stdio.h>

#include "worker/data/format/parse.h"

#define PARSE_OUT_OF_MEMORY "out of memory"

/* Parses at most 18 decimal digits after an optional minus. Returns false on anything else. */
bool parse_integer(const char *s, size_t n, int64_t *out);
/* Parses a finite decimal number. */
bool parse_real(const char *s, size_t n, float *out);
/* Returns whether the text is a number or word that is not a finite float: nan, -inf, 1e99. */
bool parse_is_not_finite(const char *s, size_t n);
/* Returns whether the word marks an unknown label. */
bool parse_says_unknown(const char *word, size_t n);
/* Converts a label's word to 0, 1 or, with every_line, LABEL_NONE. positive_above: NaN: labels are
 * 0, 1 or -1. */
enum parsed parse_label(const struct parser *p, float positive_above, const char *word, size_t n, float *out,
                        char why[PARSE_WHY_BYTES]);

/* Returns the key of a category of a field (criteo, csv); 8 bytes must be readable at the token. */
uint64_t parse_token_key(const struct parser *p, uint32_t field, const char *token, size_t n);

enum parsed parse_criteo(const struct parser *p, struct rows *out, const char *line, size_t n, char why[PARSE_WHY_BYTES]);
struct line_shape parse_criteo_shape(uint32_t columns, const char *line, size_t n);
weir_status parse_category_key(const struct parser *p, uint32_t field, const char *value, uint64_t *key, weir_error *err);
weir_status parse_sparse_key(const struct parser *p, uint32_t field, const char *value, uint64_t *key, weir_error *err);

enum parsed parse_sparse(const struct parser *p, struct rows *out, const char *line, size_t n, char why[PARSE_WHY_BYTES]);
struct line_shape parse_sparse_shape(enum data_format format, const char *line, size_t n);

static inline enum parsed parse_bad(char why[PARSE_WHY_BYTES], const char *text)
{
	snprintf(why, PARSE_WHY_BYTES, "%s", text);
	return PARSED_BAD;
}

#endif
