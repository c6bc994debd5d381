/* The columns of a CSV file that no job describes. */
#ifndef WEIR_CSV_COLUMNS_H
#define WEIR_CSV_COLUMNS_H

#include "worker/data/format/table_layout.h"
#include "worker/data/format/text.h"
#include "worker/data/inspect/column_source.h"

/* Finds how a file is written and what its columns are called, from its first lines; a column
 * without a name is c1, c2, ... by its number. Sets marks, header, names and columns of the layout,
 * which owns the names. *renamed: the header lacks a name. E_INVALID: there is no row. */
weir_status csv_columns_find(struct table_layout *out, bool *renamed, const char *path, struct text_chunk *lines,
                             const struct column_source_options *o, weir_error *err) WEIR_MUST_CHECK;

#endif
