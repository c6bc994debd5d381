/* Joining the job, and the control calls that everything else makes: small protobuf messages, one at a time, waited for by the caller. */
#include <assert.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client.h"

#define STATUS_FIRST(type) \
	_Static_assert(offsetof(Weir__V1__##type, status) == sizeof(ProtobufCMessage), #type "'s status must come first")
STATUS_FIRST(JoinReply);
STATUS_FIRST(CreateTableReply);
STATUS_FIRST(RegisterTableReply);
STATUS_FIRST(LeaseReply);
STATUS_FIRST(ProgressReply);
STATUS_FIRST(StepReply);
STATUS_FIRST(CommitReply);
STATUS_FIRST(GateReply);
STATUS_FIRST(LeaveReply);
STATUS_FIRST(LedgerStatus);

weir_status client_reply_status(const ProtobufCMessage *reply, weir_error *err)
{
	const Weir__V1__Status *s = ((const Weir__V1__LeaveReply *)reply)->status;
	if (!s)
		return weir_fail(err, WEIR_E_CORRUPT, "an answer without a status");
	return s->code == WEIR_OK
	           ? WEIR_OK
	           : weir_fail(err, (weir_status)s->code, "%s", s->text[0] ? s->text : weir_status_text((weir_status)s->code));
}

void client_fill_job(weir_client *c, Weir__V1__JobId *out)
{
	weir__v1__job_id__init(out);
	out->uuid.data = c->uuid;
	out->uuid.len = sizeof c->uuid;
	out->generation = c->generation;
}

weir_status client_call(weir_client *c, struct rpc_channel *channel, enum rpc_method method, const ProtobufCMessage *q,
                        uint32_t timeout_ms, const ProtobufCMessageDescriptor *type, ProtobufCMessage **reply, weir_error *err)
{
	*reply = NULL;
	struct message *m = wire_pack(q), *answer = NULL;
	if (!m)
		return weir_fail(err, WEIR_E_MEMORY, "%s: out of memory", rpc_method_path(method));
	weir_status status = rpc_call_wait(channel, method, m, timeout_ms, &answer, err);
	if (status != WEIR_OK)
		return status;
	status = wire_unpack(type, answer, reply, err);
	message_release(answer);
	if (status == WEIR_OK)
		status = client_reply_status(*reply, err);
	if (status == WEIR_OK)
		return WEIR_OK;
	wire_free(*reply);
	*reply = NULL;
	if (status == WEIR_E_STALE) {
		pthread_mutex_lock(&c->lock);
		client_become_stale(c, err ? err->text : "");
		pthread_mutex_unlock(&c->lock);
	}
	return status;
}

/* Waits; false when this is no time for another try. */
static bool pause_for(weir_client *c, uint32_t pause_ms, bool joining)
{
	const int64_t next = client_now(c) + pause_ms;
	pthread_mutex_lock(&c->lock);
	bool go_on = joining ? !c->closing : client_usable(c, NULL) == WEIR_OK;
	while (go_on && client_wait(c, next))
		go_on = joining ? !c->closing : client_usable(c, NULL) == WEIR_OK;
	pthread_mutex_unlock(&c->lock);
	return go_on;
}

bool client_try_again(weir_client *c, struct tries *t, bool joining, weir_error *why)
{
	const uint32_t pause_ms = t->pause_ms ? t->pause_ms : WEIR_RETRY_FIRST_MS;
	if (client_now(c) + pause_ms > t->end_ms)
		return false;
	if (!t->pause_ms)
		client_log(c, WEIR_LOG_WARN, "waiting: %s", why->text);
	t->pause_ms = 2 * pause_ms < WEIR_RETRY_CAP_MS ? 2 * pause_ms : WEIR_RETRY_CAP_MS;
	if (!pause_for(c, pause_ms, joining))
		return false;
	why->status = WEIR_OK;
	return true;
}

/* Asks until the other end can be reached, for patience_ms at most. One that can be reached and does not answer waits for space on its disk: for it there
 * is patience without end, as for pushes. */
static weir_status call_patiently(weir_client *c, struct rpc_channel *channel, enum rpc_method method, const ProtobufCMessage *q,
                                  uint32_t patience_ms, const ProtobufCMessageDescriptor *type, ProtobufCMessage **reply,
                                  weir_error *err)
{
	const bool joining = method == RPC_JOIN;
	const uint32_t timeout_ms = patience_ms < WEIR_CONTROL_TIMEOUT_MS ? patience_ms : WEIR_CONTROL_TIMEOUT_MS;
	struct tries tries = {.end_ms = client_now(c) + patience_ms};
	weir_error own = {0};
	err = err ? err : &own;
	for (;;) {
		weir_status status = client_call(c, channel, method, q, timeout_ms, type, reply, err);
		if (status == WEIR_E_TIMEOUT && !joining)
			tries.end_ms = client_now(c) + patience_ms;
		else if (status != WEIR_E_UNAVAILABLE)
			return status;
		if (client_try_again(c, &tries, joining, err))
			continue;
		pthread_mutex_lock(&c->lock);
		weir_status why = joining ? WEIR_OK : client_usable(c, err); /* stale: what is asked for has no meaning any more */
		pthread_mutex_unlock(&c->lock);
		return why ? why : status;
	}
}

weir_status client_call_again(weir_client *c, struct rpc_channel *channel, enum rpc_method method, const ProtobufCMessage *q,
                              const ProtobufCMessageDescriptor *type, ProtobufCMessage **reply, weir_error *err)
{
	return call_patiently(c, channel, method, q, c->patience_ms, type, reply, err);
}

/* --- Joining */

static weir_status take_placement(weir_client *c, const Weir__V1__JoinReply *r, weir_error *err)
{
	if (!r->job || r->job->uuid.len != sizeof c->uuid || !r->partitions || r->partitions > WEIR_PARTITIONS_MAX ||
	    r->n_partition_server != r->partitions || !r->n_servers || r->n_servers > WEIR_SERVERS_MAX)
		return weir_fail(err, WEIR_E_CORRUPT,
		                 "the ledger's answer to joining is not consistent: %u partitions, %zu places, %zu servers",
		                 r->partitions, r->n_partition_server, r->n_servers);
	for (uint32_t p = 0; p < r->partitions; p++)
		if (r->partition_server[p] >= r->n_servers)
			return weir_fail(err, WEIR_E_CORRUPT, "the ledger places partition %u on server %u of %zu", p, r->partition_server[p],
			                 r->n_servers);
	memcpy(c->uuid, r->job->uuid.data, sizeof c->uuid);
	c->generation = r->job->generation;
	c->partitions = r->partitions;
	c->partition_server = malloc(r->partitions * sizeof *c->partition_server);
	c->applied_seen = calloc(r->partitions, sizeof *c->applied_seen);
	c->stable_seen = calloc(r->partitions, sizeof *c->stable_seen);
	c->acknowledged = calloc(r->partitions, sizeof *c->acknowledged);
	c->epoch_seen = calloc(r->partitions, sizeof *c->epoch_seen);
	c->links = calloc(r->n_servers, sizeof *c->links);
	if (!c->partition_server || !c->applied_seen || !c->stable_seen || !c->acknowledged || !c->epoch_seen || !c->links)
		return weir_fail(err, WEIR_E_MEMORY, "join: out of memory");
	memcpy(c->partition_server, r->partition_server, r->partitions * sizeof *c->partition_server);
	for (uint32_t i = 0; i < r->n_servers; i++) {
		struct link *l = &c->links[i];
		l->client = c;
		l->index = i;
		l->push = (struct lane){.link = l, .method = RPC_PUSH_STREAM};
		l->pull = (struct lane){.link = l, .method = RPC_PULL_STREAM};
		snprintf(l->address, sizeof l->address, "%s", r->servers[i]);
		weir_status status = rpc_channel_open(&l->channel, c->rpc, c->loop, l->address, err);
		if (status != WEIR_OK)
			return status;
		c->links_count = i + 1;
	}
	return WEIR_OK;
}

/* A new incarnation finds the cluster as it was. */
static weir_status check_placement(const weir_client *c, const Weir__V1__JoinReply *r, weir_error *err)
{
	bool same = r->job && r->job->generation == c->generation && r->partitions == c->partitions &&
	            r->n_partition_server == c->partitions && r->n_servers == c->links_count &&
	            memcmp(r->partition_server, c->partition_server, c->partitions * sizeof(uint32_t)) == 0;
	for (uint32_t i = 0; same && i < c->links_count; i++)
		same = strcmp(r->servers[i], c->links[i].address) == 0;
	return same ? WEIR_OK
	            : weir_fail(err, WEIR_E_STATE,
	                        "the job's servers have changed since this client was opened: close it and open a new one");
}

static weir_status take_join(weir_client *c, const Weir__V1__JoinReply *r, bool again, weir_error *err)
{
	weir_status status = again ? check_placement(c, r, err) : take_placement(c, r, err);
	if (status != WEIR_OK)
		return status;
	c->worker = r->worker;
	c->lease_ms = r->lease_ms;
	c->patience_ms = r->patience_ms ? r->patience_ms : WEIR_DEAD_PEER_MS;
	c->passes = r->passes;
	pthread_mutex_lock(&c->lock);
	units_free(c);
	c->steps.member = c->steps.leaving = false;
	c->steps.closes_sent = 0; /* what was on its way to the servers was dropped with all else */
	c->incarnation = r->incarnation;
	c->lease_sequence = c->report_sequence = 0;
	c->stale = false;
	memset(c->acknowledged, 0, c->partitions * sizeof *c->acknowledged); /* to the dead one */
	for (size_t i = 0; status == WEIR_OK && i < r->n_tables; i++)
		status = tables_learn(c, r->tables[i], NULL, err);
	steps_learn(c, r->closes, r->n_closes);
	if (status == WEIR_OK && again && resume_ask_all(c) != WEIR_OK) /* for the epochs: their answers were dropped */
		status = weir_fail(err, WEIR_E_MEMORY, "join: out of memory");
	pthread_mutex_unlock(&c->lock);
	return status;
}

weir_status client_join(weir_client *c, bool again, weir_error *err)
{
	Weir__V1__JoinRequest q = WEIR__V1__JOIN_REQUEST__INIT;
	Weir__V1__JobId job;
	Weir__V1__Dataset dataset = WEIR__V1__DATASET__INIT;
	char host[WEIR_ADDRESS_BYTES_MAX] = "";
	ProtobufCMessage *reply = NULL;
	(void)gethostname(host, sizeof host - 1);
	if (again) {
		client_fill_job(c, &job);
		q.job = &job;
	}
	q.wire_version = FRAME_VERSION;
	q.role = (Weir__V1__Role)c->options.role;
	q.name = c->name;
	q.host = host;
	q.pid = (uint32_t)getpid();
	dataset.fingerprint = c->options.dataset_fingerprint;
	dataset.units = c->options.dataset_units;
	dataset.rows = c->options.dataset_rows;
	if (c->options.role == WEIR_TRAINER)
		q.dataset = &dataset;
	uint32_t patience_ms = c->options.connect_timeout_ms ? c->options.connect_timeout_ms : WEIR_CONNECT_TIMEOUT_MS;
	if (again && patience_ms < c->patience_ms)
		patience_ms = c->patience_ms;
	weir_status status =
	    call_patiently(c, c->ledger, RPC_JOIN, &q.base, patience_ms, &weir__v1__join_reply__descriptor, &reply, err);
	if (status == WEIR_OK)
		status = take_join(c, (const Weir__V1__JoinReply *)reply, again, err);
	wire_free(reply);
	return status;
}
