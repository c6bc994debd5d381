/* A server process for tests that kill or stop it: echoes streams, parks LEASE, prints its
 * address. */
#include <stdio.h>
#include <unistd.h>

#include "proto/rpc/rpc.h"

static void unary(void *ctx, struct rpc_call *call, enum rpc_method method, struct message *request)
{
	(void)ctx;
	if (method != RPC_LEASE)
		rpc_call_reply(call, WEIR_OK, NULL, message_retain(request));
}
static void stream_message(void *arg, struct rpc_stream *stream, struct message *m)
{
	(void)arg;
	if (rpc_stream_send(stream, message_retain(m)))
		_exit(3);
}
static void stream_closed(void *arg, struct rpc_stream *stream, weir_status status, const char *text)
{
	(void)arg, (void)stream, (void)status, (void)text;
}
static const struct rpc_stream_handler *stream_open(void *ctx, struct rpc_stream *stream, enum rpc_method method, void **arg)
{
	static const struct rpc_stream_handler handler = {.message = stream_message, .closed = stream_closed};
	(void)ctx, (void)stream, (void)method, (void)arg;
	return &handler;
}

int main(int argc, char **argv)
{
	static const struct rpc_service service = {.unary = unary, .stream_open = stream_open};
	weir_error err = {0};
	struct rpc_server *server;
	struct rpc *rpc = rpc_grpc_create(NULL);
	struct rpc_loop *loop = rpc_loop_create(rpc, "server", &err);
	if (argc != 2 || !loop || rpc_server_start(&server, rpc, argv[1], &loop, 1, &service, NULL, &err)) {
		fprintf(stderr, "%s\n", err.text);
		return 1;
	}
	printf("%s\n", rpc_server_address(server));
	fflush(stdout);
	char byte;
	ssize_t n = read(STDIN_FILENO, &byte, 1); /* until the test closes the pipe or dies */
	return n < 0;
}
