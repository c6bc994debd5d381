/* Writes a job file for a table: what its columns look like as comments, then the job. */
#ifndef WEIR_JOB_DRAFT_H
#define WEIR_JOB_DRAFT_H

#include <stdio.h>

#include "worker/data/inspect/column_guess.h"
#include "worker/data/inspect/column_source.h"

struct job_draft {
	const char *const *patterns; /* (patterns_count) the data, as the person names them */
	uint32_t patterns_count;
	const struct column_source *source;
	const struct column_profile *profiles; /* (columns) */
	const struct column_guess *guesses;    /* (columns) */
	int64_t label;                         /* its number; -1: none */
};

void job_draft_write(FILE *out, const struct job_draft *d);
/* "whole numbers", "text": what most of a column's values are. */
const char *column_values_name(const struct column_profile *p);
/* Writes the range of a column's numbers or dates, "0 to 41.5"; "" without them. */
void column_range_text(const struct column_profile *p, char *out, size_t bytes);

#endif
