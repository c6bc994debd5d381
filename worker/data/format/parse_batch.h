/* Parses rows of a batch (arrow_reader.h) column by column: one switch on a column's type for many
 * cells, no text between a number and its float, a key once for each distinct value of a
 * dictionary.
 *
 * The rows are those of parse_table. It stays the only judge of rows that are odd: a cell is
 * refused, or is of no common form. */
#ifndef WEIR_PARSE_BATCH_H
#define WEIR_PARSE_BATCH_H

#include "worker/data/format/arrow_ids.h"
#include "worker/data/format/parse.h"
#include "worker/data/format/row_reader.h"

#define PARSE_BATCH_ROWS ARROW_IDS_MAX /* rows at a time: their columns fit in the processor's cache */

struct parse_batch;

/* Borrows both. The parser has a layout. */
weir_status parse_batch_create(struct parse_batch **out, const struct parser *p, struct row_reader *r,
                               weir_error *err) WEIR_MUST_CHECK;
/* Begins the batch that the reader has begun. The batch before must not be released yet. */
weir_status parse_batch_begin(struct parse_batch *b, int64_t rows, weir_error *err) WEIR_MUST_CHECK;
/* Parses rows at[0 .. n) of the batch. Moves the reader. E_MEMORY. */
weir_status parse_batch_read(struct parse_batch *b, const int64_t *at, uint32_t n, weir_error *err) WEIR_MUST_CHECK;
/* Whether row at[j] is for parse_table. */
bool parse_batch_is_odd(const struct parse_batch *b, uint32_t j);
/* Appends rows at[first .. first + count), none of them odd. Returns false when out of memory. */
bool parse_batch_append(const struct parse_batch *b, uint32_t first, uint32_t count, struct rows *out);
void parse_batch_destroy(struct parse_batch *b); /* NULL is allowed */

#endif
