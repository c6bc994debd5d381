/* The data of a job, opened once before anything is done with them: what is wrong with them is
 * said here, and the workers find the packed cache built. */
#ifndef WEIR_DATA_CHECK_H
#define WEIR_DATA_CHECK_H

#include "common/job/job.h"
#include "common/system/logger.h"
#include "worker/data/dataset.h"
#include "worker/data/format/sources.h"

#define DATA_WARNING_BYTES 256u

struct data_check {
	struct dataset *parts[3];         /* by enum split_part; NULL: the job has none */
	uint64_t rows;                    /* of the training part */
	uint64_t bad_lines;               /* of the training part: left out while it was packed */
	char warning[DATA_WARNING_BYTES]; /* "": none */
	struct job *uncached;             /* of data_check_peek */
};

/* Every part that the job reads; each has rows, and those of training have labels of both
 * classes, or there is a warning. with_model: also whether the model can be built over them. */
weir_status data_check(const struct job *job, bool with_model, struct logger *logger, struct data_check *out, weir_error *err);
/* Opens those parts that can be opened without making anything: files on this machine which are not compressed, nor texts to
 * tokenize. Their units are not those of a packed cache. */
weir_status data_check_peek(const struct job *job, struct logger *logger, struct data_check *out, weir_error *err);
/* Whether all of these files are so. */
bool data_check_is_plain(const struct job *job, const struct sources *s);
/* Of the training part alone: whether there are rows, of both classes. warning: of one class; "":
 * none. E_INVALID: one class is left once bad lines are left out. */
weir_status data_check_labels(const struct job *job, struct dataset *data, char warning[DATA_WARNING_BYTES],
                              weir_error *err) WEIR_MUST_CHECK;
/* Also after an error. */
void data_check_close(struct data_check *c);

#endif
