#include "server/snapshot/snapshots.h"

#include <stdlib.h>
#include <string.h>

#include "server/snapshot/snapshot_stream.h"

/* To one address; its server may be gone. */
struct connection {
	struct connection *next;
	struct rpc_channel *channel;
};

struct snapshots {
	struct server *server;
	struct snapshot_sender *sender;
	struct snapshot_service service;
	struct connection *connections[]; /* (executors) each on its loop */
};

static void enter(void *arg)
{
	server_enter(arg);
}

static void leave(void *arg)
{
	server_leave(arg);
}

weir_status snapshots_create(struct snapshots **out, struct server *s, uint64_t bytes_per_s, weir_error *err)
{
	const struct server_options *o = &s->options;
	struct snapshot_sender_options sender = {.generation = o->generation,
	                                         .partitions = o->partitions,
	                                         .process_id = o->process_id,
	                                         .bytes_per_s = bytes_per_s,
	                                         .cold = s->cold,
	                                         .budget = &s->budget,
	                                         .clock = o->clock,
	                                         .logger = o->logger};
	struct snapshots *n = calloc(1, sizeof *n + o->executors * sizeof *n->connections);
	*out = n;
	if (!n)
		return weir_fail(err, WEIR_E_MEMORY, "%s: out of memory", s->name);
	n->server = s;
	memcpy(sender.uuid, o->uuid, sizeof sender.uuid);
	n->sender = snapshot_sender_create(&sender, err);
	if (!n->sender)
		return err->status;
	n->service =
	    (struct snapshot_service){.sender = n->sender, .generation = o->generation, .enter = enter, .leave = leave, .arg = s};
	memcpy(n->service.uuid, o->uuid, sizeof n->service.uuid);
	return WEIR_OK;
}

void snapshots_close(struct snapshots *n)
{
	if (n && n->sender)
		snapshot_sender_close(n->sender);
}

static void connections_close(struct connection *k)
{
	for (struct connection *next; k; k = next) {
		next = k->next;
		rpc_channel_close(k->channel);
		free(k);
	}
}

void snapshots_destroy(struct snapshots *n)
{
	if (!n)
		return;
	for (uint32_t i = 0; i < n->server->options.executors; i++)
		connections_close(n->connections[i]);
	snapshot_sender_destroy(n->sender);
	free(n);
}

struct snapshot_sender *snapshots_sender(const struct snapshots *n)
{
	return n->sender;
}

const struct rpc_stream_handler *snapshots_open(struct snapshots *n, struct rpc_stream *stream, void **arg)
{
	if (!atomic_load(&n->server->draining))
		return snapshot_stream_open(&n->service, stream, arg);
	rpc_stream_cancel(stream, WEIR_E_UNAVAILABLE, "the server is stopping");
	return NULL;
}

static weir_status connect(struct snapshots *n, const struct executor *e, const char *address, struct rpc_channel **out,
                           weir_error *err)
{
	struct connection **first = &n->connections[e - n->server->executors];
	struct connection *k = malloc(sizeof *k);
	if (!k)
		return weir_fail(err, WEIR_E_MEMORY, "out of memory for a connection to %s", address);
	weir_status status = rpc_channel_open(&k->channel, n->server->options.rpc, e->loop, address, err);
	if (status) {
		free(k);
		return status;
	}
	k->next = *first;
	*first = k;
	*out = k->channel;
	return WEIR_OK;
}

weir_status snapshots_channel(struct snapshots *n, const struct executor *e, uint16_t server, struct rpc_channel **out,
                              weir_error *err)
{
	char address[WEIR_ADDRESS_BYTES_MAX];
	if (!partition_map_address(n->server->map, server, address))
		return weir_fail(err, WEIR_E_UNAVAILABLE, "the address of server %u is not known", server);
	for (struct connection *k = n->connections[e - n->server->executors]; k; k = k->next)
		if (strcmp(rpc_channel_address(k->channel), address) == 0) {
			*out = k->channel;
			return WEIR_OK;
		}
	return connect(n, e, address, out, err);
}
