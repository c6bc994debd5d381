/* What the lines of files look like, told by the beginnings of the files: how many fields they
 * have, and whether they have labels. */
#ifndef WEIR_SURVEY_H
#define WEIR_SURVEY_H

#include "common/job/job.h"
#include "worker/data/format/sources.h"

#define SURVEY_LABEL_BYTES (4u << 20) /* enough to see whether rows have labels; for fields, WEIR_SURVEY_BYTES_MAX */

struct survey {
	uint32_t fields;                     /* the most of a line, LIBSVM's first word aside */
	uint64_t rows, labelled, unlabelled; /* lines that look like rows; with a label, without one; the others may be either */
};

/* Reads about so many bytes, as many of each file. columns: criteo, those behind the label. */
weir_status survey_read(struct survey *out, const struct sources *sources, enum data_format format, uint32_t columns,
                        uint64_t bytes, weir_error *err);
/* More rows show that they have no label than that they have one. */
bool survey_is_unlabelled(const struct survey *s);

#endif
