/* The ids of scored rows, for `weir predict`: columns of CSV files that name a row. They are read
 * from the files again, in step with the scores, so that any column can name rows and scores of any
 * size need no memory for them. */
#ifndef WEIR_ROW_IDS_H
#define WEIR_ROW_IDS_H

#include <stdio.h>

#include "cli/core/options.h"
#include "worker/data/dataset.h"

struct row_ids {
	struct dataset_lines *lines;
	char **names;      /* (count) */
	uint32_t *columns; /* (count) in the files */
	uint32_t count;    /* 0: rows have no ids */
};

/* The columns that --ids names, each item one or several between commas; without --ids, those of
 * kind id. The columns of the job that no file has are errors. Call row_ids_close also after an
 * error. */
weir_status row_ids_open(struct row_ids *out, const struct job *job, const struct option_list *given, const struct dataset *data,
                         weir_error *err) WEIR_MUST_CHECK;
void row_ids_close(struct row_ids *ids);

/* Writes the header: the names of the columns, then those of the scores. */
void row_ids_write_header(const struct row_ids *ids, const struct job *job, FILE *out);
/* Writes the ids of the next row, each with a comma behind it. blank: the line has no row; nothing
 * is written. */
weir_status row_ids_write_next(struct row_ids *ids, bool blank, FILE *out, weir_error *err) WEIR_MUST_CHECK;

#endif
