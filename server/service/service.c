/* weir.v1.ParameterServer, the Ledger's entry point and grpc.health.v1: the handlers that the
 * transport calls. */
#include "server/service/service.h"

#include "server/checkpoint/rewind.h"
#include "server/cluster/heartbeat_loop.h"
#include "server/cluster/roles.h"
#include "server/service/server_internal.h"
#include "server/snapshot/ledger_snapshot.h"

static void data_call(struct server *s, struct rpc_call *call, enum rpc_method method, struct message *request)
{
	struct rpc_peer peer;
	rpc_call_peer(call, &peer);
	struct reply_stream *k = reply_stream_create(server_executor_of_loop(s, rpc_call_loop(call)), NULL, call, method);
	if (!k) {
		rpc_call_reply(call, WEIR_E_MEMORY, "out of memory", NULL);
		return;
	}
	k->reads_only = peer.who.role == ROLE_EVALUATOR;
	dispatch_message(k, request);
}

static void on_unary(void *ctx, struct rpc_call *call, enum rpc_method method, struct message *request)
{
	struct server *s = ctx;
	if (ledger_rpc_is_ledger_method(method)) {
		forward_to_ledger(s, call, method, request);
		return;
	}
	switch (method) {
	case RPC_PUSH:
	case RPC_PULL:
	case RPC_SEAL:
	case RPC_ASSIGN:
		data_call(s, call, method, request);
		break;
	case RPC_REGISTER_TABLE:
		control_register_table(s, call, request);
		break;
	case RPC_SCAN:
		control_scan(s, call, request);
		break;
	case RPC_STATUS:
		control_status(s, call, request);
		break;
	case RPC_MAP:
		control_map(s, call, request);
		break;
	case RPC_SCRUB:
		control_scrub(s, call, request);
		break;
	case RPC_LAYOUT:
		control_layout(s, call, request);
		break;
	case RPC_PLACE:
		control_place(s, call, request);
		break;
	case RPC_REWIND:
		rewind_ask(s, call, request);
		break;
	case RPC_CHECKPOINT:
	case RPC_CHECKPOINT_BEGIN:
	case RPC_CHECKPOINT_POLL:
		control_checkpoint(s, call, method, request);
		break;
	case RPC_TRACE:
		control_trace(s, call, request);
		break;
	case RPC_TRACE_UPLOAD:
		control_trace_upload(s, call, request);
		break;
	case RPC_LEDGER_STATE:
		ledger_snapshot_serve(s, call, request);
		break;
	case RPC_HEALTH_CHECK:
		control_health(s, call, request);
		break;
	default:
		rpc_call_reply(call, WEIR_E_UNSUPPORTED, "this server does not offer that method", NULL);
	}
}

/* --- Data streams of clients */

static void on_data(void *arg, struct rpc_stream *stream, struct message *m)
{
	(void)stream;
	dispatch_message(arg, m);
}

static void on_data_finished(void *arg, struct rpc_stream *stream)
{
	(void)stream;
	reply_stream_finish(arg);
}

static void on_data_closed(void *arg, struct rpc_stream *stream, weir_status status, const char *text)
{
	(void)stream, (void)status, (void)text;
	reply_stream_closed(arg);
}

static void on_data_writable(void *arg, struct rpc_stream *stream)
{
	(void)stream;
	reply_stream_writable(arg);
}

static const struct rpc_stream_handler *data_open(struct server *s, struct rpc_stream *stream, enum rpc_method method, void **arg)
{
	static const struct rpc_stream_handler handler = {
	    .message = on_data, .writable = on_data_writable, .closed = on_data_closed, .finished = on_data_finished};
	struct reply_stream *k = reply_stream_create(server_executor_of_loop(s, rpc_stream_loop(stream)), stream, NULL, method);
	if (!k) {
		rpc_stream_cancel(stream, WEIR_E_MEMORY, "out of memory");
		return NULL;
	}
	k->reads_only = rpc_stream_role(stream) == ROLE_EVALUATOR;
	if (atomic_load(&s->draining))
		reply_stream_finish(k);
	*arg = k;
	return &handler;
}

/* --- Streams */

static const struct rpc_stream_handler *on_stream_open(void *ctx, struct rpc_stream *stream, enum rpc_method method, void **arg)
{
	struct server *s = ctx;
	switch (method) {
	case RPC_PUSH_STREAM:
	case RPC_PULL_STREAM:
		return data_open(ctx, stream, method, arg);
	case RPC_LINK:
		return roles_open_link(s, stream, arg);
	case RPC_SNAPSHOT:
		return roles_open_snapshot(s, stream, arg);
	case RPC_HEARTBEAT:
		return s->detector ? heartbeat_loop_open(s->detector, stream, arg) : NULL;
	default:
		return NULL;
	}
}

const struct rpc_service *service_handlers(void)
{
	static const struct rpc_service handlers = {
	    .unary = on_unary,
	    .stream_open = on_stream_open,
	};
	return &handlers;
}
