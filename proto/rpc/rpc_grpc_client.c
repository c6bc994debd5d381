/* Clients over gRPC. A channel has two connections, one for control calls and one, with a minimal
 * stack, for data streams; each is opened at first use. A channel to a foreign server has one for
 * both: while a stream lives, a call finds its connection. */
#include "proto/rpc/rpc_grpc.h"

#include <assert.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <grpc/byte_buffer.h>
#include <grpc/grpc_security.h>
#include <grpc/slice.h>
#include <grpc/support/alloc.h>

#include "proto/rpc/rpc_address.h"

struct grpc_client {
	struct rpc_channel base;
	grpc_channel *control, *data; /* NULL until used; loop's thread only */
	uint32_t version;             /* of the certificates that they use */
	struct grpc_lane_facts lanes;
};

struct grpc_lane_facts *grpc_client_lanes(struct rpc_channel *channel)
{
	return &((struct grpc_client *)channel)->lanes;
}

static grpc_channel *connect_to(const struct rpc_channel *to, bool data)
{
	grpc_arg args[GRPC_ARGS_COMMON + 10];
	size_t n = grpc_args_common(args, to->foreign ? INT_MAX : (int)WEIR_KEEPALIVE_MS);
	args[n++] = grpc_arg_number(GRPC_ARG_ENABLE_RETRIES, 0);
	args[n++] = grpc_arg_number(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
	args[n++] = grpc_arg_number(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);
	args[n++] = grpc_arg_number(GRPC_ARG_INHIBIT_HEALTH_CHECKING, 1);
	/* Do not share connections. */
	args[n++] = grpc_arg_number(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
	/* Also the time allowed to connect. */
	args[n++] = grpc_arg_number(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, WEIR_CONNECT_ATTEMPT_MS);
	args[n++] = grpc_arg_number(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
	args[n++] = grpc_arg_number(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
	args[n++] = grpc_arg_number(GRPC_ARG_MINIMAL_STACK, data);
	assert(n <= sizeof args / sizeof *args);
	grpc_channel_args list = {n, args};
	struct grpc_tls *tls = grpc_tls_of(to);
	grpc_channel_credentials *credentials = tls ? grpc_tls_client(tls, to->foreign) : grpc_insecure_credentials_create();
	char target[RPC_URI_BYTES];
	rpc_address_uri(to->address, target);
	grpc_channel *channel = grpc_channel_create(target, credentials, &list);
	grpc_channel_credentials_release(credentials);
	return channel;
}

struct rpc_channel *grpc_client_new(struct rpc *rpc)
{
	(void)rpc;
	return calloc(1, sizeof(struct grpc_client));
}

weir_status grpc_client_open(struct rpc_channel *channel, weir_error *err)
{
	const char *a = channel->address;
	bool local = strncmp(a, "unix:", 5) == 0 && a[5];
	const char *colon = strrchr(a, ':');
	if (!local && (strncmp(a, "unix:", 5) == 0 || strncmp(a, "memory:", 7) == 0 || !colon || colon == a || !colon[1]))
		return weir_fail(err, WEIR_E_INVALID, "address '%s': expected HOST:PORT or unix:/path", a);
	if (channel->tls && !grpc_tls_of(channel))
		return weir_fail(err, WEIR_E_INVALID,
		                 "%s: is to be spoken to by TLS; give certificates (security.certificate, key and ca)", a);
	return grpc_tls_of(channel) ? WEIR_OK : grpc_check_plain(channel->rpc, a, err);
}

/* Calls and streams in progress continue. */
static void disconnect(struct grpc_client *c)
{
	if (c->control)
		grpc_channel_destroy(c->control);
	if (c->data)
		grpc_channel_destroy(c->data);
	c->control = c->data = NULL;
}

void grpc_client_destroy(struct rpc_channel *channel)
{
	disconnect((struct grpc_client *)channel);
	free(channel);
}

static void show_what_is_new(struct grpc_client *c)
{
	struct grpc_tls *tls = grpc_tls_of(&c->base);
	const uint32_t version = tls ? grpc_tls_current(tls) : 0;
	if (version != c->version)
		disconnect(c);
	c->version = version;
}

static grpc_call *new_call(struct rpc_channel *channel, enum rpc_method method, gpr_timespec deadline)
{
	struct grpc_client *c = (struct grpc_client *)channel;
	bool data = rpc_method_is_stream(method) && !channel->foreign;
	show_what_is_new(c);
	grpc_channel **connection = data ? &c->data : &c->control;
	if (!*connection)
		*connection = connect_to(channel, data);
	return grpc_channel_create_call(*connection, NULL, GRPC_PROPAGATE_DEFAULTS, grpc_loop_cq(channel->loop),
	                                grpc_slice_from_static_string(rpc_method_path(method)), NULL, deadline, NULL);
}

/* --- Unary */

struct attempt {
	struct rpc_tag tag;
	struct rpc_client_call *owner;
	grpc_call *call;
	grpc_metadata_array initial, trailing;
	grpc_byte_buffer *reply;
	grpc_status_code status;
	grpc_slice details;
};

/* Where gRPC has found the server: a lane goes there too. */
static void note_peer(struct rpc_channel *channel, grpc_call *call)
{
	struct grpc_lane_facts *facts = grpc_client_lanes(channel);
	char *peer = grpc_call_get_peer(call);
	snprintf(facts->peer, sizeof facts->peer, "%s", peer);
	gpr_free(peer);
}

static void attempt_done(struct rpc_tag *tag, bool ok)
{
	struct attempt *a = (struct attempt *)tag;
	struct rpc_client_call *owner = a->owner;
	char text[WEIR_ERROR_TEXT_BYTES];
	bool silent;
	(void)ok; /* receiving a status always succeeds */
	weir_status status = grpc_status_read(a->status, a->details, owner->channel, owner->method, text, sizeof text, &silent);
	bool arrived = a->reply != NULL;
	struct message *reply = arrived ? grpc_buffer_message(a->reply) : NULL;
	if (status == WEIR_OK && !reply) {
		status = arrived ? WEIR_E_MEMORY : WEIR_E_INTERNAL;
		snprintf(text, sizeof text, "%s %s: %s", owner->channel->address, rpc_method_path(owner->method),
		         arrived ? "out of memory for the reply" : "no message in the reply");
	}
	if (owner->method == RPC_LANE)
		note_peer(owner->channel, a->call);
	grpc_metadata_array_destroy(&a->initial);
	grpc_metadata_array_destroy(&a->trailing);
	grpc_slice_unref(a->details);
	grpc_call_unref(a->call);
	free(a);
	rpc_call_on_finish(owner, status, text, silent, reply);
	message_release(reply);
}

void grpc_client_attempt(struct rpc_client_call *call, int64_t timeout_ns)
{
	struct attempt *a = calloc(1, sizeof *a);
	if (!a) {
		rpc_call_on_finish(call, WEIR_E_MEMORY, "out of memory for a call", false, NULL);
		return;
	}
	a->tag.fn = attempt_done;
	a->owner = call;
	grpc_metadata_array_init(&a->initial);
	grpc_metadata_array_init(&a->trailing);
	gpr_timespec deadline = gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_nanos(timeout_ns, GPR_TIMESPAN));
	a->call = new_call(call->channel, call->method, deadline);
	call->attempt = a;
	grpc_byte_buffer *request = grpc_buffer_from(message_retain(call->request));
	const grpc_op ops[] = {
	    {.op = GRPC_OP_SEND_INITIAL_METADATA},
	    {.op = GRPC_OP_SEND_MESSAGE, .data.send_message.send_message = request},
	    {.op = GRPC_OP_SEND_CLOSE_FROM_CLIENT},
	    {.op = GRPC_OP_RECV_INITIAL_METADATA, .data.recv_initial_metadata.recv_initial_metadata = &a->initial},
	    {.op = GRPC_OP_RECV_MESSAGE, .data.recv_message.recv_message = &a->reply},
	    {.op = GRPC_OP_RECV_STATUS_ON_CLIENT,
	     .data.recv_status_on_client = {.trailing_metadata = &a->trailing, .status = &a->status, .status_details = &a->details}},
	};
	HANDED_OVER(&a->tag);
	grpc_call_error e = grpc_call_start_batch(a->call, ops, sizeof ops / sizeof *ops, &a->tag, NULL);
	assert(e == GRPC_CALL_OK);
	(void)e;
	grpc_byte_buffer_destroy(request);
}

void grpc_client_attempt_cancel(struct rpc_client_call *call)
{
	grpc_call_cancel(((struct attempt *)call->attempt)->call, NULL);
}

/* --- Streams */

static void stream_ended(struct rpc_tag *tag, bool ok)
{
	struct grpc_stream *s = (struct grpc_stream *)(void *)((char *)tag - offsetof(struct grpc_stream, ended));
	(void)ok;
	s->over = true;
	grpc_stream_batch_done(s);
}

struct rpc_stream *grpc_client_stream_new(struct rpc_channel *channel)
{
	(void)channel;
	struct grpc_stream *s = grpc_stream_new(stream_ended);
	return s ? &s->base : NULL;
}

void grpc_client_stream_start(struct rpc_stream *stream)
{
	struct grpc_stream *s = (struct grpc_stream *)stream;
	if (!grpc_lane_ask(s))
		grpc_client_stream_call(s);
}

void grpc_client_stream_call(struct grpc_stream *s)
{
	struct rpc_stream *stream = &s->base;
	s->call = new_call(stream->channel, stream->method, gpr_inf_future(GPR_CLOCK_MONOTONIC));
	const grpc_op end = {
	    .op = GRPC_OP_RECV_STATUS_ON_CLIENT,
	    .data.recv_status_on_client = {.trailing_metadata = &s->trailing, .status = &s->status, .status_details = &s->details}};
	const grpc_op open = {.op = GRPC_OP_SEND_INITIAL_METADATA};
	const grpc_op receive[] = {
	    {.op = GRPC_OP_RECV_INITIAL_METADATA, .data.recv_initial_metadata.recv_initial_metadata = &s->initial},
	    {.op = GRPC_OP_RECV_MESSAGE, .data.recv_message.recv_message = &s->incoming},
	};
	grpc_stream_batch(s, &end, 1, &s->ended);
	grpc_stream_batch(s, &open, 1, &s->opened);
	s->reading = true;
	grpc_stream_batch(s, receive, 2, &s->received);
}

void grpc_client_stream_half_close(struct grpc_stream *s)
{
	const grpc_op op = {.op = GRPC_OP_SEND_CLOSE_FROM_CLIENT};
	grpc_stream_batch(s, &op, 1, &s->half_closed);
}

void grpc_client_stream_cancel(struct grpc_stream *s)
{
	grpc_call_cancel(s->call, NULL);
}
