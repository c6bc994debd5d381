/* After all faults have ended, checks that each partition and the ledger have a primary that
 * serves, with all possible replicas in sync and level with it. Otherwise it says what is
 * missing. */
#include <string.h>

#include "server/cluster/roles.h"
#include "server/partition/partition.h"
#include "server/replica/replica_internal.h"
#include "server/replication/replication.h"
#include "server/service/server_internal.h"
#include "tests/sim/job/job.h"

static struct replication *driver_of(const struct server *s, uint32_t id)
{
	return id == PARTITIONS ? s->ledger_replication : roles_replication(s, (uint16_t)id);
}

/* NULL: its process is down, or does not know the partition yet. */
static const struct replica *replica_of(const struct actor *a, uint32_t id)
{
	const struct server *s = actor_server(a);
	const struct replication *x = s ? driver_of(s, id) : NULL;
	return x ? replication_replica(x) : NULL;
}

static const char *name_of(uint32_t id, char *out, size_t bytes)
{
	snprintf(out, bytes, id == PARTITIONS ? "the ledger" : "partition %u", id);
	return out;
}

/* The primary leaves it out for a while because its disk was slow. */
static bool is_slow(const struct replica *primary, uint16_t server)
{
	for (uint32_t i = 0; i < primary->peers_count; i++)
		if (primary->peers[i].id == server)
			return primary->peers[i].slow;
	return false;
}

/* NULL: it has every committed entry that this server knows of. */
static const char *lacks(const struct actor *a, const struct replica *primary, uint32_t id)
{
	const struct server *s = actor_server(a);
	if (!s)
		return "does not serve";
	if (!member_set_has(&records_get(id)->isr, (uint16_t)a->index))
		return is_slow(primary, (uint16_t)a->index) ? NULL : "is not in sync";
	if (id == PARTITIONS)
		return NULL;
	if (!s->partitions[id]) /* it started without a log and has not read its assignment yet */
		return "does not know of it";
	return partition_applied(s->partitions[id]) == invariants_committed(id) ? NULL : "is not level";
}

static bool is_settled(struct job *job, uint32_t id, bool still, char *why, size_t bytes)
{
	char name[32];
	const struct replica_record *r = records_get(id);
	name_of(id, name, sizeof name);
	snprintf(why, bytes, "%s has no primary", name);
	if (!r || r->primary == MEMBER_NONE)
		return false;
	const struct replica *primary = replica_of(job_server(job, r->primary), id);
	snprintf(why, bytes, "the primary of %s, %u, does not serve", name, r->primary);
	if (!primary || !replica_serves(primary))
		return false;
	snprintf(why, bytes, "the primary of %s, %u, does not know all that is committed to be on disks", name, r->primary);
	if (still && replica_on_disks(primary) < replica_commit(primary))
		return false;
	const uint32_t hosts = id == PARTITIONS ? job->replicas : records_wanted(id)->hosts.count;
	for (uint32_t i = 0; i < hosts; i++) {
		const struct actor *a = job_server(job, id == PARTITIONS ? i : records_wanted(id)->hosts.ids[i]);
		const char *lack = a->gone ? NULL : lacks(a, primary, id);
		if (!lack)
			continue;
		snprintf(why, bytes, "%s of %s %s", a->name, name, lack);
		return false;
	}
	return true;
}

bool settled_all(struct job *job, bool still, char *why, size_t bytes)
{
	for (uint32_t id = 0; id <= PARTITIONS; id++)
		if (!is_settled(job, id, still, why, bytes))
			return false;
	return true;
}

/* --- For readers of a trace */

static void tell_peers(const struct replica *r)
{
	for (uint32_t i = 0; r->primary && i < r->peers_count; i++) {
		const struct replica_peer *p = &r->peers[i];
		world_note("  to %u: %s%s%s, has %llu, on disk %llu, next %llu, %u ticks behind", p->id,
		           p->established ? "established" : "not established", p->snapshot ? ", takes a snapshot" : "",
		           p->silent ? ", silent"
		           : p->slow ? ", slow"
		                     : "",
		           (unsigned long long)p->match, (unsigned long long)p->durable, (unsigned long long)p->next, p->stalled_ticks);
	}
}

static void tell_replica(const struct actor *a, uint32_t id)
{
	const struct replica *r = replica_of(a, id);
	if (!r)
		return;
	world_note(" %s: %s%s%s, log %llu..%llu, committed %llu, promised %llu, record of epoch %llu and primary %u%s%s", a->name,
	           r->primary ? "primary" : "follower", r->serving ? ", serves" : "", r->whole ? "" : ", not whole",
	           (unsigned long long)r->first, (unsigned long long)r->last, (unsigned long long)r->commit,
	           (unsigned long long)r->promised, (unsigned long long)r->record.epoch, r->record.primary, r->asking ? ", asks" : "",
	           r->unsure ? ", unsure" : "");
	tell_peers(r);
}

void settled_tell(struct job *job)
{
	char text[WEIR_ERROR_TEXT_BYTES];
	for (uint32_t id = 0; id <= PARTITIONS; id++) {
		if (is_settled(job, id, true, text, sizeof text))
			continue;
		world_note("%s", text);
		for (uint32_t i = 0; i < job->servers; i++)
			tell_replica(job_server(job, i), id);
	}
}
