#include "tests/unit/server/replica/replica_node.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/cmocka_check.h"
#include "tests/unit/proto/rpc_fixture.h"

#define TICK_MS 10u

const uint8_t node_uuid[16] = "replica nodes";

/* --- A replica's driver: runs actions at once, in order, and then reports their results */

static void tell_later(struct node_replica *v, struct node_event e)
{
	assert_true(v->events_count < sizeof v->events / sizeof *v->events);
	v->events[v->events_count++] = e;
}

static void append(struct node_replica *v, const struct log_entry *e)
{
	weir_error err = {0};
	CHECK_OK(v->log->ops->append(v->log, e, &err), err);
}

static void begin(struct node_replica *v, uint64_t epoch)
{
	const struct log_entry e = {.epoch = epoch,
	                            .index = v->log->ops->last(v->log) + 1,
	                            .generation = NODE_GENERATION,
	                            .record = {.bytes = RECORD_HEADER_BYTES, .kind = RECORD_EVICT, .partition = v->partition}};
	append(v, &e);
	tell_later(v, (struct node_event){NODE_STORED, epoch, e.index});
}

static void store(struct node_replica *v, uint64_t first, uint64_t last)
{
	for (uint64_t i = first; i <= last; i++) {
		const struct log_entry *e = &v->incoming->entries[i - v->incoming->message.first];
		append(v, e);
		if (i == last || e[1].epoch != e->epoch)
			tell_later(v, (struct node_event){NODE_STORED, e->epoch, i});
	}
	struct node_world *w = v->node->world;
	pthread_mutex_lock(&w->lock);
	v->node->stored[v->partition] = last;
	pthread_cond_broadcast(&w->changed);
	pthread_mutex_unlock(&w->lock);
}

static void change(struct node_replica *v, const struct replica_record *record)
{
	struct node_world *w = v->node->world;
	struct replica_record *now = &w->records[v->partition];
	pthread_mutex_lock(&w->lock);
	if (now->revision == record->revision) {
		*now = *record;
		now->revision++;
	}
	pthread_mutex_unlock(&w->lock);
	tell_later(v, (struct node_event){.kind = NODE_CHANGED});
}

static const struct log_entry *source_entry(void *arg, uint64_t index)
{
	struct node_replica *v = arg;
	return v->log->ops->get(v->log, index);
}

static void source_shipped(void *arg, uint16_t to, uint64_t last, uint64_t commit)
{
	replica_shipped(((struct node_replica *)arg)->r, to, last, commit);
}

static void note_commit(struct node_replica *v, uint64_t commit)
{
	struct node *n = v->node;
	pthread_mutex_lock(&n->world->lock);
	n->commit[v->partition] = commit;
	n->serves[v->partition] = replica_serves(v->r);
	pthread_cond_broadcast(&n->world->changed);
	pthread_mutex_unlock(&n->world->lock);
}

static void act(struct node_replica *v, const struct replica_action *a)
{
	weir_error err = {0};
	switch (a->kind) {
	case REPLICA_DO_SEND:
		replica_links_send(v->node->links, v->partition, &a->message);
		break;
	case REPLICA_DO_SHIP:
		replica_links_ship(v->node->links, v->partition,
		                   &(struct replica_source){.replica = v->r, .arg = v, .entry = source_entry, .shipped = source_shipped});
		break;
	case REPLICA_DO_STORE:
		store(v, a->first, a->last);
		break;
	case REPLICA_DO_TRUNCATE:
		CHECK_OK(v->log->ops->truncate_above(v->log, a->last, &err), err);
		break;
	case REPLICA_DO_COMMIT:
		note_commit(v, a->last);
		break;
	case REPLICA_DO_SERVE:
		note_commit(v, replica_commit(v->r));
		break;
	case REPLICA_DO_PROMISE:
		tell_later(v, (struct node_event){.kind = NODE_PROMISED, .epoch = a->epoch});
		break;
	case REPLICA_DO_BEGIN:
		begin(v, a->epoch);
		break;
	case REPLICA_DO_READ:
		tell_later(v, (struct node_event){.kind = NODE_READ});
		break;
	case REPLICA_DO_CHANGE:
		change(v, &a->record);
		break;
	default:
		fail_msg("server %u, partition %u: action %d has no place here", v->node->id, v->partition, (int)a->kind);
	}
}

static struct replica_record record_now(struct node_world *w, uint16_t partition)
{
	pthread_mutex_lock(&w->lock);
	struct replica_record record = w->records[partition];
	pthread_mutex_unlock(&w->lock);
	return record;
}

static void tell(struct node_replica *v, struct node_event e)
{
	const struct replica_record record = record_now(v->node->world, v->partition);
	if (e.kind == NODE_READ)
		replica_read(v->r, &record, &v->out);
	else if (e.kind == NODE_CHANGED)
		replica_changed(v->r, &record, &v->out);
	else if (e.kind == NODE_PROMISED)
		replica_promised(v->r, e.epoch, &v->out);
	else
		replica_stored(v->r, e.epoch, e.last, &v->out);
}

static void run(struct node_replica *v)
{
	for (;;) {
		for (uint32_t i = 0; i < v->out.count; i++)
			act(v, &v->out.list[i]);
		v->out.count = 0;
		if (v->events_count == 0)
			return;
		const struct node_event e = v->events[0];
		memmove(v->events, v->events + 1, --v->events_count * sizeof *v->events);
		tell(v, e);
	}
}

/* --- A node */

static void receive(struct node_replica *v, const struct replica_wire *x)
{
	v->incoming = x;
	replica_receive(v->r, &x->message, &v->out);
	run(v);
}

static void deliver(void *arg, const struct replica_wire *x)
{
	struct node *n = arg;
	assert_true(rpc_loop_is_current(n->home));
	n->last = x->message;
	n->received++;
	if (n->lose_each && n->received % n->lose_each == 0)
		return;
	for (uint32_t i = 0; i < 1u + n->twice; i++)
		receive(&n->replicas[x->partition], x);
}

static struct rpc_loop *owner(void *arg, uint16_t partition)
{
	(void)partition;
	return ((struct node *)arg)->home;
}

static void enter(void *arg)
{
	struct node *n = arg;
	pthread_mutex_lock(&n->world->lock);
	n->busy++;
	pthread_mutex_unlock(&n->world->lock);
}

static void leave(void *arg)
{
	struct node *n = arg;
	pthread_mutex_lock(&n->world->lock);
	n->busy--;
	pthread_cond_broadcast(&n->world->changed);
	pthread_mutex_unlock(&n->world->lock);
}

bool node_address(void *arg, uint16_t server, char *out)
{
	struct node_world *w = ((struct node *)arg)->world;
	pthread_mutex_lock(&w->lock);
	snprintf(out, WEIR_ADDRESS_BYTES_MAX, "%s", w->nodes[server].address);
	pthread_mutex_unlock(&w->lock);
	return out[0] != '\0';
}

static void on_room(void *arg, uint16_t server)
{
	struct node *n = arg;
	assert_true(replica_links_has_room(n->links, server));
	n->rooms++;
}

static void tick(void *arg)
{
	struct node *n = arg;
	if (n->stopping)
		return;
	replica_links_tick(n->links);
	for (uint16_t p = 0; p < NODE_PARTITIONS; p++) {
		struct node_replica *v = &n->replicas[p];
		const struct replica_record record = record_now(n->world, v->partition);
		replica_learn(v->r, &record, &v->out);
		run(v);
		replica_tick(v->r, &n->heartbeat, &v->out);
		run(v);
	}
	rpc_loop_after(n->home, TICK_MS, tick, n);
}

static const struct rpc_stream_handler *open_stream(void *ctx, struct rpc_stream *stream, enum rpc_method method, void **arg)
{
	struct node *n = ctx;
	assert_int_equal(method, RPC_LINK);
	assert_true(n->streams_count < NODE_STREAMS_MAX);
	n->streams[n->streams_count++] = stream;
	return replica_intake_open(&n->intake, stream, arg);
}

static void create_replica(struct node *n, uint16_t partition)
{
	const struct replica_options o = {.self = n->id,
	                                  .incarnation = NODE_INCARNATION(n->id),
	                                  .silent_ticks = 1000000,
	                                  .stall_ticks = 1000000,
	                                  .retry_ticks = 5,
	                                  .grow_lag = 4};
	struct node_replica *v = &n->replicas[partition];
	*v = (struct node_replica){.node = n, .partition = partition, .log = log_memory_create()};
	v->r = replica_create(&o, &(struct replica_found){.whole = true});
	assert_non_null(v->r);
	assert_non_null(v->log);
}

static void node_create(struct node *n)
{
	weir_error err = {0};
	n->intake = (struct replica_intake){.generation = NODE_GENERATION,
	                                    .self = n->id,
	                                    .servers = NODES,
	                                    .partitions = NODE_PARTITIONS,
	                                    .arg = n,
	                                    .owner = owner,
	                                    .deliver = deliver,
	                                    .enter = enter,
	                                    .leave = leave};
	memcpy(n->intake.uuid, node_uuid, sizeof node_uuid);
	struct replica_links_options o = {.rpc = n->world->rpc,
	                                  .loop = n->home,
	                                  .generation = NODE_GENERATION,
	                                  .self = n->id,
	                                  .servers = NODES,
	                                  .partitions = NODE_PARTITIONS,
	                                  .arg = n,
	                                  .address = node_address,
	                                  .room = on_room};
	memcpy(o.uuid, node_uuid, sizeof node_uuid);
	CHECK_OK(replica_links_create(&n->links, &o, &err), err);
	for (uint16_t p = 0; p < NODE_PARTITIONS; p++)
		create_replica(n, p);
	rpc_loop_post(n->home, tick, n);
}

void node_start(struct node *n)
{
	static const struct rpc_service service = {.stream_open = open_stream};
	struct node_world *w = n->world;
	char address[WEIR_ADDRESS_BYTES_MAX];
	weir_error err = {0};
	if (strcmp(w->transport, "unix") == 0)
		snprintf(address, sizeof address, "unix:%s/s%u", w->directory, w->addresses++);
	else
		snprintf(address, sizeof address, "%s:s%u", w->transport, w->addresses++);
	if (!n->links)
		node_create(n);
	CHECK_OK(rpc_server_start(&n->server, w->rpc, address, &n->door, 1, &service, n, &err), err);
	pthread_mutex_lock(&w->lock);
	memcpy(n->address, address, sizeof address);
	pthread_mutex_unlock(&w->lock);
}

void node_stop_server(struct node *n)
{
	rpc_server_stop(n->server, 0);
	n->server = NULL;
	n->streams_count = 0;
	pthread_mutex_lock(&n->world->lock);
	while (n->busy)
		pthread_cond_wait(&n->world->changed, &n->world->lock);
	pthread_mutex_unlock(&n->world->lock);
}

static void stop_ticks(void *arg)
{
	((struct node *)arg)->stopping = true;
}

static void node_destroy(struct node *n)
{
	replica_links_destroy(n->links);
	rpc_loop_destroy(n->home);
	if (n->door != n->home)
		rpc_loop_destroy(n->door);
	for (uint32_t p = 0; n->links && p < NODE_PARTITIONS; p++) {
		replica_destroy(n->replicas[p].r);
		n->replicas[p].log->ops->destroy(n->replicas[p].log);
	}
}

void node_append(struct node *n, uint16_t partition, struct log_entry *e)
{
	struct node_replica *v = &n->replicas[partition];
	assert_true(replica_serves(v->r));
	e->epoch = replica_epoch(v->r);
	e->index = v->log->ops->last(v->log) + 1;
	e->committed = replica_commit(v->r);
	append(v, e);
	message_release(e->message);
	replica_stored(v->r, e->epoch, e->index, &v->out);
	run(v);
}

/* --- The world */

void world_open(struct node_world *w, const char *transport, bool doors, uint32_t live)
{
	weir_error err = {0};
	*w = (struct node_world){.transport = transport, .rpc = fixture_rpc(transport), .directory = "/tmp/weir-link-XXXXXX"};
	assert_non_null(w->rpc);
	assert_non_null(mkdtemp(w->directory));
	pthread_mutex_init(&w->lock, NULL);
	pthread_cond_init(&w->changed, NULL);
	for (uint32_t p = 0; p < NODE_PARTITIONS; p++) {
		w->records[p] = (struct replica_record){.revision = 1, .epoch = 1, .min_isr = NODES};
		for (uint16_t i = 0; i < NODES; i++)
			member_set_add(&w->records[p].isr, i);
	}
	for (uint16_t i = 0; i < NODES; i++) {
		struct node *n = &w->nodes[i];
		n->world = w;
		n->id = i;
		n->home = rpc_loop_create(w->rpc, "home", &err);
		n->door = doors ? rpc_loop_create(w->rpc, "door", &err) : n->home;
		assert_true(n->home && n->door);
	}
	for (uint16_t i = 0; i < NODES; i++)
		if (live >> i & 1)
			node_start(&w->nodes[i]);
}

void world_close(struct node_world *w)
{
	for (uint32_t i = 0; i < NODES; i++)
		if (w->nodes[i].server)
			node_stop_server(&w->nodes[i]);
	for (uint32_t i = 0; i < NODES; i++)
		on_loop(w->nodes[i].home, stop_ticks, &w->nodes[i]);
	for (uint32_t i = 0; i < NODES; i++)
		node_destroy(&w->nodes[i]);
	rpc_destroy(w->rpc);
	assert_int_equal(rmdir(w->directory), 0);
	pthread_mutex_destroy(&w->lock);
	pthread_cond_destroy(&w->changed);
}

void world_wait_commit(struct node_world *w, uint16_t partition, uint64_t index)
{
	pthread_mutex_lock(&w->lock);
	for (uint32_t i = 0; i < NODES; i++)
		while (w->nodes[i].commit[partition] < index)
			pthread_cond_wait(&w->changed, &w->lock);
	pthread_mutex_unlock(&w->lock);
}

void node_wait_stored(struct node *n, uint16_t partition, uint64_t index)
{
	pthread_mutex_lock(&n->world->lock);
	while (n->stored[partition] < index)
		pthread_cond_wait(&n->world->changed, &n->world->lock);
	pthread_mutex_unlock(&n->world->lock);
}

void world_wait_serving(struct node_world *w)
{
	pthread_mutex_lock(&w->lock);
	for (uint32_t p = 0; p < NODE_PARTITIONS; p++)
		while (!w->nodes[0].serves[p])
			pthread_cond_wait(&w->changed, &w->lock);
	pthread_mutex_unlock(&w->lock);
}
