#include "server/context/context.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/deadline.h"
#include "common/base/key_partition.h"
#include "server/log/journal.h"

/* --- Work under way */

void server_enter(struct server *s)
{
	pthread_mutex_lock(&s->lock);
	s->busy++;
	pthread_mutex_unlock(&s->lock);
}

void server_leave(struct server *s)
{
	pthread_mutex_lock(&s->lock);
	assert(s->busy > 0);
	if (--s->busy == 0)
		pthread_cond_broadcast(&s->idle);
	pthread_mutex_unlock(&s->lock);
}

void server_wait_idle(struct server *s)
{
	pthread_mutex_lock(&s->lock);
	while (s->busy)
		pthread_cond_wait(&s->idle, &s->lock);
	pthread_mutex_unlock(&s->lock);
}

bool server_wait_idle_for(struct server *s, uint32_t ms)
{
	const int64_t deadline_ns = deadline_after_ms(ms);
	pthread_mutex_lock(&s->lock);
	while (s->busy && deadline_wait(&s->idle, &s->lock, deadline_ns))
		;
	const bool idle = s->busy == 0;
	pthread_mutex_unlock(&s->lock);
	return idle;
}

/* --- Placement of partitions */

uint32_t server_replicas(const struct server *s)
{
	const uint32_t wanted = s->options.replicas ? s->options.replicas : 1;
	return wanted < s->options.servers ? wanted : s->options.servers;
}

bool server_is_replicated(const struct server *s)
{
	return server_replicas(s) > 1;
}

struct member_set server_first_hosts(const struct server *s, uint16_t partition)
{
	const uint32_t placed = partition == JOURNAL_LEDGER ? 0 : partition;
	struct member_set hosts = {0};
	for (uint32_t i = 0; i < server_replicas(s); i++)
		member_set_add(&hosts, (uint16_t)placement_replica(placed, i, s->options.servers));
	return hosts;
}

bool server_is_first_host(const struct server *s, uint16_t partition)
{
	const struct member_set hosts = server_first_hosts(s, partition);
	return member_set_has(&hosts, (uint16_t)s->options.index);
}

uint32_t server_servers_max(const struct server *s)
{
	const uint32_t most = s->options.servers + WEIR_SERVERS_ADDED_MAX;
	if (!server_is_replicated(s))
		return s->options.servers;
	return most < WEIR_SERVERS_MAX ? most : WEIR_SERVERS_MAX;
}

struct callback_executor server_callback_executor(const struct server *s)
{
	return rpc_loop_executor(s->executors[0].loop);
}

weir_status server_check_job(const struct server *s, const uint8_t *uuid, size_t uuid_bytes, uint64_t generation, weir_error *err)
{
	const struct server_options *o = &s->options;
	if (uuid_bytes != sizeof o->uuid || memcmp(uuid, o->uuid, sizeof o->uuid) != 0)
		return weir_fail(err, WEIR_E_GENERATION, "from another job: uuid %02x%02x%02x%02x..., %s serves %02x%02x%02x%02x...",
		                 uuid_bytes > 3 ? uuid[0] : 0u, uuid_bytes > 3 ? uuid[1] : 0u, uuid_bytes > 3 ? uuid[2] : 0u,
		                 uuid_bytes > 3 ? uuid[3] : 0u, s->name, o->uuid[0], o->uuid[1], o->uuid[2], o->uuid[3]);
	if (generation != o->generation)
		return weir_fail(err, generation > o->generation ? WEIR_E_UNAVAILABLE : WEIR_E_GENERATION,
		                 "from generation %llu, %s serves generation %llu", (unsigned long long)generation, s->name,
		                 (unsigned long long)o->generation);
	return WEIR_OK;
}

/* --- Executors */

struct executor *server_executor(struct server *s, uint32_t partition)
{
	return &s->executors[partition / s->options.servers % s->options.executors];
}

struct executor *server_executor_of_loop(struct server *s, const struct rpc_loop *loop)
{
	for (uint32_t i = 0; i < s->options.executors; i++)
		if (s->executors[i].loop == loop)
			return &s->executors[i];
	assert(!"a connection on a loop that is no executor's");
	return NULL;
}

struct tour {
	struct server *server;
	uint32_t next;
	tour_fn visit, done;
	void *arg;
};

static void tour_step(void *arg)
{
	struct tour *t = arg;
	struct server *s = t->server;
	struct executor *e = &s->executors[t->next++];
	t->visit(e, t->arg);
	if (t->next < s->options.executors) {
		rpc_loop_post(s->executors[t->next].loop, tour_step, t);
		return;
	}
	t->done(e, t->arg);
	free(t);
	server_leave(s);
}

weir_status server_tour(struct server *s, tour_fn visit, tour_fn done, void *arg)
{
	struct tour *t = malloc(sizeof *t);
	if (!t)
		return WEIR_E_MEMORY;
	*t = (struct tour){.server = s, .visit = visit, .done = done, .arg = arg};
	server_enter(s);
	rpc_loop_post(s->executors[0].loop, tour_step, t);
	return WEIR_OK;
}
