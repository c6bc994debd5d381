/* One line of text to one row.
 *
 *   criteo   label TAB number * dense TAB category * fields       empty: missing (number 0, category a key of its own)
 *   libsvm   label[:weight] index:value ...                       the position is the field; fewer entries leave the last bags empty
 *   libffm   label[:weight] field:index:value ...                 in any order; several of one field are a bag
 *
 * A label above 0 is a click. A number x becomes log(1 + max(x, 0)). Keys: criteo hashes (field, category), libffm hashes (field, index), in
 * libsvm the index alone names the feature and is the key. With hash_buckets the hash is folded to [0, hash_buckets). */
#ifndef WEIR_PARSE_H
#define WEIR_PARSE_H

#include <stdint.h>

#include "job.h"
#include "rows.h"

#define PARSE_LOG_TABLE 4096u
/* Lines are read in whole words: this many readable bytes must follow a text. */
#define PARSE_SLACK 64u

struct parser {
	enum data_format format;
	uint32_t fields, dense_dim;
	uint64_t hash_buckets;
	float log_table[PARSE_LOG_TABLE]; /* log(1 + i) */
};

/* fields, dense 0: 26 and 13 for criteo; for the others `fields` must be known (parse_fields_of). */
void parser_init(struct parser *p, enum data_format format, uint32_t fields, uint32_t dense, uint64_t hash_buckets);
/* Whether rows of this format need offsets, values and weights. */
bool parser_bags(const struct parser *p);
/* Appends the row of line[0 .. n) (no newline; PARSE_SLACK readable bytes after it). NULL, or why the line is bad: then nothing is appended. */
const char *parse_line(const struct parser *p, struct rows *out, const char *line, size_t n);
/* Fields of a libsvm or libffm line: its entries, or its highest field + 1. 0 when it has none. */
uint32_t parse_fields_of(enum data_format format, const char *line, size_t n);

#endif
