/* The ledger's calls: unpacked here, handed to the ledger on its own loop, answered from there. */
#include <stdlib.h>

#include "ledger_log.h"
#include "server_internal.h"

/* X(method, ledger function, request type, request descriptor) */
#define FORWARD_MAP(X)                                                             \
	X(JOIN, ledger_join, JoinRequest, join_request)                                \
	X(CREATE_TABLE, ledger_create_table, CreateTableRequest, create_table_request) \
	X(LEASE, ledger_lease, LeaseRequest, lease_request)                            \
	X(PROGRESS, ledger_progress, ProgressRequest, progress_request)                \
	X(STEP, ledger_step, StepRequest, step_request)                                \
	X(COMMIT, ledger_commit, CommitRequest, commit_request)                        \
	X(GATE, ledger_gate, GateRequest, gate_request)                                \
	X(LEAVE, ledger_leave, LeaveRequest, leave_request)                            \
	X(JOB_STATUS, ledger_status, StatusRequest, status_request)

/* A call that the ledger has not answered yet. */
struct forwarded {
	struct server *server;
	struct rpc_call *call;
	enum rpc_method method;
	ProtobufCMessage *request;
	struct message *reply;  /* waits until what it says is durable, as a rule; NULL: out of memory */
	struct forwarded *next; /* held */
};

static const ProtobufCMessageDescriptor *request_descriptor(enum rpc_method method)
{
	switch (method) {
#define FORWARD_DESCRIPTOR(name, function, type, descriptor) \
	case RPC_##name:                                         \
		return &weir__v1__##descriptor##__descriptor;
		FORWARD_MAP(FORWARD_DESCRIPTOR)
#undef FORWARD_DESCRIPTOR
	default:
		return NULL;
	}
}

bool forward_is_ledger_method(enum rpc_method method)
{
	return request_descriptor(method) != NULL;
}

static void send_reply(void *arg)
{
	struct forwarded *f = arg;
	struct server *s = f->server;
	rpc_call_reply(f->call, f->reply ? WEIR_OK : WEIR_E_MEMORY, f->reply ? "" : "the reply does not fit in memory", f->reply);
	free(f);
	server_leave(s);
}

static void drop_reply(void *arg)
{
	struct forwarded *f = arg;
	struct server *s = f->server;
	message_release(f->reply);
	rpc_call_reply(f->call, WEIR_E_UNAVAILABLE, "the server is stopping", NULL);
	free(f);
	server_leave(s);
}

void forward_commit(struct server *s)
{
	if (!s->ledger_log)
		return;
	ledger_log_commit(s->ledger_log);
	if (atomic_load(&s->draining) &&
	    ledger_log_is_blocked(s->ledger_log)) /* who waits for space would keep the server from stopping */
		ledger_log_abandon(s->ledger_log, drop_reply);
}

/* Whoever looks at a job is answered also while a full disk holds up everybody else: that is what there is to see. Not that the job is finished, on
 * which one acts. */
static bool may_be_told_early(const struct forwarded *f, const ProtobufCMessage *reply)
{
	return f->method == RPC_JOB_STATUS && ledger_log_is_blocked(f->server->ledger_log) &&
	       ((const Weir__V1__LedgerStatus *)reply)->state != WEIR__V1__LEASE_STATE__FINISHED;
}

static void on_reply(void *arg, const ProtobufCMessage *reply)
{
	struct forwarded *f = arg;
	struct server *s = f->server;
	f->reply = wire_pack(reply);
	if (s->ledger_log && !may_be_told_early(f, reply))
		ledger_log_reply(s->ledger_log, send_reply, f);
	else
		send_reply(f);
}

static void run_forwarded(struct forwarded *f)
{
	ProtobufCMessage *q = f->request; /* f may be gone when the call returns */
	struct server *s = f->server;
	struct ledger *l = s->ledger;
	switch (f->method) {
#define FORWARD_CALL(name, function, type, descriptor)         \
	case RPC_##name:                                           \
		function(l, (const Weir__V1__##type *)q, on_reply, f); \
		break;
		FORWARD_MAP(FORWARD_CALL)
#undef FORWARD_CALL
	default:
		break;
	}
	wire_free(q);
	forward_commit(s);
}

static void call_ledger(void *arg)
{
	struct forwarded *f = arg;
	struct server *s = f->server;
	if (!s->ledger_held) {
		run_forwarded(f);
		return;
	}
	*s->held_last = f;
	s->held_last = &f->next;
}

void forward_hold(struct server *s)
{
	s->ledger_held = true;
	s->held = NULL;
	s->held_last = &s->held;
}

void forward_release(struct server *s)
{
	struct forwarded *f = s->held;
	s->ledger_held = false;
	s->held = NULL;
	for (struct forwarded *next; f; f = next) {
		next = f->next;
		run_forwarded(f);
	}
}

void forward_to_ledger(struct server *s, struct rpc_call *call, enum rpc_method method, struct message *request)
{
	weir_error err = {0};
	struct forwarded *f = NULL;
	ProtobufCMessage *q = NULL;
	if (!s->ledger)
		weir_fail(&err, WEIR_E_NOT_FOUND, "%s does not host the ledger; server 0 does", s->name);
	else if (wire_unpack(request_descriptor(method), request, &q, &err) == WEIR_OK && !(f = malloc(sizeof *f)))
		weir_fail(&err, WEIR_E_MEMORY, "out of memory");
	if (err.status) {
		wire_free(q);
		rpc_call_reply(call, err.status, err.text, NULL);
		return;
	}
	*f = (struct forwarded){.server = s, .call = call, .method = method, .request = q};
	server_enter(s);
	rpc_loop_post(s->ledger_loop, call_ledger, f);
}
