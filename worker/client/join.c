/* Joining the job, and control calls of servers: small protobuf messages, one at a time; the caller
 * waits. ledger.c has the calls of the ledger. */
#include <assert.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/system/process.h"
#include "worker/client/client.h"

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
STATUS_FIRST(ServerStatus);

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
	out->process_id = c->ledger_process_id;
}

weir_status client_heed(weir_client *c, weir_status status, const weir_error *err)
{
	pthread_mutex_lock(&c->lock);
	if (status == WEIR_E_STALE)
		client_become_stale(c, err->text);
	else if (client_is_over(status))
		client_fail(c, status, err->text);
	pthread_mutex_unlock(&c->lock);
	return status;
}

weir_status client_call_wait(weir_client *c, struct rpc_channel *channel, enum rpc_method method, struct message *m,
                             uint32_t timeout_ms, struct message **answer, weir_error *err)
{
	pthread_mutex_lock(&c->lock);
	c->activity.calls++;
	pthread_mutex_unlock(&c->lock);
	const weir_status status = rpc_call_wait(channel, method, m, timeout_ms, answer, err);
	pthread_mutex_lock(&c->lock);
	c->activity.calls--;
	pthread_mutex_unlock(&c->lock);
	return status;
}

weir_status client_call(weir_client *c, struct rpc_channel *channel, enum rpc_method method, const ProtobufCMessage *q,
                        uint32_t timeout_ms, const ProtobufCMessageDescriptor *type, ProtobufCMessage **reply, weir_error *err)
{
	weir_error own = {0};
	*reply = NULL;
	err = err ? err : &own;
	struct message *m = wire_pack(q), *answer = NULL;
	if (!m)
		return weir_fail(err, WEIR_E_MEMORY, "%s: out of memory", rpc_method_path(method));
	weir_status status = client_call_wait(c, channel, method, m, timeout_ms, &answer, err);
	if (status != WEIR_OK)
		return client_heed(c, status, err);
	status = wire_unpack(type, answer, reply, err);
	message_release(answer);
	if (status == WEIR_OK)
		status = client_reply_status(*reply, err);
	if (status == WEIR_OK)
		return WEIR_OK;
	wire_destroy(*reply);
	*reply = NULL;
	return client_heed(c, status, err);
}

/* Under the lock: whether another try makes sense. */
static bool may_try(const weir_client *c, bool joining)
{
	return joining ? !c->closing && !c->failure.status : client_usable(c, NULL) == WEIR_OK;
}

/* Waits, but not once the ledger is known to be elsewhere. Returns false if another try makes no
 * sense. */
static bool pause_for(weir_client *c, uint32_t pause_ms, bool joining)
{
	const int64_t next = client_now(c) + pause_ms;
	pthread_mutex_lock(&c->lock);
	const uint64_t moves = c->ledger.moves;
	bool go_on = may_try(c, joining);
	while (go_on && moves == c->ledger.moves && client_wait(c, next))
		go_on = may_try(c, joining);
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

weir_status client_call_again(weir_client *c, struct rpc_channel *channel, enum rpc_method method, const ProtobufCMessage *q,
                              const ProtobufCMessageDescriptor *type, ProtobufCMessage **reply, weir_error *err)
{
	const uint32_t timeout_ms = c->patience_ms < WEIR_CONTROL_TIMEOUT_MS ? c->patience_ms : WEIR_CONTROL_TIMEOUT_MS;
	struct tries tries = {.end_ms = client_now(c) + c->patience_ms};
	weir_error own = {0};
	err = err ? err : &own;
	for (;;) {
		weir_status status = client_call(c, channel, method, q, timeout_ms, type, reply, err);
		if (status == WEIR_E_TIMEOUT)
			tries.end_ms = client_now(c) + c->patience_ms;
		else if (status != WEIR_E_UNAVAILABLE)
			return status;
		if (client_try_again(c, &tries, false, err))
			continue;
		pthread_mutex_lock(&c->lock);
		weir_status why = client_usable(c, err); /* stale: the request has no meaning any more */
		pthread_mutex_unlock(&c->lock);
		return why ? why : status;
	}
}

/* --- Joining */

static weir_status take_job(weir_client *c, const Weir__V1__JoinReply *r, weir_error *err)
{
	if (!r->job || r->job->uuid.len != sizeof c->uuid || !r->partitions || r->partitions > WEIR_PARTITIONS_MAX)
		return weir_fail(err, WEIR_E_CORRUPT, "the ledger's answer to joining is not consistent: %u partitions", r->partitions);
	memcpy(c->uuid, r->job->uuid.data, sizeof c->uuid);
	c->generation = r->job->generation;
	c->partitions = r->partitions;
	c->applied_seen = calloc(r->partitions, sizeof *c->applied_seen);
	c->stable_seen = calloc(r->partitions, sizeof *c->stable_seen);
	c->acknowledged = calloc(r->partitions, sizeof *c->acknowledged);
	c->epoch_seen = calloc(r->partitions, sizeof *c->epoch_seen);
	c->later = calloc(r->partitions, sizeof *c->later);
	return c->applied_seen && c->stable_seen && c->acknowledged && c->epoch_seen && c->later
	           ? WEIR_OK
	           : weir_fail(err, WEIR_E_MEMORY, "join: out of memory");
}

/* A new incarnation finds the same job; its servers may be others. */
static weir_status check_job(const weir_client *c, const Weir__V1__JoinReply *r, weir_error *err)
{
	const bool same = r->job && r->job->generation == c->generation && r->partitions == c->partitions;
	return same
	           ? WEIR_OK
	           : weir_fail(err, WEIR_E_STATE, "the job is another than when this client was opened: close it and open a new one");
}

static weir_status take_join(weir_client *c, const Weir__V1__JoinReply *r, bool again, weir_error *err)
{
	weir_status status = again ? check_job(c, r, err) : take_job(c, r, err);
	if (status != WEIR_OK)
		return status;
	c->worker = r->worker;
	c->lease_ms = r->lease_ms;
	c->patience_ms = r->patience_ms ? r->patience_ms : WEIR_DEAD_PEER_MS;
	c->passes = r->passes;
	c->evaluated = r->evaluated;
	c->ack_sent = r->ack_sent;
	c->read.staleness_ms = r->read_staleness_ms;
	c->read.staleness_entries = r->read_staleness_entries;
	c->ledger_process_id = r->n_process_ids ? r->process_ids[0] : 0;
	pthread_mutex_lock(&c->lock);
	/* Nothing is under way: it was dropped, and nothing begins before the incarnation does. */
	status = map_take(c, r->map, err);
	if (status != WEIR_OK) {
		pthread_mutex_unlock(&c->lock);
		return status;
	}
	for (uint32_t i = 0; i < c->links_count && i < r->n_process_ids; i++)
		c->links[i]->process_id = c->links[i]->process_id ? c->links[i]->process_id : r->process_ids[i];
	units_destroy(c);
	clocks_begin(c);
	c->steps.member = c->steps.leaving = false;
	c->steps.closes_sent = 0; /* closes on their way to the servers were dropped with all else */
	c->incarnation = r->incarnation;
	c->lease_sequence = c->report_sequence = 0;
	activity_begin(c);
	message_release(c->unreported); /* the dead incarnation's */
	c->unreported = NULL;
	c->reporting = NULL;
	c->stale = false;
	/* To the dead incarnation. */
	memset(c->acknowledged, 0, c->partitions * sizeof *c->acknowledged);
	memset(c->later, 0, c->partitions * sizeof *c->later);
	memset(c->applied_seen, 0, c->partitions * sizeof *c->applied_seen); /* may be lost */
	for (size_t i = 0; status == WEIR_OK && i < r->n_tables; i++)
		status = tables_learn(c, r->tables[i], NULL, err);
	steps_learn(c, r->closes, r->n_closes);
	/* For the epochs: their answers were dropped. */
	if (status == WEIR_OK && again && resume_ask_all(c) != WEIR_OK)
		status = weir_fail(err, WEIR_E_MEMORY, "join: out of memory");
	pthread_mutex_unlock(&c->lock);
	return status;
}

/* The minimum wait for the holder of a name or of an evaluator's place: a lease of the default term
 * ends within it. */
#define HOLDER_PATIENCE_MS (WEIR_LEASE_TERM_MS + WEIR_PROGRESS_INTERVAL_MS)
_Static_assert(HOLDER_PATIENCE_MS > WEIR_NAME_SILENT_MS, "a dead holder must give its name away before the newcomer gives up");

/* A newcomer's observations of the workers in its way. */
struct waiting {
	bool told;
	int64_t since_ms;
	uint64_t heard; /* requests from the holder that the ledger had received by then */
};

/* A name belongs to one live worker, and a job has one evaluator. A newcomer that is refused
 * because of a live holder asks again. The holder may have died silently: it gives way when the
 * ledger has not heard from it for WEIR_NAME_SILENT_MS, or for a lease, or sooner if its process is
 * seen to be gone. Once the ledger has heard from it since, the holder is alive; requests that the
 * ledger received before a failover prove nothing. */
static bool may_ask_again(weir_client *c, struct waiting *w, Weir__V1__JoinRequest *q, uint32_t patience_ms, const char *why)
{
	const struct holder *h = &c->holder;
	if (!w->told) {
		*w = (struct waiting){.told = true, .since_ms = client_now(c), .heard = h->heard};
		client_log(c, WEIR_LOG_WARN, "waits for its place: %s", why);
	}
	if (h->pid_namespace && h->pid_namespace == q->pid_namespace && q->gone_pid != h->pid && process_is_gone(h->pid)) {
		q->gone_pid = h->pid;
		return true;
	}
	const uint32_t most_ms = patience_ms > HOLDER_PATIENCE_MS ? patience_ms : HOLDER_PATIENCE_MS;
	const int64_t waited_ms = client_now(c) - w->since_ms;
	const bool alive = h->heard && h->heard != w->heard;
	if (waited_ms >= (int64_t)(alive ? WEIR_PROGRESS_INTERVAL_MS : most_ms))
		return false;
	return pause_for(c, WEIR_PROGRESS_INTERVAL_MS / 4, true);
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
	q.client = c->token;
	q.pid_namespace = process_pid_namespace();
	q.tells_activity = true;
	dataset.fingerprint = c->options.dataset_fingerprint;
	dataset.units = c->options.dataset_units;
	dataset.rows = c->options.dataset_rows;
	dataset.unit_batches = c->options.dataset_unit_batches;
	if (c->options.role == WEIR_TRAINER)
		q.dataset = &dataset;
	q.passes = c->options.role == WEIR_TRAINER ? c->options.passes : 0;
	q.fingerprint = c->fingerprint ? c->fingerprint : q.fingerprint;
	q.accept = c->accept;
	q.n_accept = c->accept_count;
	uint32_t patience_ms = c->options.connect_timeout_ms ? c->options.connect_timeout_ms : WEIR_CONNECT_TIMEOUT_MS;
	if (again && patience_ms < c->patience_ms)
		patience_ms = c->patience_ms;
	struct waiting waiting = {0};
	weir_error own = {0};
	weir_status status;
	err = err ? err : &own;
	do
		status = ledger_call_patiently(c, RPC_JOIN, &q.base, patience_ms, &weir__v1__join_reply__descriptor, &reply, err);
	while (status == WEIR_E_EXISTS && c->holder.there && may_ask_again(c, &waiting, &q, patience_ms, err->text));
	if (status == WEIR_OK)
		status = take_join(c, (const Weir__V1__JoinReply *)reply, again, err);
	wire_destroy(reply);
	return status;
}
