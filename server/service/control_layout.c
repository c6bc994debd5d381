/* Control calls about placement: the job's layout on its servers, and changes to it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/cluster/placement.h"
#include "server/cluster/roles.h"
#include "server/coord/coord_records.h"
#include "server/coord/coord_records_format.h"
#include "server/log/journal.h"
#include "server/service/server_internal.h"

static weir_status check_job(const struct server *s, const Weir__V1__JobId *job, weir_error *err)
{
	const bool named = job && job->uuid.len;
	return named ? server_check_job(s, job->uuid.data, job->uuid.len, job->generation, err) : WEIR_OK;
}

/* Partitions with one copy cannot be moved. */
static weir_status check_replicas(const struct server *s, weir_error *err)
{
	return roles_placement(s)
	           ? WEIR_OK
	           : weir_fail(err, WEIR_E_UNSUPPORTED,
	                       "%s: partitions of this job have one copy each, and stay where they are: moving them needs "
	                       "cluster.replicas of 2 or 3",
	                       s->name);
}

#define NAME_BYTES 24u

/* "partition 7", "the ledger". Returns out. */
static const char *name_of(uint32_t partition, char out[NAME_BYTES])
{
	if (partition == JOURNAL_LEDGER)
		snprintf(out, NAME_BYTES, "the ledger");
	else
		snprintf(out, NAME_BYTES, "partition %u", partition);
	return out;
}

/* --- Layout */

struct layout_item {
	Weir__V1__PartitionLayout message;
	uint32_t in_sync[WEIR_REPLICAS_MAX], hosts[WEIR_REPLICAS_MAX];
};
struct layout {
	struct layout_item of[WEIR_PARTITIONS_MAX], ledger;
	Weir__V1__PartitionLayout *list[WEIR_PARTITIONS_MAX];
	uint32_t living[WEIR_SERVERS_MAX];
	Weir__V1__LayoutReply reply;
	struct message *packed;
};

static size_t copy_members(const struct member_set *s, uint32_t out[WEIR_REPLICAS_MAX])
{
	for (uint32_t i = 0; i < s->count; i++)
		out[i] = s->ids[i];
	return s->count;
}

static Weir__V1__PartitionLayout *fill(struct layout_item *item, const struct server *s, uint16_t partition)
{
	struct placement_view v;
	(void)placement_look(roles_placement(s), partition, &v);
	Weir__V1__PartitionLayout *out = &item->message;
	weir__v1__partition_layout__init(out);
	out->primary = v.seen.primary;
	out->epoch = v.seen.epoch;
	out->in_sync = item->in_sync;
	out->n_in_sync = copy_members(&v.seen.isr, item->in_sync);
	out->hosts = item->hosts;
	out->n_hosts = copy_members(&v.wanted.hosts, item->hosts);
	return out;
}

static void fill_living(struct layout *l, const struct server *s)
{
	l->reply.living = l->living;
	for (uint32_t i = 0; i < WEIR_SERVERS_MAX; i++)
		if (placement_lives(roles_placement(s), i))
			l->living[l->reply.n_living++] = i;
}

static void pack_with_map(void *arg, const Weir__V1__PartitionMap *map)
{
	struct layout *l = arg;
	l->reply.servers = map->servers;
	l->reply.n_servers = map->n_servers;
	l->packed = wire_pack(&l->reply.base);
}

static struct message *pack_layout(struct server *s)
{
	struct layout *l = calloc(1, sizeof *l);
	Weir__V1__Status ok = WEIR__V1__STATUS__INIT;
	Weir__V1__JobId job = WEIR__V1__JOB_ID__INIT;
	struct message *m = NULL;
	if (l) {
		weir__v1__layout_reply__init(&l->reply);
		for (uint32_t p = 0; p < s->options.partitions; p++)
			l->list[p] = fill(&l->of[p], s, (uint16_t)p);
		if (s->ledger_loop)
			l->reply.ledger = fill(&l->ledger, s, JOURNAL_LEDGER);
		fill_living(l, s);
		job.uuid = (ProtobufCBinaryData){.len = sizeof s->options.uuid, .data = s->options.uuid};
		job.generation = s->options.generation;
		l->reply.status = &ok;
		l->reply.job = &job;
		l->reply.replicas = server_replicas(s);
		l->reply.partitions = l->list;
		l->reply.n_partitions = s->options.partitions;
		partition_map_show(s->map, pack_with_map, l);
		m = l->packed;
	}
	free(l);
	return m;
}

void control_layout(struct server *s, struct rpc_call *call, struct message *request)
{
	weir_error err = {0};
	ProtobufCMessage *q = NULL;
	weir_status status = wire_unpack(&weir__v1__layout_request__descriptor, request, &q, &err);
	if (!status)
		status = check_job(s, ((const Weir__V1__LayoutRequest *)q)->job, &err);
	if (!status)
		status = check_replicas(s, &err);
	wire_destroy(q);
	struct message *m = status ? NULL : pack_layout(s);
	if (!status && !m)
		status = weir_fail(&err, WEIR_E_MEMORY, "the layout does not fit in memory");
	rpc_call_reply(call, status, err.text, m);
}

/* --- Place */

struct placing {
	struct server *server;
	struct rpc_call *call;
	struct coord_records_placing change;
};

static void answer_place(struct rpc_call *call, weir_status code, const char *text)
{
	Weir__V1__Status status = WEIR__V1__STATUS__INIT;
	Weir__V1__PlaceReply reply = WEIR__V1__PLACE_REPLY__INIT;
	status.code = (uint32_t)code;
	status.text = (char *)(uintptr_t)text;
	reply.status = &status;
	struct message *m = wire_pack(&reply.base);
	rpc_call_reply(call, m ? WEIR_OK : WEIR_E_MEMORY, m ? "" : "the reply does not fit in memory", m);
}

static void on_placed(struct coord_records_placing *change)
{
	struct placing *p = change->arg;
	struct server *s = p->server;
	/* away: the change may have been made. */
	static const char stale[] = "the partition's hosts have been changed by somebody else meanwhile",
	                  away[] = "the coordinator does not answer: ask again when it is back";
	char name[COORD_RECORDS_NAME_BYTES];
	if (!change->status)
		LOG_AT(s->options.logger, LOG_INFO, "partition placed", "partition=%s hosts=%u first=%u primary=%d",
		       coord_records_name(change->partition, name), change->record.hosts.count, change->record.hosts.ids[0],
		       change->record.primary == MEMBER_NONE ? -1 : (int)change->record.primary);
	answer_place(p->call, change->status, !change->status ? "" : change->status == WEIR_E_STALE ? stale : away);
	free(p);
	server_leave(s);
}

static weir_status read_hosts(struct server *s, const Weir__V1__PlaceRequest *q, struct assignment *out, weir_error *err)
{
	char name[NAME_BYTES];
	struct placement_view v;
	(void)placement_look(roles_placement(s), (uint16_t)q->partition, &v);
	for (size_t i = 0; i < q->n_hosts; i++) {
		const uint32_t server = q->hosts[i];
		const bool stays = server < WEIR_SERVERS_MAX && member_set_has(&v.wanted.hosts, (uint16_t)server);
		if (!stays && (server >= server_servers_max(s) || !placement_lives(roles_placement(s), server)))
			return weir_fail(err, WEIR_E_NOT_FOUND, "place: there is no server %u that lives, as the coordinator knows", server);
		member_set_add(&out->hosts, (uint16_t)server);
	}
	out->primary = (uint16_t)q->primary;
	if (q->primary != MEMBER_NONE && (q->primary >= WEIR_SERVERS_MAX || !member_set_has(&out->hosts, out->primary)))
		return weir_fail(err, WEIR_E_INVALID, "place: server %u is to be primary of %s, and is not one of its hosts", q->primary,
		                 name_of(q->partition, name));
	return WEIR_OK;
}

/* Incoming and outgoing replicas are in sync together for a while. */
static weir_status check_count(const struct placement_view *v, const struct assignment *next, uint32_t partition, weir_error *err)
{
	char name[NAME_BYTES];
	uint32_t together = v->seen.isr.count;
	for (uint32_t i = 0; i < next->hosts.count; i++)
		together += !member_set_has(&v->seen.isr, next->hosts.ids[i]);
	if (next->hosts.count < v->seen.min_isr)
		return weir_fail(err, WEIR_E_INVALID, "place: %u hosts for %s, an entry must be on %u", next->hosts.count,
		                 name_of(partition, name), v->seen.min_isr);
	if (together > WEIR_REPLICAS_MAX)
		return weir_fail(err, WEIR_E_LIMIT, "place: %s would have %u replicas on the way, at most %u: in smaller steps",
		                 name_of(partition, name), together, WEIR_REPLICAS_MAX);
	return WEIR_OK;
}

static weir_status read_place(struct server *s, const Weir__V1__PlaceRequest *q, struct placing *p, bool *done, weir_error *err)
{
	char name[NAME_BYTES];
	struct placement_view v;
	weir_status status = check_job(s, q->job, err);
	if (!status)
		status = check_replicas(s, err);
	if (!status && q->partition == JOURNAL_LEDGER && !s->ledger_loop)
		status = weir_fail(err, WEIR_E_NOT_FOUND, "place: the job has no ledger");
	if (!status && q->partition != JOURNAL_LEDGER && q->partition >= s->options.partitions)
		status = weir_fail(err, WEIR_E_NOT_FOUND, "place: there is no partition %u (partitions: %u)", q->partition,
		                   s->options.partitions);
	if (!status && (q->n_hosts == 0 || q->n_hosts > WEIR_REPLICAS_MAX))
		status = weir_fail(err, WEIR_E_INVALID, "place: %zu hosts for %s, from 1 to %u", q->n_hosts, name_of(q->partition, name),
		                   WEIR_REPLICAS_MAX);
	if (!status && (!placement_look(roles_placement(s), (uint16_t)q->partition, &v) || !v.seen.revision))
		status = weir_fail(err, WEIR_E_UNAVAILABLE, "place: %s has not heard of %s from the coordinator yet", s->name,
		                   name_of(q->partition, name));
	if (!status)
		status = read_hosts(s, q, &p->change.record, err);
	if (!status)
		status = check_count(&v, &p->change.record, q->partition, err);
	if (status)
		return status;
	const struct assignment *next = &p->change.record;
	*done = member_set_equal(&next->hosts, &v.wanted.hosts) && (next->primary == MEMBER_NONE || next->primary == v.seen.primary);
	p->change.partition = (uint16_t)q->partition;
	p->change.record.revision = v.wanted.revision;
	p->change.record.epoch = v.seen.epoch;
	return WEIR_OK;
}

void control_place(struct server *s, struct rpc_call *call, struct message *request)
{
	weir_error err = {0};
	ProtobufCMessage *q = NULL;
	bool done = false;
	struct placing *p = calloc(1, sizeof *p);
	weir_status status = p ? wire_unpack(&weir__v1__place_request__descriptor, request, &q, &err)
	                       : weir_fail(&err, WEIR_E_MEMORY, "out of memory");
	if (!status)
		status = read_place(s, (const Weir__V1__PlaceRequest *)q, p, &done, &err);
	wire_destroy(q);
	if (status || done) {
		answer_place(call, status, err.text);
		free(p);
		return;
	}
	p->server = s;
	p->call = call;
	p->change.run_on = server_callback_executor(s);
	p->change.done = on_placed;
	p->change.arg = p;
	server_enter(s);
	coord_records_place(roles_records(s), &p->change);
}
