/* The partitions' records in the coordinator, and for each replica whether its log is whole: it has
 * every entry that it ever acknowledged. A replica that lost its log is whole again once it reports
 * itself in sync. The primary's word does not count, as it may rest on what the replica said before
 * the loss. */
#include <string.h>

#include "common/base/key_partition.h"
#include "server/coord/coord_records_format.h"
#include "server/log/journal.h"
#include "tests/sim/coord/coord_sim.h"
#include "tests/sim/job/job.h"

enum { RECORDS = PARTITIONS + 1 /* the last one is the ledger's */ };

static struct {
	struct replica_record of[RECORDS];
	bool whole[RECORDS][SERVERS_MAX];
	int64_t since_ns[RECORDS][SERVERS_MAX]; /* time since which the server is in sync */
	bool known[RECORDS];
	struct assignment wanted[PARTITIONS];
	struct mark marks[SERVERS_MAX];
	uint64_t last_start[SERVERS_MAX]; /* its incarnation */
} records;

const struct replica_record *records_get(uint32_t partition)
{
	return records.known[partition] ? &records.of[partition] : NULL;
}

const struct assignment *records_wanted(uint32_t partition)
{
	return &records.wanted[partition];
}

struct mark records_mark(const struct actor *server)
{
	return server->job->replicas > 1 ? records.marks[server->index] : (struct mark){0};
}

int64_t records_in_sync_since(uint32_t partition, uint16_t server)
{
	return member_set_has(&records.of[partition].isr, server) ? records.since_ns[partition][server] : INT64_MAX;
}

static void on_wanted(struct job *job, uint16_t p, const struct coord_record *r)
{
	weir_error err = {0};
	if (coord_records_unpack_assignment(r->value, r->value_bytes, r->mod_revision, &records.wanted[p], &err))
		job_fail(job, "who is to have partition %u is not known: %s", p, err.text);
	world_note("partition %u: %u hosts, the first %u, primary %u", p, records.wanted[p].hosts.count,
	           records.wanted[p].hosts.ids[0], records.wanted[p].primary);
}

/* A process reports the same start in each of its sessions. */
static void on_start(struct job *job, uint16_t server, const struct coord_record *r)
{
	char address[WEIR_ADDRESS_BYTES_MAX];
	const uint64_t before = records.last_start[server];
	weir_error err = {0};
	if (!r->value || coord_records_unpack_server(r->value, r->value_bytes, address, &records.last_start[server], &err))
		job_fail(job, "the last start of server %u is %s", server, r->value ? err.text : "gone");
	if (records.last_start[server] < before)
		job_fail(job, "server %u is in incarnation %llu, and was in %llu", server, (unsigned long long)records.last_start[server],
		         (unsigned long long)before);
}

/* Returns false for any other key. */
static bool take_mark(struct job *job, const uint8_t uuid[16], const struct coord_record *r)
{
	char key[WEIR_COORD_KEY_BYTES_MAX];
	weir_error err = {0};
	for (uint16_t i = 0; i < job->servers; i++) {
		coord_records_mark_key(uuid, i, key);
		if (strcmp(key, r->key) != 0)
			continue;
		const struct mark before = records.marks[i];
		if (!r->value || coord_records_unpack_mark(r->value, r->value_bytes, &records.marks[i], &err))
			job_fail(job, "the mark of server %u is %s", i, r->value ? err.text : "gone");
		if (mark_is_below(&records.marks[i], &before))
			job_fail(job, "the mark of server %u goes back from epoch %llu, position %llu to %llu, %llu", i,
			         (unsigned long long)before.epoch, (unsigned long long)before.position,
			         (unsigned long long)records.marks[i].epoch, (unsigned long long)records.marks[i].position);
		return true;
	}
	return false;
}

static void on_change(void *arg, const struct coord_record *r)
{
	static const uint8_t uuid[16];
	struct job *job = arg;
	char prefix[WEIR_COORD_KEY_BYTES_MAX];
	struct replica_record now;
	enum coord_records_kind kind;
	uint16_t p;
	weir_error err = {0};
	coord_records_prefix(uuid, 1, prefix);
	if (take_mark(job, uuid, r) || !coord_records_key_read(prefix, r->key, PARTITIONS, &kind, &p))
		return;
	if (kind == COORD_RECORDS_HOSTS)
		on_wanted(job, p, r);
	if (kind == COORD_RECORDS_START)
		on_start(job, p, r);
	if (kind != COORD_RECORDS_PARTITION)
		return;
	p = p == JOURNAL_LEDGER ? PARTITIONS : p;
	if (!r->value || coord_records_unpack(r->value, r->value_bytes, r->mod_revision, &now, &err)) {
		job_fail(job, "the record of partition %u is %s", p, r->value ? err.text : "gone");
		return;
	}
	const struct replica_record *before = &records.of[p];
	world_note("record of %u: epoch %llu, primary %u, %u in sync", p, (unsigned long long)now.epoch, now.primary, now.isr.count);
	if (now.epoch < before->epoch ||
	    (records.known[p] && now.epoch == before->epoch && now.primary != before->primary && now.primary != MEMBER_NONE))
		job_fail(job, "partition %u: another primary, %u, in the same epoch %llu", p, now.primary, (unsigned long long)now.epoch);
	if (now.primary != MEMBER_NONE && !member_set_has(&now.isr, now.primary))
		job_fail(job, "partition %u: the primary %u is not in sync", p, now.primary);
	for (uint32_t i = 0; i < now.isr.count; i++)
		if (!records.known[p] || !member_set_has(&before->isr, now.isr.ids[i]))
			records.since_ns[p][now.isr.ids[i]] = world_now();
	job->failovers += before->epoch > 0 && now.epoch > before->epoch;
	records.of[p] = now;
	records.known[p] = true;
}

void records_heard(uint32_t partition, uint16_t server)
{
	records.whole[partition][server] |= records.known[partition] && member_set_has(&records.of[partition].isr, server);
}

void records_begin(struct job *job)
{
	memset(&records, 0, sizeof records);
	for (uint32_t p = 0; p < PARTITIONS; p++)
		for (uint32_t i = 0; i < job->replicas; i++)
			member_set_add(&records.wanted[p].hosts, (uint16_t)placement_replica(p, i, job->servers));
	coord_sim_observe(on_change, job);
}

void records_lost_log(const struct actor *server)
{
	for (uint32_t p = 0; p < RECORDS; p++)
		records.whole[p][server->index] = false;
}

/* Whether another in-sync replica has every entry. */
static bool has_another(const struct job *job, uint32_t p, uint32_t server)
{
	const struct replica_record *r = &records.of[p];
	for (uint32_t i = 0; i < r->isr.count; i++) {
		const uint16_t m = r->isr.ids[i];
		if (m != server && records.whole[p][m] && !job->cast[m].gone)
			return true;
	}
	return false;
}

bool records_spare(const struct actor *server)
{
	for (uint32_t p = 0; p < RECORDS; p++) {
		const struct replica_record *r = &records.of[p];
		if (member_set_has(&r->isr, (uint16_t)server->index) && r->isr.count <= r->min_isr)
			return false;
	}
	return true;
}

bool records_survive(const struct job *job, const struct actor *server)
{
	if (coord_sim_under_way(server->node))
		return false; /* it may become the only one */
	for (uint32_t p = 0; p < RECORDS; p++)
		if (!records.known[p] ||
		    (member_set_has(&records.of[p].isr, (uint16_t)server->index) && !has_another(job, p, server->index)))
			return false;
	return true;
}
