/* A sample of Parquet or Arrow files as a column source.
 *
 * Each file gives the same share of its rows, in ranges that lie evenly over it. Without a job's
 * layout the columns are those of the files and of their folders, and a file's schema says how its
 * cells are read. */
#ifndef WEIR_TABLE_SAMPLE_H
#define WEIR_TABLE_SAMPLE_H

#include "worker/data/inspect/column_source.h"

/* At most so many ranges of a file: one that begins inside a row group decodes the group from its
 * beginning. */
#define TABLE_SAMPLE_RANGES      8u
#define TABLE_SAMPLE_RANGE_BYTES (1u << 20) /* on disk, at least */

/* rows: ROWS_PARQUET or ROWS_ARROW. */
weir_status table_sample_open(struct column_source **out, const struct sources *sources, enum table_rows rows,
                              const struct column_source_options *o, weir_error *err) WEIR_MUST_CHECK;
/* What the type of a column says, by its schema. */
struct ArrowSchema;
void table_sample_type(struct column_type *out, const struct ArrowSchema *schema);

#endif
