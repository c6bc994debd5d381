#include "tests/unit/worker/client/stub_job.h"

#include <assert.h>
#include <string.h>

const uint8_t stub_uuid[16] = "stub-job-uuid-16";

static struct message *packed(const ProtobufCMessage *m)
{
	struct message *out = wire_pack(m);
	assert(out);
	return out;
}

struct message *stub_join_reply(const struct stub_job *job)
{
	Weir__V1__JoinReply r = WEIR__V1__JOIN_REPLY__INIT;
	Weir__V1__Status ok = WEIR__V1__STATUS__INIT;
	Weir__V1__JobId id = WEIR__V1__JOB_ID__INIT;
	Weir__V1__PartitionMap map = WEIR__V1__PARTITION_MAP__INIT;
	char *servers[] = {(char *)(uintptr_t)job->address};
	uint32_t server[STUB_PARTITIONS_MAX] = {0};
	uint64_t epoch[STUB_PARTITIONS_MAX];
	struct wire_table wire[STUB_TABLES_MAX];
	Weir__V1__Table *tables[STUB_TABLES_MAX];
	assert(job->partitions <= STUB_PARTITIONS_MAX && job->specs_count <= STUB_TABLES_MAX);
	for (uint32_t p = 0; p < job->partitions; p++)
		epoch[p] = 1;
	for (uint32_t i = 0; i < job->specs_count; i++) {
		const weir_status status = wire_table_make(&wire[i], &job->specs[i], 1 + i);
		assert(status == WEIR_OK);
		(void)status;
		tables[i] = &wire[i].table;
	}
	id.uuid = (ProtobufCBinaryData){sizeof stub_uuid, (uint8_t *)(uintptr_t)stub_uuid};
	id.generation = 1;
	map.revision = 1;
	map.servers = servers;
	map.server = server;
	map.epoch = epoch;
	map.n_servers = 1;
	map.n_server = map.n_epoch = job->partitions;
	r.status = &ok;
	r.job = &id;
	r.map = &map;
	r.incarnation = 1;
	r.lease_ms = 60000;
	r.partitions = job->partitions;
	r.passes = 1;
	r.patience_ms = job->patience_ms;
	r.tables = tables;
	r.n_tables = job->specs_count;
	struct message *m = packed(&r.base);
	for (uint32_t i = 0; i < job->specs_count; i++)
		wire_table_destroy(&wire[i]);
	return m;
}

struct message *stub_lease_reply(uint32_t attempt)
{
	Weir__V1__LeaseReply r = WEIR__V1__LEASE_REPLY__INIT;
	Weir__V1__Status ok = WEIR__V1__STATUS__INIT;
	Weir__V1__WorkUnit unit = WEIR__V1__WORK_UNIT__INIT;
	unit.attempt = attempt;
	unit.sealed = attempt > 1;
	r.status = &ok;
	r.state = WEIR__V1__LEASE_STATE__UNIT;
	r.unit = &unit;
	return packed(&r.base);
}

struct message *stub_ok(void)
{
	Weir__V1__LeaveReply r = WEIR__V1__LEAVE_REPLY__INIT;
	Weir__V1__Status ok = WEIR__V1__STATUS__INIT;
	r.status = &ok;
	return packed(&r.base);
}
