/* What the columns of a job take from files: the scales of numbers (transform standard, minmax)
 * from the training part, and the contents of vocabularies. They become keys of data.columns, as if
 * a person had given them: so they are part of the job's fingerprint, and weights are refused with
 * other ones.
 *
 * The scales are sums over the rows of the training part in the order of the files, so that every
 * process finds the same bits. RUN_DIR/columns.json keeps them for evaluations and predictions:
 *
 *     {"data": "train.csv (N bytes, HASH) HASH",
 *      "scales": [{"column": "price", "mean": 3.5, "std": 1.2},
 *                 {"column": "age", "min": 0, "max": 99}]}
 */
#ifndef WEIR_COLUMN_FACTS_H
#define WEIR_COLUMN_FACTS_H

#include "common/job/job.h"
#include "common/system/logger.h"
#include "weir/status.h"

enum column_facts_use {
	FACTS_BEGIN,  /* a new run finds its own */
	FACTS_RESUME, /* a run goes on with those it has; its workers then take them for the data's */
	FACTS_WORK,   /* kept ones serve if they are of the training part as it is */
	FACTS_WEIGHTS /* weights go with those they were trained with */
};

/* Settles the facts of a job that trains, or whose weights are used. Does nothing for a job without
 * such columns. Reads the training part unless kept scales serve; logger: for its bad lines, may be
 * NULL. */
weir_status column_facts_settle(struct job *job, enum column_facts_use use, struct logger *logger,
                                weir_error *err) WEIR_MUST_CHECK;
/* Settles them without reading data or writing, for checks: scales that are not kept become those
 * that change nothing. */
weir_status column_facts_assume(struct job *job, weir_error *err) WEIR_MUST_CHECK;

#endif
