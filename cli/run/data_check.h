/* Opens and checks the data of a job before anything else: reports problems in them and builds the
 * packed cache for the workers. */
#ifndef WEIR_DATA_CHECK_H
#define WEIR_DATA_CHECK_H

#include "common/job/job.h"
#include "common/system/logger.h"
#include "worker/data/dataset.h"
#include "worker/data/format/sources.h"

#define DATA_WARNING_BYTES 256u

struct data_check {
	struct dataset *parts[3];         /* by enum split_part; NULL: the job has no such part */
	uint64_t rows;                    /* of the training part */
	uint64_t bad_lines;               /* of the training part: omitted while packing */
	char warning[DATA_WARNING_BYTES]; /* "": none */
	struct job *uncached;             /* of data_check_peek */
};

/* Opens every part that the job reads. Each part must have rows, except one that is split off the
 * training part. Unless the training part has labels of both classes, sets a warning. with_model:
 * also checks that the model can be built for these data. */
weir_status data_check(const struct job *job, bool with_model, struct logger *logger, struct data_check *out, weir_error *err);
/* Opens the parts that can be opened without writing anything: files on this machine that are
 * neither compressed nor texts to tokenize. Their work units differ from those of a packed
 * cache. */
weir_status data_check_peek(const struct job *job, struct logger *logger, struct data_check *out, weir_error *err);
/* Tells whether all of these files are of that kind. */
bool data_check_is_plain(const struct job *job, const struct sources *s);
/* Checks that the training part has rows of both classes. warning: only one class; "": none.
 * E_INVALID: only one class remains after bad lines are omitted. */
weir_status data_check_labels(const struct job *job, struct dataset *data, char warning[DATA_WARNING_BYTES],
                              weir_error *err) WEIR_MUST_CHECK;
/* Call also after an error. */
void data_check_close(struct data_check *c);

#endif
