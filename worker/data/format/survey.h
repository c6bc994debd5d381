/* Surveys the beginnings of files: how many fields their lines have, and whether the lines have
 * labels. */
#ifndef WEIR_SURVEY_H
#define WEIR_SURVEY_H

#include "common/job/job.h"
#include "worker/data/format/sources.h"

/* Enough to see whether rows have labels. Counting fields takes WEIR_SURVEY_BYTES_MAX. */
#define SURVEY_LABEL_BYTES (4u << 20)

struct survey {
	uint32_t fields; /* maximum over the lines; excludes LIBSVM's first word */
	/* Lines that look like rows; those with a label; those without one. Other rows may be
	 * either. */
	uint64_t rows, labelled, unlabelled;
};

/* Reads about `bytes` bytes, the same share of each file. columns: criteo only, the number of
 * columns after the label. */
weir_status survey_read(struct survey *out, const struct sources *sources, enum data_format format, uint32_t columns,
                        uint64_t bytes, weir_error *err);
/* Returns whether more rows lack a label than have one. */
bool survey_is_unlabelled(const struct survey *s);

#endif
