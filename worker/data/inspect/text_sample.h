/* A sample of CSV or JSON lines as a column source.
 *
 * Each file gives the same share of its bytes. A compressed file, and CSV with quotes, whose rows
 * cannot be found from the middle, is read from its beginning. Of other files slices are read that
 * lie evenly over the file; a slice of CSV with a quote is left out and counted.
 *
 * Without a job's layout the columns of JSON lines are the keys of the sample, which is read twice.
 */
#ifndef WEIR_TEXT_SAMPLE_H
#define WEIR_TEXT_SAMPLE_H

#include "worker/data/inspect/column_source.h"

#define TEXT_SAMPLE_SLICE_BYTES (1u << 20)

/* rows: ROWS_CSV or ROWS_JSON. */
weir_status text_sample_open(struct column_source **out, const struct sources *sources, enum table_rows rows,
                             const struct column_source_options *o, weir_error *err) WEIR_MUST_CHECK;

#endif
