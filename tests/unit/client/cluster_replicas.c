#include "cluster_replicas.h"

#include <semaphore.h>
#include <time.h>

#include "journal.h"
#include "replication.h"
#include "roles.h"
#include "server_internal.h"

struct question {
	struct server *server;
	uint16_t partition;
	struct cluster_replica answer;
	sem_t answered;
};

static void answer(void *arg)
{
	struct question *q = arg;
	const struct replication *x = roles_replication(q->server, q->partition);
	q->answer.serves = x && replica_serves(replication_replica(x));
	if (q->answer.serves)
		q->answer.in_sync = replica_get_record(replication_replica(x))->isr;
	sem_post(&q->answered);
}

struct cluster_replica cluster_replica(const struct cluster *c, uint32_t server, uint16_t partition)
{
	struct server *s = c->servers[server];
	struct question q = {.server = s, .partition = partition};
	struct rpc_loop *loop = partition == JOURNAL_LEDGER ? s->ledger_loop : server_executor(s, partition)->loop;
	if (!loop)
		return q.answer;
	sem_init(&q.answered, 0, 0);
	rpc_loop_post(loop, answer, &q);
	while (sem_wait(&q.answered) != 0)
		;
	sem_destroy(&q.answered);
	return q.answer;
}

uint32_t cluster_await_primary(const struct cluster *c, uint16_t partition, struct cluster_replica *out)
{
	for (uint32_t i = 0;; i = (i + 1) % (c->servers_count + c->added)) {
		if (c->servers[i] && (*out = cluster_replica(c, i, partition)).serves)
			return i;
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	}
}

static uint16_t subject(const struct cluster *c, uint32_t i)
{
	return i < c->partitions ? (uint16_t)i : JOURNAL_LEDGER;
}

void cluster_await_in_sync(const struct cluster *c, uint32_t replicas)
{
	struct cluster_replica r;
	for (uint32_t i = 0; i <= c->partitions; i++)
		do
			(void)cluster_await_primary(c, subject(c, i), &r);
		while (r.in_sync.count < replicas);
}

void cluster_await_dropped(const struct cluster *c, uint16_t server)
{
	struct cluster_replica r;
	for (uint32_t i = 0; i <= c->partitions; i++)
		do
			(void)cluster_await_primary(c, subject(c, i), &r);
		while (member_set_has(&r.in_sync, server));
}
