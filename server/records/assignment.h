/* Which servers shall have a partition. That is not who has it, which is its record's to say (replica.h), but what its primary and the servers named
 * bring about, step by step, whoever dies meanwhile: hosting.h.
 *
 * The record is the coordinator's, beside the partition's own (authority_format.h). Where there is none, the hosts are those of placement.h. */
#ifndef WEIR_HOSTS_H
#define WEIR_HOSTS_H

#include "server/records/member_set.h"

struct hosts_record {
	uint64_t revision; /* its mod_revision; 0: there is none */
	struct member_set hosts;
	uint16_t primary; /* is to be primary in place of that of `epoch`; MEMBER_NONE: whoever is */
	uint64_t epoch;
};

#endif
