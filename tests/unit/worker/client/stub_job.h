/* What a ledger and a server would say to the only worker of a job, for tests that play both of them. */
#ifndef STUB_JOB_H
#define STUB_JOB_H

#include "proto/wire/wire.h"

extern const uint8_t stub_uuid[16];

struct stub_job {
	const char *address; /* of its only server */
	uint32_t partitions, patience_ms;
	const weir_table_spec *specs; /* (specs_count), ids from 1 */
	uint32_t specs_count;
};
#define STUB_PARTITIONS_MAX 8u
#define STUB_TABLES_MAX     8u

/* An attempt at pass 0, unit 0, from 1, to seal the others first. stub_ok: what every other question is content with. */
struct message *stub_join_reply(const struct stub_job *job);
struct message *stub_lease_reply(uint32_t attempt);
struct message *stub_ok(void);

#endif
