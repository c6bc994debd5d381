/* Parses rows of tables (CSV, JSON lines, Parquet, Arrow) into rows of features.
 *
 *   categorical   the key is the hash of (field, value), as that of criteo's categories; an empty
 *                 cell is a value of its own
 *   multi         a bag of such keys, of the first max_length ids; empty ids are left out
 *   sequence      likewise, of the last max_length ids
 *   numeric       a decimal number; log1p makes it log(1 + max(x, 0)); an empty cell is 0. A number
 *                 to be scaled stays as it is, and its empty cell is NaN: dataset.h scales it
 *   bucketize     the key of the number of its bucket, as text; an empty cell is a bucket of its
 *                 own
 *   label         as in parse.h, one a task; masked: an empty cell is LABEL_NONE; positive: whether
 *                 the value is that text
 *   weight        a number from 0
 *   group         the hash of the value; an empty cell is 0, no group
 *
 * `default` replaces an empty cell. Pooling sum gives each id of a bag the value 1, mean the value
 * 1 / (number of its ids): models sum a bag's embeddings times these values. */
#ifndef WEIR_PARSE_TABLE_H
#define WEIR_PARSE_TABLE_H

#include "worker/data/format/line_split.h"
#include "worker/data/format/parse.h"
#include "worker/data/format/row_reader.h"
#include "worker/data/format/table_layout.h"

/* Prepares a parser of a job's rows. Borrows the layout. */
void parse_table_init(struct parser *p, const struct table_layout *layout, const struct job *job);
/* The keys of a column's ids: of its vocabulary, or hashes; of a number with buckets that of its
 * bucket. Borrows the column. Errors are those of vocabulary_open and parse_key. */
struct column_keys;
weir_status column_keys_open(struct column_keys **out, const struct job *job, const struct job_column *c,
                             weir_error *err) WEIR_MUST_CHECK;
weir_status column_keys_get(const struct column_keys *k, const char *value, uint64_t *key, weir_error *err) WEIR_MUST_CHECK;
void column_keys_close(struct column_keys *k); /* NULL is allowed */
/* The part that the reader's current row belongs to. A row without a readable time belongs to
 * SPLIT_TRAIN; parse_table refuses it. */
enum split_part parse_table_part(const struct parser *p, const struct split *s, struct row_reader *r, const struct cell *row);
/* Appends the reader's current row; results as those of parse_line. */
enum parsed parse_table(const struct parser *p, struct row_reader *r, struct rows *out, char why[PARSE_WHY_BYTES]);

#endif
