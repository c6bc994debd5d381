/* Decides when a checkpoint is taken, and answers requests. One thread takes one checkpoint at a
 * time and waits for every answer. */
#include "server/service/checkpoint_coordinator.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/base/deadline.h"
#include "server/log/journal.h"
#include "server/service/checkpoint_coordinator_internal.h"

#define LOOK_MS      500u /* between two checks of the job's progress, with every_steps */
#define PAUSE_MS     5u
#define TRIES        5u /* of one checkpoint, while servers die and partitions move */
#define TRY_AGAIN_MS 1000u

/* --- The thread */

bool checkpoint_is_replicated(const struct checkpoint_coordinator *c)
{
	return server_replicas(c->server) > 1;
}

bool checkpoint_is_ending(struct checkpoint_coordinator *c)
{
	pthread_mutex_lock(&c->lock);
	bool ending = c->ending;
	pthread_mutex_unlock(&c->lock);
	return ending;
}

void checkpoint_pause(void)
{
	nanosleep(&(struct timespec){.tv_nsec = PAUSE_MS * 1000000l}, NULL);
}

/* Waits ms, or until the coordinator ends or, if idle, a checkpoint is requested. */
static void wait_ms(struct checkpoint_coordinator *c, uint32_t ms, bool idle)
{
	const int64_t deadline_ns = deadline_after_ms(ms);
	pthread_mutex_lock(&c->lock);
	while (!c->ending && !(idle && c->wanted) && deadline_wait(&c->wake, &c->lock, deadline_ns))
		;
	pthread_mutex_unlock(&c->lock);
}

void checkpoint_wait_ms(struct checkpoint_coordinator *c, uint32_t ms)
{
	wait_ms(c, ms, false);
}

static void say_ended(struct checkpoint_coordinator *c, const struct checkpoint_ended *e)
{
	struct logger *l = c->server->options.logger;
	if (e->err.status)
		LOG_AT(l, LOG_ERROR, "checkpoint failed", "name=%s reason=\"%s\"", e->name, e->err.text);
	else
		LOG_AT(l, LOG_INFO, "checkpoint written", "name=%s place=%s bytes=%" PRIu64 " wall_ms=%" PRIu64, e->name,
		       c->options.place, e->bytes, e->wall_ms);
}

/* Whether the failure is transient: a server has died, or a partition moves. */
static bool is_passing(weir_status status)
{
	switch (status) {
	case WEIR_E_MOVED:
	case WEIR_E_UNAVAILABLE:
	case WEIR_E_TIMEOUT:
	case WEIR_E_NOT_CURRENT:
	case WEIR_E_CANCELLED:
	case WEIR_E_CLOSED:
	case WEIR_E_BUSY:
		return true;
	default:
		return false;
	}
}

static weir_status try_all(struct checkpoint_coordinator *c, struct checkpoint_ended *e)
{
	for (uint32_t tries = 1;; tries++) {
		weir_status status = checkpoint_try(c, e);
		if (!is_passing(status) || !checkpoint_is_replicated(c) || tries == TRIES)
			return status;
		checkpoint_wait_ms(c, TRY_AGAIN_MS);
		uint64_t batches;
		if (checkpoint_is_ending(c) || !checkpoint_ledger_is_here(c, &batches))
			return status;
		LOG_AT(c->server->options.logger, LOG_WARN, "checkpoint begins anew", "name=%s reason=\"%s\"", e->name, e->err.text);
	}
}

/* Counts an ended checkpoint, unless it was given up because the server ends or the ledger has
 * gone. Requires the lock. */
static void count(struct checkpoint_coordinator *c, const struct checkpoint_ended *e)
{
	struct checkpoint_counts *n = &c->counts;
	if (c->ending || e->err.status == WEIR_E_CANCELLED)
		return;
	n->failing = e->err.status != WEIR_OK;
	n->written += !n->failing;
	n->failed += n->failing;
	if (n->failing) {
		snprintf(n->name, sizeof n->name, "%s", e->name);
		snprintf(n->text, sizeof n->text, "%s", e->err.text);
	}
}

/* Takes one checkpoint. Requests see it as the present one from begin to end. */
static void run_one(struct checkpoint_coordinator *c)
{
	struct checkpoint_ended e = {.any = true};
	const struct clock *clock = c->server->options.clock;
	int64_t start_ms = clock_ms(clock);
	pthread_mutex_lock(&c->lock);
	c->running = true;
	c->wanted = false;
	e.sequence = ++c->sequence;
	pthread_mutex_unlock(&c->lock);
	(void)try_all(c, &e);
	e.wall_ms = (uint64_t)(clock_ms(clock) - start_ms);
	say_ended(c, &e);
	pthread_mutex_lock(&c->lock);
	c->running = false;
	c->ended = e;
	count(c, &e);
	pthread_mutex_unlock(&c->lock);
}

static bool is_wanted(struct checkpoint_coordinator *c)
{
	pthread_mutex_lock(&c->lock);
	bool wanted = c->wanted;
	pthread_mutex_unlock(&c->lock);
	return wanted;
}

/* Whether a checkpoint is due by every_steps. */
static bool is_due(struct checkpoint_coordinator *c)
{
	uint64_t batches;
	if (!c->options.every_steps || !checkpoint_ledger_is_here(c, &batches) || batches < c->last_step + c->options.every_steps)
		return false;
	/* Also if it fails before it begins: the next one is due after as many steps again. */
	c->last_step = batches;
	return true;
}

static void *coordinate(void *arg)
{
	struct checkpoint_coordinator *c = arg;
	while (!checkpoint_is_ending(c))
		if (is_wanted(c) || is_due(c))
			run_one(c);
		else
			wait_ms(c, LOOK_MS, true);
	return NULL;
}

/* --- Requests */

/* Whether the ledger is on this server, as far as known. The caller may be waiting for the ledger
 * to come here. */
static bool is_here(const struct checkpoint_coordinator *c)
{
	uint64_t revision;
	return !checkpoint_is_replicated(c) ||
	       partition_map_find(c->server->map, JOURNAL_LEDGER, &revision).server == c->server->options.index;
}

/* A failure is not reported any more once another server has the ledger. */
void checkpoint_coordinator_count(struct checkpoint_coordinator *c, struct checkpoint_counts *out)
{
	const bool here = is_here(c);
	pthread_mutex_lock(&c->lock);
	*out = c->counts;
	out->running = c->running;
	pthread_mutex_unlock(&c->lock);
	out->failing &= here;
}

void checkpoint_coordinator_ask(struct checkpoint_coordinator *c, struct rpc_call *call, struct message *request)
{
	weir_error err = {0};
	ProtobufCMessage *m = NULL;
	weir_status status = wire_unpack(&weir__v1__checkpoint_request__descriptor, request, &m, &err);
	const Weir__V1__CheckpointRequest *q = (const Weir__V1__CheckpointRequest *)m;
	if (!status && q->job && q->job->uuid.len)
		status = server_check_job(c->server, q->job->uuid.data, q->job->uuid.len, q->job->generation, &err);
	if (!status && !is_here(c)) {
		wire_destroy(m);
		ledger_rpc_refuse_moved(c->server, call, RPC_CHECKPOINT);
		return;
	}
	if (status) {
		wire_destroy(m);
		rpc_call_reply(call, status, err.text, NULL);
		return;
	}
	Weir__V1__Status ok = WEIR__V1__STATUS__INIT, outcome = WEIR__V1__STATUS__INIT;
	Weir__V1__CheckpointReply reply = WEIR__V1__CHECKPOINT_REPLY__INIT;
	reply.status = &ok;
	pthread_mutex_lock(&c->lock);
	if (q->start && !c->running) {
		c->wanted = true;
		pthread_cond_broadcast(&c->wake);
	}
	const struct checkpoint_ended e = c->ended;
	reply.running = c->running || c->wanted;
	reply.sequence = c->running ? c->sequence : c->sequence + c->wanted;
	char name[WEIR_CHECKPOINT_NAME_BYTES_MAX];
	memcpy(name, c->running ? c->name : e.name, sizeof name);
	pthread_mutex_unlock(&c->lock);
	reply.name = name;
	if (e.any) {
		outcome.code = e.err.status;
		outcome.text = (char *)(uintptr_t)e.err.text;
		reply.outcome = &outcome;
		reply.ended_sequence = e.sequence;
		reply.bytes = e.bytes;
		reply.wall_ms = e.wall_ms;
	}
	wire_destroy(m);
	struct message *out = wire_pack(&reply.base);
	rpc_call_reply(call, out ? WEIR_OK : WEIR_E_MEMORY, out ? "" : "out of memory", out);
}

/* --- Life */

static void coordinator_destroy(struct checkpoint_coordinator *c)
{
	if (c->channels)
		checkpoint_leave_servers(c);
	checkpoint_options_destroy(&c->options);
	pthread_cond_destroy(&c->wake);
	pthread_mutex_destroy(&c->lock);
	free(c->channels);
	free(c->addresses);
	free(c);
}

struct checkpoint_coordinator *checkpoint_coordinator_create(struct server *s, const struct checkpoint_options *options,
                                                             const char *const *servers, uint32_t count)
{
	struct checkpoint_coordinator *c = calloc(1, sizeof *c);
	if (!c)
		return NULL;
	c->server = s;
	c->servers = server_servers_max(s);
	pthread_mutex_init(&c->lock, NULL);
	deadline_cond_init(&c->wake);
	c->addresses = calloc(c->servers, sizeof *c->addresses);
	c->channels = calloc(c->servers, sizeof(struct rpc_channel *));
	bool made = c->addresses && c->channels && checkpoint_options_copy(&c->options, options) == WEIR_OK;
	for (uint32_t i = 0; made && i < count && i < c->servers; i++)
		snprintf(c->addresses[i], sizeof c->addresses[i], "%s", servers[i]);
	if (!made || pthread_create(&c->thread, NULL, coordinate, c) != 0) {
		coordinator_destroy(c);
		return NULL;
	}
	return c;
}

void checkpoint_coordinator_destroy(struct checkpoint_coordinator *c)
{
	if (!c)
		return;
	pthread_mutex_lock(&c->lock);
	c->ending = true;
	pthread_cond_broadcast(&c->wake);
	pthread_mutex_unlock(&c->lock);
	pthread_join(c->thread, NULL);
	coordinator_destroy(c);
}
