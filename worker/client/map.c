#include "worker/client/map.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker/client/client.h"

/* --- Claims */

/* Whether the claim moves the partition. Revision 0: from a server that knows of this partition
 * only. */
static bool claim(weir_client *c, uint32_t partition, uint64_t server, uint64_t epoch, uint64_t revision, weir_error *err)
{
	struct map_place *at = &c->map.places[partition];
	if (epoch < at->epoch || (epoch == at->epoch && revision <= at->revision))
		return false;
	/* No server has it now, or its server cannot be found. */
	if (server >= c->links_count || link_use(c->links[server], err) != WEIR_OK)
		return false;
	at->moved |= at->server != server || at->epoch != epoch;
	at->server = (uint32_t)server;
	at->epoch = epoch;
	at->revision = revision;
	return at->moved;
}

static weir_status check(const weir_client *c, const Weir__V1__PartitionMap *m, weir_error *err)
{
	if (!m || m->n_server != c->partitions || m->n_epoch != c->partitions || !m->n_servers || m->n_servers > WEIR_SERVERS_MAX)
		return weir_fail(err, WEIR_E_CORRUPT, "a map of %zu partitions in %zu epochs on %zu servers; the job has %u partitions",
		                 m ? m->n_server : 0, m ? m->n_epoch : 0, m ? m->n_servers : 0, c->partitions);
	if (m->n_in_sync && m->n_in_sync != c->partitions)
		return weir_fail(err, WEIR_E_CORRUPT, "a map with the replicas of %zu partitions of %u", m->n_in_sync, c->partitions);
	for (uint32_t p = 0; p < c->partitions; p++)
		if (m->server[p] >= m->n_servers && m->server[p] != WEIR_SERVER_NONE)
			return weir_fail(err, WEIR_E_CORRUPT, "a map that places partition %u on server %u of %zu", p, m->server[p],
			                 m->n_servers);
	return WEIR_OK;
}

static weir_status learn_servers(weir_client *c, const Weir__V1__PartitionMap *m, weir_error *err)
{
	for (uint32_t i = c->links_count; i < m->n_servers; i++) {
		if (!(c->links[i] = link_create(c, i)))
			return weir_fail(err, WEIR_E_MEMORY, "out of memory for server %u", i);
		c->links_count = i + 1;
	}
	for (uint32_t i = 0; i < m->n_servers; i++)
		if (!c->links[i]->address[0])
			snprintf(c->links[i]->address, sizeof c->links[i]->address, "%s", m->servers[i]);
	return WEIR_OK;
}

static weir_status begin(weir_client *c, uint32_t servers, weir_error *err)
{
	c->map.places = calloc(c->partitions, sizeof *c->map.places);
	if (!c->map.places)
		return weir_fail(err, WEIR_E_MEMORY, "join: out of memory");
	for (uint32_t p = 0; p < c->partitions; p++)
		c->map.places[p].server = p % servers; /* until a claim arrives */
	c->map.pause_ms = WEIR_MAP_RETRY_FIRST_MS;
	c->map.hint = WEIR_SERVER_NONE;
	return WEIR_OK;
}

/* --- Moves */

/* A server that has not connected yet gets all RESUMEs when it does. */
static void resume_moved(struct link *l)
{
	if (l->push.stream && client_usable(l->client, NULL) == WEIR_OK && resume_ask(l, true, false) != WEIR_OK)
		/* The next stream begins with it. */
		rpc_stream_cancel(l->push.stream, WEIR_E_MEMORY, "out of memory");
}

static void move(weir_client *c)
{
	c->map.changes++;
	for (uint32_t i = 0; i < c->links_count; i++)
		resume_moved(c->links[i]);
	for (uint32_t i = 0; i < c->links_count; i++) {
		lane_move_pushes(&c->links[i]->push);
		lane_move_pulls(&c->links[i]->pull);
	}
	for (uint32_t p = 0; p < c->partitions; p++)
		c->map.places[p].moved = false;
	links_wake(c);
}

static void learn_replicas(weir_client *c, const Weir__V1__PartitionMap *m)
{
	for (uint32_t p = 0; m->n_in_sync && p < c->partitions; p++) {
		struct map_place *at = &c->map.places[p];
		at->replicas_count = 0;
		for (size_t i = 0; i < m->in_sync[p]->n_server && i < WEIR_REPLICAS_MAX; i++)
			if (m->in_sync[p]->server[i] < c->links_count)
				at->replicas[at->replicas_count++] = (uint16_t)m->in_sync[p]->server[i];
	}
}

weir_status map_take(weir_client *c, const Weir__V1__PartitionMap *m, weir_error *err)
{
	weir_error none = {0}; /* error of the first server that cannot be used */
	bool moved = false;
	const bool first = !c->map.places;
	weir_status status = check(c, m, err);
	if (!status && first)
		status = begin(c, (uint32_t)m->n_servers, err);
	if (!status)
		status = learn_servers(c, m, err);
	if (status)
		return status;
	for (uint32_t p = 0; p < c->partitions; p++)
		moved |= claim(c, p, m->server[p], m->epoch[p], m->revision, &none);
	if (m->revision >= c->map.revision) {
		c->map.revision = m->revision;
		learn_replicas(c, m);
	}
	c->map.taken_ms = client_now(c);
	if (moved)
		move(c);
	if (ledger_claim(c, m)) {
		report_anew(c);
		poll_ask_anew(&c->steps.poll);
		poll_ask_anew(&c->clocks.poll);
	}
	return first && none.status ? weir_fail(err, none.status, "%s", none.text) : WEIR_OK;
}

uint32_t map_server(weir_client *c, uint32_t partition)
{
	pthread_mutex_lock(&c->lock);
	const uint32_t server = c->map.places[partition].server;
	pthread_mutex_unlock(&c->lock);
	return server;
}

void map_destroy(weir_client *c)
{
	free(c->map.places);
}

/* --- Asking */

static bool is_quiet(const struct lane *lane, int64_t now)
{
	const bool waits = lane->first || lane->queue_first;
	return waits && now - lane->progress_ms >= (lane->proven ? WEIR_LINK_SILENT_MS : WEIR_LINK_DOWN_MS);
}

/* The connection does not stay up, whether or not a request waits. */
static bool is_failing(const struct lane *lane, int64_t now)
{
	return lane->lost_last_ms - lane->lost_first_ms >= WEIR_LINK_DOWN_MS && now - lane->lost_last_ms < WEIR_DEAD_PEER_MS;
}

static bool is_lively(const struct link *l, int64_t now)
{
	return (l->push.proven || l->pull.proven) && !is_quiet(&l->push, now) && !is_quiet(&l->pull, now);
}

/* Chooses the hinted server; else one that answers, in turn; else the next one. A server without
 * requests seems to answer even if it stands still, so after an unanswered question the next server
 * is asked. */
static struct link *choose(weir_client *c)
{
	struct map *m = &c->map;
	const int64_t now = client_now(c);
	uint32_t chosen = (m->asked + 1) % c->links_count;
	for (uint32_t i = 1; i <= c->links_count && !m->unanswered; i++)
		if (is_lively(c->links[(m->asked + i) % c->links_count], now)) {
			chosen = (m->asked + i) % c->links_count;
			break;
		}
	if (m->hint < c->links_count)
		chosen = m->hint;
	m->hint = WEIR_SERVER_NONE;
	m->asked = chosen;
	return c->links[chosen];
}

static void ask(weir_client *c);

static void ask_later(void *arg)
{
	weir_client *c = arg;
	pthread_mutex_lock(&c->lock);
	c->map.timer = false;
	if (c->map.wanted)
		ask(c);
	pthread_mutex_unlock(&c->lock);
}

static void pause_grows(struct map *m)
{
	m->pause_ms += m->pause_ms / 2;
	if (m->pause_ms > WEIR_MAP_RETRY_CAP_MS)
		m->pause_ms = WEIR_MAP_RETRY_CAP_MS;
}

/* Tries refused requests again at the same server: it may have got the partition back, or no server
 * knows better. */
static void on_answer(weir_client *c, const Weir__V1__PartitionMap *m)
{
	const uint64_t changes = c->map.changes;
	weir_error err = {0};
	bool refused = false;
	if (map_take(c, m, &err) != WEIR_OK)
		client_log(c, WEIR_LOG_WARN, "a map cannot be used: %s", err.text);
	for (uint32_t p = 0; p < c->partitions; p++)
		refused |= c->map.places[p].moved;
	if (c->map.changes != changes)
		c->map.pause_ms = WEIR_MAP_RETRY_FIRST_MS;
	else if (refused)
		move(c);
}

static void on_map(void *arg, weir_status status, const char *text, struct message *m)
{
	weir_client *c = arg;
	ProtobufCMessage *reply = NULL;
	(void)text; /* another server is asked */
	if (!status)
		status = wire_unpack(&weir__v1__map_reply__descriptor, m, &reply, NULL);
	if (!status)
		status = client_reply_status(reply, NULL);
	pthread_mutex_lock(&c->lock);
	c->map.asking = false;
	c->map.unanswered = status != WEIR_OK;
	c->map.next_ms = client_now(c) + c->map.pause_ms;
	pause_grows(&c->map);
	if (!c->closing && !status)
		on_answer(c, ((const Weir__V1__MapReply *)reply)->map);
	if (status || c->map.wanted)
		map_want(c, WEIR_SERVER_NONE);
	pthread_mutex_unlock(&c->lock);
	wire_destroy(reply);
}

static void ask(weir_client *c)
{
	Weir__V1__MapRequest q = WEIR__V1__MAP_REQUEST__INIT;
	Weir__V1__JobId job;
	struct link *l = choose(c);
	client_fill_job(c, &job);
	q.job = &job;
	struct message *m = !c->closing && link_use(l, NULL) == WEIR_OK ? wire_pack(&q.base) : NULL;
	c->map.asking = m && rpc_call_start(l->channel, RPC_MAP, m, WEIR_MAP_TIMEOUT_MS, on_map, c) == WEIR_OK;
	c->map.wanted = !c->map.asking; /* map_tick repeats it */
}

void map_want(weir_client *c, uint32_t hint)
{
	struct map *m = &c->map;
	const int64_t now = client_now(c);
	m->wanted = true;
	if (hint != WEIR_SERVER_NONE)
		m->hint = hint;
	if (m->asking || m->timer || c->closing)
		return;
	if (now - m->next_ms > WEIR_MAP_RETRY_CAP_MS) /* no request for a while */
		m->pause_ms = WEIR_MAP_RETRY_FIRST_MS;
	if (now >= m->next_ms) {
		ask(c);
		return;
	}
	m->timer = true;
	rpc_loop_after(c->loop, (uint32_t)(m->next_ms - now), ask_later, c);
}

void map_ask(void *client)
{
	weir_client *c = client;
	pthread_mutex_lock(&c->lock);
	map_want(c, WEIR_SERVER_NONE);
	pthread_mutex_unlock(&c->lock);
}

/* --- Refusals, and patience */

void map_refused(struct lane *lane, struct request *q, const struct record *r)
{
	weir_client *c = lane->link->client;
	weir_error ignored = {0};
	map_waits(c, q->partition);
	c->map.places[q->partition].moved = true;
	const bool knows_more = r->moved.revision > (uint32_t)c->map.revision;
	if (claim(c, q->partition, r->moved.server, r->moved.epoch, 0, &ignored))
		move(c);
	else
		map_want(c, r->moved.server < c->links_count ? (uint32_t)r->moved.server
		            : knows_more                     ? lane->link->index
		                                             : WEIR_SERVER_NONE);
}

void map_answered(weir_client *c, uint32_t partition)
{
	c->map.places[partition].waits_ms = 0;
}

void map_waits(weir_client *c, uint32_t partition)
{
	if (!c->map.places[partition].waits_ms)
		c->map.places[partition].waits_ms = client_now(c);
}

void map_forgive_pause(weir_client *c, int64_t pause_ms)
{
	for (uint32_t p = 0; p < c->partitions; p++)
		if (c->map.places[p].waits_ms)
			c->map.places[p].waits_ms += pause_ms;
}

bool map_uses(const weir_client *c, uint32_t server)
{
	for (uint32_t p = 0; p < c->partitions; p++)
		if (c->map.places[p].server == server)
			return true;
	return false;
}

void map_forget_waits(weir_client *c)
{
	for (uint32_t p = 0; c->map.places && p < c->partitions; p++)
		c->map.places[p].waits_ms = 0;
}

/* No server has answered for the partition for patience_ms: fails its requests. Later requests then
 * wait for one question only. */
static void give_up(weir_client *c, uint32_t partition, int64_t now)
{
	struct map_place *at = &c->map.places[partition];
	char text[WEIR_ERROR_TEXT_BYTES];
	snprintf(text, sizeof text,
	         "no server has answered for partition %u for %u ms since it moved (%s was asked last): see the servers' logs for "
	         "why, then start "
	         "this job again",
	         partition, c->patience_ms, c->links[at->server]->address);
	uint32_t dropped = 0;
	for (uint32_t i = 0; i < c->links_count; i++) {
		dropped += lane_drop(&c->links[i]->push, partition, WEIR_E_UNAVAILABLE, text);
		dropped += lane_drop(&c->links[i]->pull, partition, WEIR_E_UNAVAILABLE, text);
	}
	at->waits_ms = dropped ? now - c->patience_ms + WEIR_MAP_RETRY_CAP_MS : 0;
	if (dropped)
		client_log(c, WEIR_LOG_ERROR, "%s", text);
}

void map_tick(weir_client *c)
{
	const int64_t now = client_now(c);
	bool wanted = c->map.wanted || (c->read.staleness_ms && now - c->map.taken_ms >= WEIR_MAP_REFRESH_MS);
	for (uint32_t i = 0; i < c->links_count && !wanted; i++) {
		const struct link *l = c->links[i];
		wanted = is_quiet(&l->push, now) || is_quiet(&l->pull, now) || (is_failing(&l->push, now) && map_uses(c, i));
	}
	if (wanted)
		map_want(c, WEIR_SERVER_NONE);
	for (uint32_t p = 0; p < c->partitions; p++)
		if (c->map.places[p].waits_ms && now - c->map.places[p].waits_ms >= c->patience_ms)
			give_up(c, p, now);
}
