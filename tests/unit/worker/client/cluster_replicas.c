#include "tests/unit/worker/client/cluster_replicas.h"

#include "server/cluster/roles.h"
#include "server/log/journal.h"
#include "server/replication/replication.h"
#include "server/service/server_internal.h"
#include "tests/await.h"
#include "tests/unit/on_loop.h"

struct question {
	struct server *server;
	uint16_t partition;
	struct cluster_replica answer;
};

static void answer(void *arg)
{
	struct question *q = arg;
	const struct replication *x = roles_replication(q->server, q->partition);
	q->answer.serves = x && replica_serves(replication_replica(x));
	if (q->answer.serves)
		q->answer.in_sync = replica_get_record(replication_replica(x))->isr;
}

struct cluster_replica cluster_replica(const struct cluster *c, uint32_t server, uint16_t partition)
{
	struct server *s = c->servers[server];
	struct question q = {.server = s, .partition = partition};
	struct rpc_loop *loop = partition == JOURNAL_LEDGER ? s->ledger_loop : server_executor(s, partition)->loop;
	if (loop)
		on_loop(loop, answer, &q);
	return q.answer;
}

static bool find_primary(const struct cluster *c, uint16_t partition, uint32_t *server, struct cluster_replica *out)
{
	for (*server = 0; *server < c->servers_count + c->added; ++*server)
		if (c->servers[*server] && (*out = cluster_replica(c, *server, partition)).serves)
			return true;
	return false;
}

uint32_t cluster_await_primary(const struct cluster *c, uint16_t partition, struct cluster_replica *out)
{
	uint32_t server;
	AWAIT(find_primary(c, partition, &server, out), "partition %u has no primary", partition);
	return server;
}

static uint16_t subject(const struct cluster *c, uint32_t i)
{
	return i < c->partitions ? (uint16_t)i : JOURNAL_LEDGER;
}

static struct member_set in_sync(const struct cluster *c, uint16_t partition)
{
	struct cluster_replica r;
	(void)cluster_await_primary(c, partition, &r);
	return r.in_sync;
}

void cluster_await_in_sync(const struct cluster *c, uint32_t replicas)
{
	struct member_set s;
	for (uint32_t i = 0; i <= c->partitions; i++)
		AWAIT((s = in_sync(c, subject(c, i))).count >= replicas, "partition %u has %u replicas in sync, not %u", subject(c, i),
		      s.count, replicas);
}

static bool is_in_sync(const struct cluster *c, uint16_t partition, uint16_t server)
{
	const struct member_set s = in_sync(c, partition);
	return member_set_has(&s, server);
}

void cluster_await_dropped(const struct cluster *c, uint16_t server)
{
	for (uint32_t i = 0; i <= c->partitions; i++)
		AWAIT(!is_in_sync(c, subject(c, i), server), "server %u counts as in sync in partition %u", server, subject(c, i));
}
