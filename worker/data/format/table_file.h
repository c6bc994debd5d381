/* Parquet and Arrow files, through the plug-in libweir_arrow.so (table_plugin.h). It is opened at
 * the first file, from the program's folder or from lib/ or ../lib/ beside it. */
#ifndef WEIR_TABLE_FILE_H
#define WEIR_TABLE_FILE_H

#include "weir/status.h"
#include "worker/data/format/table_layout.h"
#include "worker/data/format/table_plugin.h"

struct table_file;

/* Borrows the layout, of which `rows` is known. E_UNSUPPORTED: there is no plug-in; the message
 * says how to get it. */
weir_status table_file_open(struct table_file **out, const char *path, const struct table_layout *layout,
                            weir_error *err) WEIR_MUST_CHECK;
uint64_t table_file_rows(const struct table_file *t);
/* The schema: a struct with a child for each of the file's *own columns, and for each that its
 * folders name. Release it. */
weir_status table_file_schema(struct table_file *t, struct ArrowSchema *out, uint32_t *own, weir_error *err) WEIR_MUST_CHECK;
/* Begins to read rows [begin, end) of the columns that the layout does not ignore; ends what it has
 * begun before. */
weir_status table_file_begin(struct table_file *t, uint64_t begin, uint64_t end, weir_error *err) WEIR_MUST_CHECK;
/* Reads the next batch, and its schema. Release both; they may outlive the file. At the end
 * batch->release is NULL. */
weir_status table_file_next(struct table_file *t, struct ArrowSchema *schema, struct ArrowArray *batch,
                            weir_error *err) WEIR_MUST_CHECK;
void table_file_close(struct table_file *t); /* NULL is allowed */

/* Whether a file to write is to be Parquet: its name ends in ".parquet". */
bool table_file_is_parquet(const char *name);
/* Whether such a file can be written. Call it before hours of work. */
weir_status table_file_can_write(const char *name, weir_error *err) WEIR_MUST_CHECK;
/* Replaces a CSV file with a header by the same table in Parquet: `texts` columns of text, then
 * numbers. */
weir_status table_file_from_csv(const char *path, uint32_t texts, enum table_number numbers, weir_error *err) WEIR_MUST_CHECK;

#endif
