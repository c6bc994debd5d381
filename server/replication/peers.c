#include "server/replication/peers.h"

#include <stdlib.h>
#include <string.h>

#include "server/log/journal.h"
#include "server/replication/replica_intake.h"
#include "server/replication/replica_link.h"
#include "server/replication/scrub.h"

/* The server's end of another server's link: the intake's stream, in a list of its loop's
 * streams. */
struct peer_stream {
	struct peer_stream **list, *next;
	struct rpc_stream *stream;
	const struct rpc_stream_handler *intake;
	void *intake_arg;
};

struct peer_lane { /* the links and streams of one loop */
	const struct rpc_loop *loop;
	struct replica_links *links;
	struct peer_stream *streams;
};

struct peers {
	struct server *server;
	const struct peers_directory *directory;
	struct replica_intake intake;
	uint32_t lanes_count;
	struct peer_lane lanes[]; /* (lanes_count) of the executors, then the ledger's */
};

static struct peer_lane *lane_of(struct peers *p, const struct rpc_loop *loop)
{
	uint32_t i = 0;
	while (p->lanes[i].loop != loop)
		i++;
	return &p->lanes[i];
}

/* --- Out */

static void send_message(void *network, uint16_t partition, const struct replica_message *m)
{
	replica_links_send(network, partition, m);
}

static const struct log_entry *entry_of(void *arg, uint64_t index)
{
	return replication_entry(arg, index);
}

static void shipped(void *arg, uint16_t to, uint64_t last, uint64_t commit)
{
	replication_shipped(arg, to, last, commit);
}

static void ship(void *network, struct replication *x)
{
	const struct replica_source source = {.replica = replication_replica(x), .arg = x, .entry = entry_of, .shipped = shipped};
	replica_links_ship(network, replication_partition(x), &source);
}

struct replica_links *peers_links(struct peers *p, const struct rpc_loop *loop)
{
	return lane_of(p, loop)->links;
}

struct replication_network peers_network(struct peers *p, const struct rpc_loop *loop)
{
	static const struct replication_network_ops ops = {.send = send_message, .ship = ship};
	return (struct replication_network){&ops, peers_links(p, loop)};
}

void peers_tick(struct peers *p, const struct rpc_loop *loop)
{
	replica_links_tick(peers_links(p, loop));
}

/* --- In */

static struct rpc_loop *owner(void *arg, uint16_t partition)
{
	const struct peers *p = arg;
	if (!p->directory->replication(p->server, partition))
		return NULL;
	return partition == JOURNAL_LEDGER ? p->server->ledger_loop : server_executor(p->server, partition)->loop;
}

static void deliver(void *arg, const struct replica_wire *w)
{
	const struct peers *p = arg;
	struct scrub *scrub = p->directory->scrub(p->server, w->partition); /* NULL for the ledger */
	if (!p->directory->takes_part(p->server, w->partition))
		return;
	if (w->message.kind == REPLICA_SCRUBBED && scrub)
		scrub_received(scrub, &w->message);
	else if (w->message.kind != REPLICA_SCRUBBED)
		replication_receive(p->directory->replication(p->server, w->partition), &w->message, w->entries);
}

static void enter(void *arg)
{
	server_enter(((const struct peers *)arg)->server);
}

static void leave(void *arg)
{
	server_leave(((const struct peers *)arg)->server);
}

static void on_message(void *arg, struct rpc_stream *stream, struct message *m)
{
	const struct peer_stream *x = arg;
	x->intake->message(x->intake_arg, stream, m);
}

static void on_closed(void *arg, struct rpc_stream *stream, weir_status status, const char *text)
{
	struct peer_stream *x = arg, **at = x->list;
	while (*at != x)
		at = &(*at)->next;
	*at = x->next;
	x->intake->closed(x->intake_arg, stream, status, text);
	free(x);
}

const struct rpc_stream_handler *peers_open(struct peers *p, struct rpc_stream *stream, void **arg)
{
	static const struct rpc_stream_handler handler = {.message = on_message, .closed = on_closed};
	const bool draining = atomic_load(&p->server->draining);
	struct peer_stream *x = draining ? NULL : malloc(sizeof *x);
	if (!x) {
		rpc_stream_cancel(stream, draining ? WEIR_E_UNAVAILABLE : WEIR_E_MEMORY,
		                  draining ? "the server is stopping" : "the server is out of memory");
		return NULL;
	}
	struct peer_lane *lane = lane_of(p, rpc_stream_loop(stream));
	*x = (struct peer_stream){.list = &lane->streams, .next = lane->streams, .stream = stream};
	x->intake = replica_intake_open(&p->intake, stream, &x->intake_arg);
	if (!x->intake) {
		free(x);
		return NULL;
	}
	lane->streams = x;
	*arg = x;
	return &handler;
}

void peers_end_streams(struct peers *p, const struct rpc_loop *loop)
{
	for (struct peer_stream *x = lane_of(p, loop)->streams; x; x = x->next)
		rpc_stream_cancel(x->stream, WEIR_E_UNAVAILABLE, "the server is stopping");
}

/* --- Life */

static bool address(void *arg, uint16_t server, char *out)
{
	return partition_map_address(((const struct peers *)arg)->server->map, server, out);
}

static weir_status open_links(struct peers *p, weir_error *err)
{
	struct server *s = p->server;
	struct replica_links_options o = {.rpc = s->options.rpc,
	                                  .logger = s->options.logger,
	                                  .generation = s->options.generation,
	                                  .self = (uint16_t)s->options.index,
	                                  .servers = server_servers_max(s),
	                                  .partitions = s->options.partitions,
	                                  .arg = p,
	                                  .address = address};
	weir_status status = WEIR_OK;
	memcpy(o.uuid, s->options.uuid, sizeof o.uuid);
	for (uint32_t i = 0; i < p->lanes_count && !status; i++) {
		p->lanes[i].loop = o.loop = i < s->options.executors ? s->executors[i].loop : s->ledger_loop;
		status = replica_links_create(&p->lanes[i].links, &o, err);
	}
	return status;
}

weir_status peers_create(struct peers **out, struct server *s, const struct peers_directory *directory, weir_error *err)
{
	const struct server_options *o = &s->options;
	const uint32_t lanes = o->executors + (s->ledger_loop != NULL);
	struct peers *p = calloc(1, sizeof *p + lanes * sizeof *p->lanes);
	*out = p;
	if (!p)
		return weir_fail(err, WEIR_E_MEMORY, "%s: out of memory", s->name);
	p->server = s;
	p->directory = directory;
	p->lanes_count = lanes;
	/* `heard` stays NULL: a message does not prove that all executors of its server run. Heartbeats
	 * tell which servers are alive. */
	p->intake = (struct replica_intake){.logger = o->logger,
	                                    .generation = o->generation,
	                                    .self = (uint16_t)o->index,
	                                    .servers = server_servers_max(s),
	                                    .partitions = o->partitions,
	                                    .arg = p,
	                                    .owner = owner,
	                                    .deliver = deliver,
	                                    .enter = enter,
	                                    .leave = leave};
	memcpy(p->intake.uuid, o->uuid, sizeof p->intake.uuid);
	return open_links(p, err);
}

void peers_destroy(struct peers *p)
{
	for (uint32_t i = 0; p && i < p->lanes_count; i++)
		replica_links_destroy(p->lanes[i].links);
	free(p);
}
