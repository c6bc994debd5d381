/* Scrubs all partitions that this server is primary of, at once, each on its own loop. The last one
 * that ends answers the call. */
#include <stdlib.h>

#include "server/cluster/roles.h"
#include "server/replication/scrub.h"
#include "server/service/server_internal.h"

struct scrub_item {
	struct scrub_call *call;
	uint32_t partition;
	bool is_ours; /* part of the reply */
	struct scrub_report report;
};
struct scrub_call {
	struct server *server;
	struct rpc_call *call;
	_Atomic uint32_t waiting;
	struct scrub_item items[]; /* (partitions) */
};

/* --- The reply */

struct packed {
	Weir__V1__PartitionScrub partition;
	Weir__V1__ReplicaHash hashes[WEIR_REPLICAS_MAX], *hashes_at[WEIR_REPLICAS_MAX];
};

static void pack_item(struct packed *out, const struct scrub_item *item)
{
	const struct scrub_report *r = &item->report;
	weir__v1__partition_scrub__init(&out->partition);
	out->partition.partition = item->partition;
	out->partition.index = r->index;
	out->partition.n_replicas = r->count;
	out->partition.replicas = out->hashes_at;
	for (uint32_t i = 0; i < r->count; i++) {
		weir__v1__replica_hash__init(&out->hashes[i]);
		out->hashes[i].server = r->of[i].server;
		out->hashes[i].rows = r->of[i].rows;
		out->hashes[i].state = r->of[i].state;
		out->hashes_at[i] = &out->hashes[i];
	}
}

static struct message *pack(const struct scrub_call *c)
{
	const uint32_t partitions = c->server->options.partitions;
	struct packed *packed = malloc(partitions * sizeof *packed);
	Weir__V1__PartitionScrub **list = malloc(partitions * sizeof *list);
	Weir__V1__Status ok = WEIR__V1__STATUS__INIT;
	Weir__V1__ScrubReply reply = WEIR__V1__SCRUB_REPLY__INIT;
	struct message *m = NULL;
	reply.status = &ok;
	reply.partitions = list;
	for (uint32_t p = 0; p < partitions && packed && list; p++)
		if (c->items[p].is_ours) {
			pack_item(&packed[p], &c->items[p]);
			list[reply.n_partitions++] = &packed[p].partition;
		}
	if (packed && list)
		m = wire_pack(&reply.base);
	free(packed);
	free(list);
	return m;
}

/* One partition is done, or the tour over all of them. */
static void done_one(struct scrub_call *c)
{
	if (atomic_fetch_sub(&c->waiting, 1) > 1)
		return;
	struct message *m = pack(c);
	rpc_call_reply(c->call, m ? WEIR_OK : WEIR_E_MEMORY, m ? "" : "the reply does not fit in memory", m);
	server_leave(c->server);
	free(c);
}

/* --- Asking */

static void on_done(void *arg, const struct scrub_report *report)
{
	struct scrub_item *item = arg;
	item->report = *report;
	done_one(item->call);
}

static void ask(struct executor *e, void *arg)
{
	struct scrub_call *c = arg;
	struct server *s = e->server;
	for (uint32_t p = 0; p < s->options.partitions; p++) {
		struct scrub_item *item = &c->items[p];
		if (!s->partitions[p] || server_executor(s, p) != e || partition_is_moved(s->partitions[p]))
			continue;
		*item = (struct scrub_item){.call = c, .partition = p, .is_ours = true};
		struct scrub *scrub = roles_scrub(s, (uint16_t)p);
		atomic_fetch_add(&c->waiting, 1);
		/* One copy, or another scrub was requested. */
		if (!scrub || scrub_ask(scrub, on_done, item))
			done_one(c);
	}
}

static void asked(struct executor *e, void *arg)
{
	(void)e;
	done_one(arg);
}

void control_scrub(struct server *s, struct rpc_call *call, struct message *request)
{
	weir_error err = {0};
	ProtobufCMessage *m = NULL;
	weir_status status = wire_unpack(&weir__v1__scrub_request__descriptor, request, &m, &err);
	const Weir__V1__ScrubRequest *q = (const Weir__V1__ScrubRequest *)m;
	if (!status && q->job && q->job->uuid.len)
		status = server_check_job(s, q->job->uuid.data, q->job->uuid.len, q->job->generation, &err);
	wire_destroy(m);
	struct scrub_call *c = status ? NULL : calloc(1, sizeof *c + s->options.partitions * sizeof *c->items);
	if (c) {
		*c = (struct scrub_call){.server = s, .call = call, .waiting = 1};
		server_enter(s);
		if (!server_tour(s, ask, asked, c))
			return;
		server_leave(s);
		free(c);
	}
	rpc_call_reply(call, status ? status : WEIR_E_MEMORY, status ? err.text : "out of memory", NULL);
}
