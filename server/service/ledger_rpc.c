/* The ledger's calls: unpacked here, handed to the ledger on its own loop, answered from there. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include "server/ledger/ledger_log.h"
#include "server/log/journal.h"
#include "server/replica/replica.h"
#include "server/service/ledger_role.h"
#include "server/service/server_internal.h"
#include "server/service/trace_session.h"

/* X(method, ledger function, request type, request descriptor) */
#define FORWARD_MAP(X)                                                             \
	X(JOIN, join, JoinRequest, join_request)                                       \
	X(CREATE_TABLE, ledger_create_table, CreateTableRequest, create_table_request) \
	X(LEASE, ledger_lease, LeaseRequest, lease_request)                            \
	X(PROGRESS, ledger_progress, ProgressRequest, progress_request)                \
	X(STEP, ledger_step, StepRequest, step_request)                                \
	X(CLOCK, ledger_clock, ClockRequest, clock_request)                            \
	X(COMMIT, ledger_commit, CommitRequest, commit_request)                        \
	X(GATE, ledger_gate, GateRequest, gate_request)                                \
	X(LEAVE, ledger_leave, LeaveRequest, leave_request)                            \
	X(MARK, ledger_server_mark, MarkRequest, mark_request)                         \
	X(JOB_STATUS, ledger_status, StatusRequest, status_request)

#define JOB_FIRST(name, function, type, descriptor)                                         \
	_Static_assert(offsetof(Weir__V1__##type, job) == offsetof(Weir__V1__JoinRequest, job), \
	               #type " must name its job where others do");
FORWARD_MAP(JOB_FIRST)
#undef JOB_FIRST

/* A call that the ledger has not answered yet. */
struct forwarded {
	struct server *server;
	struct rpc_call *call;
	enum rpc_method method;
	ProtobufCMessage *request;
	struct rpc_peer *peer;  /* of a join; else NULL */
	struct message *reply;  /* usually waits until its contents are durable; NULL: out of memory */
	struct forwarded *next; /* in the list of held calls */
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

bool ledger_rpc_is_ledger_method(enum rpc_method method)
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

bool ledger_rpc_is_open(const struct server *s)
{
	return !s->ledger_held && !s->ledger_paused && ledger_role_serves(s);
}

void ledger_rpc_commit(struct server *s)
{
	if (!s->ledger_log || s->ledger_paused)
		return;
	ledger_log_commit(s->ledger_log);
	/* A call that waits for space would keep the server from stopping. */
	if (atomic_load(&s->draining) && ledger_log_is_blocked(s->ledger_log))
		ledger_log_abandon(s->ledger_log, drop_reply);
}

/* A job status is answered even while a full disk holds up all other calls, because that is the
 * state to see. Not if it says that the job is finished: callers act on that. */
static bool may_be_told_early(const struct forwarded *f, const ProtobufCMessage *reply)
{
	return f->method == RPC_JOB_STATUS && ledger_log_is_blocked(f->server->ledger_log) &&
	       ((const Weir__V1__LedgerStatus *)reply)->state != WEIR__V1__LEASE_STATE__FINISHED;
}

struct joining {
	const Weir__V1__JoinReply *reply;
	struct message *packed;
};

static void pack_with_map(void *arg, const Weir__V1__PartitionMap *map)
{
	struct joining *j = arg;
	Weir__V1__JoinReply reply = *j->reply;
	reply.map = (Weir__V1__PartitionMap *)(uintptr_t)map;
	j->packed = wire_pack(&reply.base);
}

/* Adds the partition map to a join's reply: the ledger does not know it. */
static struct message *pack_join(const struct server *s, const Weir__V1__JoinReply *reply)
{
	struct joining j = {.reply = reply};
	partition_map_show(s->map, pack_with_map, &j);
	return j.packed;
}

struct telling {
	Weir__V1__LedgerStatus reply;
	struct message *packed;
};

/* Only the map has servers that were added to the job. */
static void pack_with_servers(void *arg, const Weir__V1__PartitionMap *map)
{
	struct telling *t = arg;
	if (map->n_servers > t->reply.n_servers) {
		t->reply.servers = map->servers;
		t->reply.n_servers = map->n_servers;
	}
	t->packed = wire_pack(&t->reply.base);
}

/* Adds other facts that the ledger does not know: its own server, its replicas, and the present
 * servers. */
static struct message *pack_status(const struct server *s, const Weir__V1__LedgerStatus *reply)
{
	const struct replica_record *record = ledger_role_record(s);
	struct telling t = {.reply = *reply};
	uint32_t members[WEIR_REPLICAS_MAX];
	t.reply.server = s->options.index;
	t.reply.members = members;
	t.reply.n_members = record ? record->isr.count : 0;
	t.reply.epoch = record ? record->epoch : 0;
	t.reply.checkpoint = (char *)(uintptr_t)s->restored;
	t.reply.rewound = (char *)(uintptr_t)s->rewound.why;
	for (size_t i = 0; i < t.reply.n_members; i++)
		members[i] = record->isr.ids[i];
	partition_map_show(s->map, pack_with_servers, &t);
	return t.packed;
}

/* Adds the order to trace: the ledger knows nothing of it. */
static struct message *pack_progress(const struct server *s, const Weir__V1__ProgressReply *reply)
{
	Weir__V1__ProgressReply with = *reply;
	Weir__V1__TraceOrder order;
	if (trace_session_order(s->trace_session, &order))
		with.trace = &order;
	return wire_pack(&with.base);
}

static struct message *pack_reply(const struct forwarded *f, const ProtobufCMessage *reply)
{
	if (f->method == RPC_PROGRESS)
		return pack_progress(f->server, (const Weir__V1__ProgressReply *)reply);
	if (f->method == RPC_JOIN)
		return pack_join(f->server, (const Weir__V1__JoinReply *)reply);
	if (f->method == RPC_JOB_STATUS)
		return pack_status(f->server, (const Weir__V1__LedgerStatus *)reply);
	return wire_pack(reply);
}

/* --- The ledger is on another server */

static void moved_text(const struct server *s, char *text, size_t bytes)
{
	uint64_t revision;
	const struct partition_place place = partition_map_find(s->map, JOURNAL_LEDGER, &revision);
	if (place.server < server_servers_max(s) && place.server != s->options.index)
		snprintf(text, bytes, "the ledger is not on %s: server %u has it", s->name, place.server);
	else
		snprintf(text, bytes, "the ledger is not on %s, and no other server is known to have it now", s->name);
}

/* Adds the map to the reply: the joining worker does not know the job yet, and so cannot ask for
 * it. */
static struct message *pack_moved_join(const struct server *s, const char *text)
{
	Weir__V1__JoinReply reply = WEIR__V1__JOIN_REPLY__INIT;
	Weir__V1__Status status = WEIR__V1__STATUS__INIT;
	status.code = WEIR_E_MOVED;
	status.text = (char *)(uintptr_t)text;
	reply.status = &status;
	return pack_join(s, &reply);
}

void ledger_rpc_refuse_moved(const struct server *s, struct rpc_call *call, enum rpc_method method)
{
	char text[WEIR_NAME_BYTES_MAX + 96];
	moved_text(s, text, sizeof text);
	struct message *reply = method == RPC_JOIN ? pack_moved_join(s, text) : NULL;
	rpc_call_reply(call, reply ? WEIR_OK : WEIR_E_MOVED, reply ? "" : text, reply);
}

void ledger_rpc_drop_moved(void *forwarded)
{
	struct forwarded *f = forwarded;
	struct server *s = f->server;
	message_release(f->reply);
	ledger_rpc_refuse_moved(s, f->call, f->method);
	free(f);
	server_leave(s);
}

/* --- Calls to the ledger and back */

static void on_reply(void *arg, const ProtobufCMessage *reply)
{
	struct forwarded *f = arg;
	struct server *s = f->server;
	f->reply = pack_reply(f, reply);
	if (s->ledger_log && !may_be_told_early(f, reply))
		ledger_log_reply(s->ledger_log, send_reply, f);
	else
		send_reply(f);
}

static void join(struct ledger *l, const Weir__V1__JoinRequest *q, ledger_reply_fn reply, void *arg)
{
	const struct rpc_peer *p = ((struct forwarded *)arg)->peer;
	const struct ledger_peer peer = {
	    .address = p->address, .connection = p->connection, .role = p->who.role, .name = p->who.name};
	ledger_join(l, q, &peer, reply, arg);
}

static void run_forwarded(struct forwarded *f)
{
	struct rpc_peer *peer = f->peer;
	ProtobufCMessage *q = f->request; /* f may be gone when the call returns */
	struct server *s = f->server;
	struct ledger *l = s->ledger;
	const struct trace_what what = {.kind = TRACE_LEDGER, .op = (uint16_t)f->method};
	const int64_t begun_ns = trace_begin(s->trace);
	server_ledger_ran(s);
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
	wire_destroy(q);
	free(peer);
	ledger_rpc_commit(s);
	trace_end(s->trace, begun_ns, &what);
}

/* Drops a call that the ledger has not seen. */
static void drop_call(struct forwarded *f)
{
	wire_destroy(f->request);
	free(f->peer);
	ledger_rpc_drop_moved(f);
}

static void call_ledger(void *arg)
{
	struct forwarded *f = arg;
	struct server *s = f->server;
	if (!ledger_role_serves(s)) {
		drop_call(f);
	} else if (ledger_rpc_is_open(s)) {
		run_forwarded(f);
	} else {
		f->next = NULL;
		*(s->held ? s->held_last : &s->held) = f;
		s->held_last = &f->next;
	}
}

void ledger_rpc_hold(struct server *s)
{
	s->ledger_held = true;
}

/* One of these calls may be the last that this server answers. */
void ledger_rpc_go_on(struct server *s)
{
	while (s->held && ledger_rpc_is_open(s)) {
		struct forwarded *f = s->held;
		s->held = f->next;
		run_forwarded(f);
	}
}

void ledger_rpc_release(struct server *s)
{
	s->ledger_held = false;
	ledger_rpc_go_on(s);
}

void ledger_rpc_drop_held(struct server *s)
{
	struct forwarded *f = s->held;
	s->held = NULL;
	for (struct forwarded *next; f; f = next) {
		next = f->next;
		drop_call(f);
	}
}

/* A caller that knows another process id of the ledger's server belongs to a job that this process
 * has never heard of. */
static weir_status check_ledger(struct server *s, const ProtobufCMessage *q, weir_error *err)
{
	const Weir__V1__JobId *job = ((const Weir__V1__JoinRequest *)q)->job;
	return job ? server_check_ledger_process_id(s, job->process_id, err) : WEIR_OK;
}

void forward_to_ledger(struct server *s, struct rpc_call *call, enum rpc_method method, struct message *request)
{
	weir_error err = {0};
	struct forwarded *f = NULL;
	ProtobufCMessage *q = NULL;
	if (!s->ledger_loop && server_is_replicated(s)) {
		ledger_rpc_refuse_moved(s, call, method);
		return;
	}
	if (!s->ledger_loop)
		weir_fail(&err, WEIR_E_NOT_FOUND, "%s does not host the ledger; server 0 does", s->name);
	else if (wire_unpack(request_descriptor(method), request, &q, &err) == WEIR_OK && check_ledger(s, q, &err) == WEIR_OK &&
	         (!(f = calloc(1, sizeof *f)) || (method == RPC_JOIN && !(f->peer = malloc(sizeof *f->peer)))))
		weir_fail(&err, WEIR_E_MEMORY, "out of memory");
	if (err.status) {
		free(f);
		wire_destroy(q);
		rpc_call_reply(call, err.status, err.text, NULL);
		return;
	}
	*f = (struct forwarded){.server = s, .call = call, .method = method, .request = q, .peer = f->peer};
	if (f->peer)
		rpc_call_peer(call, f->peer);
	server_enter(s);
	rpc_loop_post(s->ledger_loop, call_ledger, f);
}
