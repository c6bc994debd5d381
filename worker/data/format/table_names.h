/* Names of the columns of a table, on the way to its layout (table_layout.h). */
#ifndef WEIR_TABLE_NAMES_H
#define WEIR_TABLE_NAMES_H

#include "worker/data/format/arrow_abi.h"
#include "worker/data/format/table_layout.h"

struct table_names {
	char **items; /* (count) */
	uint32_t count;
};

void table_names_destroy(struct table_names *n);
weir_status table_names_no_memory(const char *path, weir_error *err);
/* Appends a name; there is room. path: where it is from. */
weir_status table_names_add(struct table_names *n, const char *path, const char *text, size_t bytes, weir_error *err);
/* Takes a schema's first `own` columns, and of the others, which folders name, those that the job
 * names; without a job all. */
weir_status table_names_take(const struct ArrowSchema *schema, uint32_t own, const struct job *job, const char *path,
                             struct table_names *out, weir_error *err);
/* E_INVALID: a name comes twice. */
weir_status table_names_check(const struct table_names *names, const char *path, weir_error *err);

/* The columns of rows of a kind, and where they are from, for messages. */
struct table_source_names {
	enum table_rows rows;
	const char *path;
	struct table_names *names;
};
/* Makes the layout of columns with these names, which it takes, also when it fails. */
weir_status table_layout_make(struct table_layout **out, const struct job *job, const struct table_source_names *of, bool scored,
                              weir_error *err) WEIR_MUST_CHECK;

#endif
