/* The proof of "exactly once": what the ledger's commits say each partition took, against what the partitions say they applied.
 * Counts and the wrapping sums of identity hashes must both agree, per partition (DESIGN section 2). */
#ifndef WEIR_AUDIT_H
#define WEIR_AUDIT_H

#include <stdbool.h>
#include <stdint.h>

#include "overview/overview.h"

struct audit {
	uint64_t parts_expected;                     /* by the commits of all units */
	uint64_t skipped;                            /* what units that were given up had put into the partitions before */
	uint64_t applied, dropped;                   /* by the partitions; dropped: late batches of synchronous steps */
	uint64_t missing;                            /* expected and in no partition */
	uint64_t doubled;                            /* applied twice, or applied and in no commit */
	uint32_t replicas_compared, replicas_differ; /* partitions; 0: they have one copy */
	bool ok;
	char
	    text[WEIR_ERROR_TEXT_BYTES]; /* when not ok: the first partition that disagrees, with its numbers, or whose replicas do */
};

/* Only meaningful once the job is finished: parts of units in progress are in no commit yet. */
struct audit audit_run(const struct overview *s);
/* Adds what comparing replicas has shown. */
void audit_add_replicas(struct audit *a, const struct overview_replicas *r);

#endif
