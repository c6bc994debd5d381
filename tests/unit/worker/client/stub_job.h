/* The answers of a ledger and a server to a job's only worker, for tests that act as both. */
#ifndef STUB_JOB_H
#define STUB_JOB_H

#include "proto/wire/wire.h"

extern const uint8_t stub_uuid[16];

struct stub_job {
	const char *address; /* of the only server */
	uint32_t partitions, patience_ms;
	const weir_table_spec *specs; /* (specs_count), ids from 1 */
	uint32_t specs_count;
};
#define STUB_PARTITIONS_MAX 8u
#define STUB_TABLES_MAX     8u

/* Attempt of pass 0, unit 0, from 1; the earlier attempts are sealed first. stub_ok: the answer to
 * all other requests. */
struct message *stub_join_reply(const struct stub_job *job);
struct message *stub_lease_reply(uint32_t attempt);
struct message *stub_ok(void);

#endif
