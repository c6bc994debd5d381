/* A sample of CSV files as a column source.
 *
 * Each file gives the same share of its bytes. A compressed file, and one with quotes, whose rows
 * cannot be found from the middle, is read from its beginning. Of other files slices are read that
 * lie evenly over the file; a slice with a quote is left out and counted. */
#ifndef WEIR_CSV_SAMPLE_H
#define WEIR_CSV_SAMPLE_H

#include "worker/data/format/sources.h"
#include "worker/data/inspect/column_source.h"
#include "worker/data/inspect/csv_dialect.h"

#define CSV_SAMPLE_SLICE_BYTES (1u << 20)

struct csv_sample_options {
	uint64_t bytes;         /* size of the sample */
	struct csv_marks marks; /* delimiter 0: recognise it */
	enum { HEADER_RECOGNISED, HEADER_THERE, HEADER_ABSENT } header;
	char *const *names; /* (names_count) in place of the header's; may be NULL */
	uint32_t names_count;
};

/* Borrows sources. A column without a name is named by its number: c1, c2, ... *renamed: a header
 * lacks a name. E_INVALID: no file has a row. */
struct csv_found {
	struct csv_dialect dialect;
	bool renamed;
};
weir_status csv_sample_open(struct column_source **out, struct csv_found *found, const struct sources *sources,
                            const struct csv_sample_options *o, weir_error *err) WEIR_MUST_CHECK;

#endif
