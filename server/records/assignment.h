/* The assignment of a partition: which servers shall hold it. The partition's own record says which
 * servers hold it now (replica.h). Its primary and the assigned servers move from one to the other
 * step by step and survive any crash on the way (placement.h).
 *
 * The coordinator keeps this record beside the partition's own (coord_records_format.h). Without a
 * record, placement.h gives the servers. */
#ifndef WEIR_ASSIGNMENT_H
#define WEIR_ASSIGNMENT_H

#include "server/records/member_set.h"

struct assignment {
	uint64_t revision; /* mod_revision; 0: no record */
	struct member_set hosts;
	/* Shall become primary in place of the primary of `epoch`. MEMBER_NONE: the primary stays. */
	uint16_t primary;
	uint64_t epoch;
};

#endif
