#include "cli/profile/profile_ask.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/core/ledger_client.h"
#include "cli/core/transport.h"
#include "common/base/prng.h"
#include "common/system/process.h"

#define POLL_MS 100u
/* Until all workers have heard of a trace: a report, and its answer. */
#define LEAD_MS (WEIR_PROGRESS_INTERVAL_MS + 500u)
/* For workers to hand in their spans. */
#define PATIENCE_MS     15000u
#define SPANS_BYTES_MAX (1u << 30) /* of one process, in a server's answer */

struct asked_server {
	struct rpc_channel *channel;
	int64_t shift_ns; /* its clock + shift = this process's */
	uint64_t error_ns;
	uint32_t sources, complete; /* as it last said */
};

struct profile_asker {
	struct rpc *rpc;
	struct rpc_loop *loop;
	struct ledger_client *ledger;
	struct asked_server servers[WEIR_SERVERS_MAX]; /* (servers_count) */
	uint32_t servers_count;
	uint64_t session;
	uint8_t machine[16];
	struct profile_trainer *trainers; /* (trainers_count) */
	uint32_t trainers_count;
};

static void pause_ms(uint32_t ms)
{
	(void)nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000L}, NULL);
}

static int64_t now_ns(void)
{
	return clock_ns(clock_system());
}

/* --- The ledger */

static weir_status note_servers(struct profile_asker *a, const Weir__V1__LedgerStatus *s, weir_error *err)
{
	weir_status status = WEIR_OK;
	for (size_t i = a->servers_count; i < s->n_servers && i < WEIR_SERVERS_MAX && status == WEIR_OK; i++)
		if (s->servers[i][0]) {
			status = rpc_channel_open(&a->servers[a->servers_count].channel, a->rpc, a->loop, s->servers[i], err);
			a->servers_count += status == WEIR_OK;
		}
	return status;
}

static void note_trainer(struct profile_trainer *t, const Weir__V1__WorkerStatus *w)
{
	*t = (struct profile_trainer){.id = w->id, .rows = w->rows};
	snprintf(t->name, sizeof t->name, "%s", w->name);
}

static weir_status note_trainers(struct profile_asker *a, const Weir__V1__LedgerStatus *s, weir_error *err)
{
	free(a->trainers);
	a->trainers_count = 0;
	if (!(a->trainers = calloc(s->n_workers + 1, sizeof *a->trainers)))
		return weir_fail(err, WEIR_E_MEMORY, "no memory for a profile");
	for (size_t i = 0; i < s->n_workers; i++)
		if (s->workers[i]->live && s->workers[i]->role == WEIR__V1__ROLE__TRAINER)
			note_trainer(&a->trainers[a->trainers_count++], s->workers[i]);
	return WEIR_OK;
}

const struct profile_trainer *profile_ask_trainers(const struct profile_asker *a, uint32_t *count)
{
	*count = a->trainers_count;
	return a->trainers;
}

weir_status profile_ask_batches(struct profile_asker *a, uint64_t *batches, weir_error *err)
{
	const Weir__V1__StatusRequest q = WEIR__V1__STATUS_REQUEST__INIT;
	ProtobufCMessage *m = NULL;
	weir_status status = ledger_client_ask(a->ledger, RPC_JOB_STATUS, &q.base, WEIR_CONTROL_TIMEOUT_MS,
	                                       &weir__v1__ledger_status__descriptor, &m, err);
	if (status)
		return status;
	const Weir__V1__LedgerStatus *s = (const Weir__V1__LedgerStatus *)m;
	*batches = s->totals ? s->totals->batches : 0;
	if (s->state == WEIR__V1__LEASE_STATE__FINISHED || s->state == WEIR__V1__LEASE_STATE__FAILED)
		status = weir_fail(err, WEIR_E_STATE, "the job has %s: there is nothing to profile",
		                   s->state == WEIR__V1__LEASE_STATE__FINISHED ? "finished" : "failed");
	if (!status && !a->servers_count)
		status = note_servers(a, s, err);
	if (!status)
		status = note_trainers(a, s, err);
	wire_destroy(m);
	return status;
}

/* --- One server */

struct question {
	Weir__V1__TraceAction action;
	uint32_t duration_ms, source;
	uint64_t offset;
};

/* *out: free it with wire_destroy. */
static weir_status ask(const struct profile_asker *a, struct asked_server *s, const struct question *question,
                       const Weir__V1__TraceReply **out, weir_error *err)
{
	Weir__V1__TraceRequest q = WEIR__V1__TRACE_REQUEST__INIT;
	struct message *answer = NULL;
	ProtobufCMessage *m = NULL;
	q.action = question->action;
	q.session = a->session;
	q.duration_ms = question->duration_ms;
	q.source = question->source;
	q.offset = question->offset;
	*out = NULL;
	struct message *request = wire_pack(&q.base);
	weir_status status = request ? rpc_call_wait(s->channel, RPC_TRACE, request, WEIR_CONTROL_TIMEOUT_MS, &answer, err)
	                             : weir_fail(err, WEIR_E_MEMORY, "no memory for a request");
	if (!status)
		status = wire_unpack(&weir__v1__trace_reply__descriptor, answer, &m, err);
	message_release(answer);
	if (status)
		return status;
	const Weir__V1__TraceReply *r = (const Weir__V1__TraceReply *)m;
	s->sources = r->sources;
	s->complete = r->complete;
	if (r->status && r->status->code)
		status = weir_fail(err, (weir_status)r->status->code, "%s", r->status->text);
	if (status)
		wire_destroy(m);
	else
		*out = r;
	return status;
}

static weir_status tell(const struct profile_asker *a, struct asked_server *s, const struct question *question, weir_error *err)
{
	const Weir__V1__TraceReply *r;
	const weir_status status = ask(a, s, question, &r, err);
	wire_destroy((ProtobufCMessage *)(uintptr_t)r);
	return status;
}

/* Measures the distance of the server's clock. Of several measurements the fastest counts: the
 * server read its clock between the two readings here. Processes of one boot of a machine have one
 * clock. */
static weir_status measure(const struct profile_asker *a, struct asked_server *s, weir_error *err)
{
	s->error_ns = UINT64_MAX;
	for (uint32_t i = 0; i < WEIR_TRACE_CLOCK_CALLS; i++) {
		const Weir__V1__TraceReply *r;
		const int64_t before_ns = now_ns();
		const weir_status status = ask(a, s, &(struct question){.action = WEIR__V1__TRACE_ACTION__TRACE_CLOCK}, &r, err);
		const uint64_t error_ns = (uint64_t)(now_ns() - before_ns) / 2;
		if (status)
			return status;
		const int64_t shift_ns = before_ns + (int64_t)error_ns - r->clock_ns;
		const bool same = r->machine.len == sizeof a->machine && memcmp(r->machine.data, a->machine, r->machine.len) == 0 &&
		                  (uint64_t)llabs(shift_ns) <= error_ns;
		if (error_ns < s->error_ns) {
			s->shift_ns = same ? 0 : shift_ns;
			s->error_ns = same ? 0 : error_ns;
		}
		wire_destroy((ProtobufCMessage *)(uintptr_t)r);
	}
	return WEIR_OK;
}

/* --- Spans */

static weir_status add_piece(const Weir__V1__TraceReply *r, uint8_t **dump, size_t *bytes, weir_error *err)
{
	if (r->bytes_total > SPANS_BYTES_MAX || r->data.len == 0 || r->data.len > r->bytes_total - *bytes)
		return weir_fail(err, WEIR_E_CORRUPT, "a server sent %zu bytes at %zu of %llu", r->data.len, *bytes,
		                 (unsigned long long)r->bytes_total);
	uint8_t *more = realloc(*dump, *bytes + r->data.len);
	if (!more)
		return weir_fail(err, WEIR_E_MEMORY, "no memory for a trace");
	memcpy(more + *bytes, r->data.data, r->data.len);
	*dump = more;
	*bytes += r->data.len;
	return WEIR_OK;
}

static weir_status read_source(const struct profile_asker *a, struct asked_server *s, uint32_t source, struct profile *out,
                               weir_error *err)
{
	uint8_t *dump = NULL;
	size_t bytes = 0;
	uint64_t total = 1;
	weir_status status = WEIR_OK;
	while (!status && bytes < total) {
		const Weir__V1__TraceReply *r;
		status = ask(a, s, &(struct question){.action = WEIR__V1__TRACE_ACTION__TRACE_READ, .source = source, .offset = bytes},
		             &r, err);
		if (!status) {
			total = r->bytes_total;
			status = add_piece(r, &dump, &bytes, err);
		}
		wire_destroy((ProtobufCMessage *)(uintptr_t)r);
	}
	if (!status)
		status = profile_add(out, source == 0, dump, bytes, s->shift_ns, s->error_ns, err);
	free(dump);
	return status;
}

/* The spans of the server, once its trace has ended, and of the workers that have handed theirs
 * in. */
static weir_status read_server(const struct profile_asker *a, struct asked_server *s, struct profile *out, weir_error *err)
{
	weir_status status = read_source(a, s, 0, out, err);
	for (uint32_t source = 1; source < s->sources && !status; source++) {
		status = read_source(a, s, source, out, err);
		if (status == WEIR_E_NOT_CURRENT) { /* that worker has handed in nothing */
			err->status = WEIR_OK;
			status = WEIR_OK;
		}
	}
	return status;
}

/* --- All servers */

static weir_status tell_all(struct profile_asker *a, const struct question *question, weir_error *err)
{
	weir_status status = WEIR_OK;
	for (uint32_t i = 0; i < a->servers_count && !status; i++)
		status = tell(a, &a->servers[i], question, err);
	return status;
}

/* Whether every trace has ended and every live trainer has handed in its spans. */
static weir_status is_complete(struct profile_asker *a, bool *complete, weir_error *err)
{
	uint32_t handed_in = 0, open = 0;
	weir_status status = tell_all(a, &(struct question){.action = WEIR__V1__TRACE_ACTION__TRACE_CLOCK}, err);
	for (uint32_t i = 0; i < a->servers_count; i++) {
		const struct asked_server *s = &a->servers[i];
		handed_in += s->complete > 0 ? s->complete - 1 : 0;
		open += s->sources - s->complete;
	}
	*complete = !open && handed_in >= a->trainers_count;
	return status;
}

static weir_status await_spans(struct profile_asker *a, weir_error *err)
{
	const int64_t until_ns = now_ns() + PATIENCE_MS * 1000000ll;
	bool complete = false;
	weir_status status = is_complete(a, &complete, err);
	while (!status && !complete && now_ns() < until_ns) {
		pause_ms(POLL_MS);
		status = is_complete(a, &complete, err);
	}
	return status;
}

static void name_missing(const struct profile_asker *a, struct profile *p)
{
	size_t used = 0;
	for (uint32_t i = 0; i < a->trainers_count; i++) {
		bool found = false;
		for (uint32_t j = 0; j < p->count && !found; j++)
			found = !p->processes[j].is_server && strcmp(p->processes[j].is.name, a->trainers[i].name) == 0;
		if (!found && used < sizeof p->missing)
			used += (size_t)snprintf(p->missing + used, sizeof p->missing - used, "%s%s", used ? ", " : "", a->trainers[i].name);
	}
}

static weir_status trace(struct profile_asker *a, uint32_t duration_ms, struct profile *out, weir_error *err)
{
	uint64_t batches;
	weir_status status = WEIR_OK;
	for (uint32_t i = 0; i < a->servers_count && !status; i++)
		status = measure(a, &a->servers[i], err);
	if (!status)
		status = tell_all(
		    a, &(struct question){.action = WEIR__V1__TRACE_ACTION__TRACE_BEGIN, .duration_ms = duration_ms + LEAD_MS}, err);
	if (status)
		return status;
	pause_ms(duration_ms + LEAD_MS + POLL_MS);
	status = profile_ask_batches(a, &batches, err);
	if (status == WEIR_E_STATE)
		return weir_fail(err, status, "the job has ended while it was traced: trace fewer seconds, or train more passes");
	if (!status)
		status = await_spans(a, err);
	for (uint32_t i = 0; i < a->servers_count && !status; i++)
		status = read_server(a, &a->servers[i], out, err);
	if (status)
		return status;
	name_missing(a, out);
	return profile_finish(out, err);
}

weir_status profile_ask_trace(struct profile_asker *a, uint32_t duration_ms, struct profile *out, weir_error *err)
{
	uint64_t batches;
	*out = (struct profile){0};
	weir_status status = profile_ask_batches(a, &batches, err);
	if (status)
		return status;
	do
		a->session = entropy_system()->ops->u64(entropy_system());
	while (a->session == 0);
	status = trace(a, duration_ms, out, err);
	weir_error ignored = {0};
	if (status != WEIR_E_BUSY)
		(void)tell_all(a, &(struct question){.action = WEIR__V1__TRACE_ACTION__TRACE_END}, &ignored);
	return status;
}

/* --- Life */

weir_status profile_ask_open(struct profile_asker **out, const struct job *job, const char *places, struct logger *logger,
                             weir_error *err)
{
	struct profile_asker *a = *out = calloc(1, sizeof *a);
	if (!a)
		return weir_fail(err, WEIR_E_MEMORY, "no memory for a profile");
	(void)process_machine_boot(a->machine);
	weir_status status = transport_open(&a->rpc, job, logger, err);
	if (!status && !(a->loop = rpc_loop_create(a->rpc, "profile", err)))
		status = WEIR_E_MEMORY;
	return status ? status : ledger_client_open(&a->ledger, a->rpc, a->loop, places, err);
}

void profile_ask_close(struct profile_asker *a)
{
	if (!a)
		return;
	for (uint32_t i = 0; i < a->servers_count; i++)
		rpc_channel_close(a->servers[i].channel);
	ledger_client_close(a->ledger);
	if (a->loop)
		rpc_loop_destroy(a->loop);
	if (a->rpc)
		rpc_destroy(a->rpc);
	free(a->trainers);
	free(a);
}
