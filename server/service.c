/* weir.v1.ParameterServer, the Ledger's door and grpc.health.v1: what the transport calls. */
#include "service.h"

#include "server_internal.h"

static void on_unary(void *ctx, struct rpc_call *call, enum rpc_method method, struct message *request)
{
	struct server *s = ctx;
	if (forward_is_ledger_method(method)) {
		forward_to_ledger(s, call, method, request);
		return;
	}
	switch (method) {
	case RPC_PUSH:
	case RPC_PULL:
	case RPC_SEAL:
	case RPC_ASSIGN: {
		struct sink *k = sink_create(server_executor_of_loop(s, rpc_call_loop(call)), NULL, call, method);
		if (k)
			dispatch_message(k, request);
		else
			rpc_call_reply(call, WEIR_E_MEMORY, "out of memory", NULL);
		break;
	}
	case RPC_REGISTER_TABLE:
		control_register_table(s, call, request);
		break;
	case RPC_SCAN:
		control_scan(s, call, request);
		break;
	case RPC_STATUS:
		control_status(s, call, request);
		break;
	case RPC_CHECKPOINT:
	case RPC_CHECKPOINT_BEGIN:
	case RPC_CHECKPOINT_POLL:
		control_checkpoint(s, call, method, request);
		break;
	case RPC_HEALTH_CHECK:
		control_health(s, call, request);
		break;
	default:
		rpc_call_reply(call, WEIR_E_UNSUPPORTED, "this server does not offer that method", NULL);
	}
}

static void *on_stream_open(void *ctx, struct rpc_stream *stream, enum rpc_method method)
{
	struct server *s = ctx;
	struct sink *k = sink_create(server_executor_of_loop(s, rpc_stream_loop(stream)), stream, NULL, method);
	if (!k)
		rpc_stream_cancel(stream, WEIR_E_MEMORY, "out of memory");
	else if (atomic_load(&s->draining))
		sink_finish(k);
	return k;
}

static void on_stream_message(void *arg, struct rpc_stream *stream, struct message *m)
{
	(void)stream;
	if (arg)
		dispatch_message(arg, m);
}

static void on_stream_finished(void *arg, struct rpc_stream *stream)
{
	(void)stream;
	if (arg)
		sink_finish(arg);
}

static void on_stream_closed(void *arg, struct rpc_stream *stream, weir_status status)
{
	(void)stream;
	(void)status;
	if (arg)
		sink_closed(arg);
}

static void on_stream_writable(void *arg, struct rpc_stream *stream)
{
	(void)stream;
	if (arg)
		sink_writable(arg);
}

const struct rpc_service *service_handlers(void)
{
	static const struct rpc_service handlers = {
	    .unary = on_unary,
	    .stream_open = on_stream_open,
	    .stream_message = on_stream_message,
	    .stream_finished = on_stream_finished,
	    .stream_closed = on_stream_closed,
	    .stream_writable = on_stream_writable,
	};
	return &handlers;
}
