/* A process that moves partitions while the job trains. It asks some server now and then, as `weir
 * move` and `weir rebalance` do. The servers carry the move out by themselves. */
#include "proto/rpc/rpc.h"
#include "proto/wire/wire.h"
#include "server/partition/partition.h"
#include "tests/sim/job/job.h"

enum { ASK_MS = 2000 };

struct mover {
	struct job *job;
	struct rpc *rpc;
	struct rpc_loop *loop;
	uint64_t asked;
};

static uint16_t some_host(const struct assignment *r)
{
	return r->hosts.ids[world_between(0, r->hosts.count - 1)];
}

/* Replaces at most one server of the assignment, and prefers one of them as primary or none. */
static struct assignment choose(const struct job *job, uint32_t partition)
{
	struct assignment next = *records_wanted(partition);
	const uint16_t other = (uint16_t)world_between(0, job->servers - 1);
	if (world_chance(0.7) && !member_set_has(&next.hosts, other) && !job->cast[other].gone) {
		member_set_remove(&next.hosts, some_host(&next));
		member_set_add(&next.hosts, other);
	}
	next.primary = world_chance(0.5) ? some_host(&next) : MEMBER_NONE;
	return next;
}

static void ask(struct mover *o, const char *address, const Weir__V1__PlaceRequest *q)
{
	struct rpc_channel *channel = NULL;
	struct message *reply = NULL;
	weir_error err = {0};
	weir_status status = rpc_channel_open(&channel, o->rpc, o->loop, address, &err);
	if (!status)
		status = rpc_call_wait(channel, RPC_PLACE, wire_pack(&q->base), ASK_MS, &reply, &err);
	world_note("asks %s to place partition %u: %s", address, q->partition, status ? err.text : "answered");
	message_release(reply);
	rpc_channel_close(channel);
}

static void move(struct mover *o)
{
	Weir__V1__PlaceRequest q = WEIR__V1__PLACE_REQUEST__INIT;
	uint32_t hosts[WEIR_REPLICAS_MAX];
	q.partition = (uint32_t)world_between(0, PARTITIONS - 1);
	const struct assignment next = choose(o->job, q.partition);
	for (uint32_t i = 0; i < next.hosts.count; i++)
		hosts[q.n_hosts++] = next.hosts.ids[i];
	q.hosts = hosts;
	q.primary = next.primary;
	ask(o, o->job->addresses[world_between(0, o->job->servers - 1)], &q);
}

void operator_main(void *arg)
{
	weir_error err = {0};
	struct mover o = {.job = arg, .rpc = rpc_sim_create(NULL)};
	o.loop = rpc_loop_create(o.rpc, "operator", &err);
	for (;; thread_sleep(10 * SIM_MS))
		for (; o.asked < o.job->moves; o.asked++)
			move(&o);
}
