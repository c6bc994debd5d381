/* The proof of "exactly once". The audit compares the parts that the ledger's commits expect in
 * each partition with the parts that the partitions applied. Per partition, both the counts and the
 * wrapping sums of identity hashes must agree (DESIGN section 2). */
#ifndef WEIR_AUDIT_H
#define WEIR_AUDIT_H

#include <stdbool.h>
#include <stdint.h>

#include "overview/overview.h"

struct audit {
	uint64_t parts_expected; /* by the commits of all units */
	/* parts that abandoned units had put into the partitions before */
	uint64_t skipped;
	/* by the partitions; dropped: late batches of synchronous steps */
	uint64_t applied, dropped;
	uint64_t missing;                            /* expected, but in no partition */
	uint64_t doubled;                            /* applied twice, or applied but in no commit */
	uint32_t replicas_compared, replicas_differ; /* partitions; 0: they have one copy */
	bool ok;
	/* when not ok: the first partition that disagrees, with its numbers, or whose replicas
	 * differ */
	char text[WEIR_ERROR_TEXT_BYTES];
};

/* Valid only for a finished job: no commit contains the parts of units in progress yet. */
struct audit audit_run(const struct overview *s);
/* Adds the result of comparing replicas. */
void audit_add_replicas(struct audit *a, const struct overview_replicas *r);

#endif
