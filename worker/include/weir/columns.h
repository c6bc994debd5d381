/* Rows of a table as keys and floats, from any producer of the Arrow C stream interface: pyarrow,
 * polars, DuckDB, a program of one's own. The columns are described, read and hashed as those of a
 * job's files (data.columns, docs/DATA.md), so a model that a job trains has the same keys. No
 * client, no server and no library of Arrow takes part.
 *
 *     weir_columns *c;  weir_columns_rows rows = {0};  weir_error e = {0};
 *     weir_columns_open(&c, "{columns: [{name: y, kind: label}, {name: user, kind: categorical}]}",
 *                       &stream, &e);
 *     while (weir_columns_next(c, &rows, &e) == WEIR_OK && rows.rows) { pull, compute, push }
 *     weir_columns_close(c); */
#ifndef WEIR_COLUMNS_H
#define WEIR_COLUMNS_H

#include <stddef.h>
#include <stdint.h>

#include "weir/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* https://arrow.apache.org/docs/format/CStreamInterface.html */
struct ArrowArrayStream;
typedef struct weir_columns weir_columns;

/* The rows of a batch of the stream. Arrays are borrowed until the next call with the same
 * weir_columns. Field f of row r is the bag keys[offsets[r * fields + f] .. offsets[r * fields + f
 * + 1]). Fields, numeric features and labels are in the order of the description. */
typedef struct weir_columns_rows {
	size_t size;
	size_t rows;                       /* 0: the stream has ended */
	size_t keys_count;                 /* of the batch */
	uint64_t bad_rows;                 /* of the stream so far; they are left out */
	uint32_t tasks, fields, dense_dim; /* labels, bags and numeric features of a row */
	const float *labels;               /* (rows, tasks); NaN: the label is missing, as `masked` allows */
	const float *weights;              /* (rows) or NULL: all 1 */
	const float *dense;                /* (rows, dense_dim), transformed */
	const uint32_t *offsets;           /* (rows * fields + 1) or NULL: each bag has one key */
	const uint64_t *keys;              /* (keys_count) */
	const float *values;               /* (keys_count) of pooling mean, or NULL: all 1 */
	const uint64_t *groups;            /* (rows) 0: none; or NULL: no row has one */
	const char *first_bad;             /* "row 17: column 'price': ..."; "": no row was bad */
} weir_columns_rows;
WEIR_API void weir_columns_rows_init(weir_columns_rows *out, size_t size);

/* data: the keys `columns`, and hash_buckets and positive_above if they are set, of a job's `data`,
 * as JSON or as YAML in braces. On success the stream is moved: stream->release becomes NULL.
 * E_PARSE, E_INVALID: the description is wrong, or does not suit the stream's columns; the message
 * has the column. E_UNSUPPORTED: a column is of a type that its kind does not take. */
WEIR_API weir_status weir_columns_open(weir_columns **out, const char *data, struct ArrowArrayStream *stream, weir_error *err);
/* Blocks in the stream. A failure ends the stream: the next call fails in the same way. One thread
 * at a time uses a weir_columns. */
WEIR_API weir_status weir_columns_next(weir_columns *columns, weir_columns_rows *rows, weir_error *err);
WEIR_API void weir_columns_close(weir_columns *columns); /* releases the stream; NULL is allowed */

#ifdef __cplusplus
}
#endif

#endif
