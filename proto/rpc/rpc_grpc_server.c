/* Servers over gRPC. Each loop keeps several requests for a call outstanding; the path of an
 * arriving call is looked up in the table of methods. Live objects are every outstanding request,
 * every call, every stream, and the notification of the shutdown. */
#include "proto/rpc/rpc_grpc.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <grpc/byte_buffer.h>
#include <grpc/grpc_security.h>
#include <grpc/slice.h>
#include <grpc/support/alloc.h>

#include "common/base/hash.h"
#include "proto/rpc/rpc_address.h"

#define ACCEPTS_PER_LOOP 16

struct acceptor {
	struct rpc_tag tag;
	struct rpc_server_slot *slot;
	grpc_call *call;
	grpc_call_details details;
	grpc_metadata_array metadata;
};

struct grpc_listener {
	struct rpc_server base;
	grpc_server *server;
	struct rpc_tag closed;
	struct acceptor *acceptors; /* (slots, ACCEPTS_PER_LOOP) */
	struct grpc_tls_served served;
	struct lane_listener *lanes; /* NULL: none */
};

struct lane_listener **grpc_server_lanes(struct rpc_server *server)
{
	return &((struct grpc_listener *)server)->lanes;
}

void grpc_server_enter_always(struct rpc_server *server)
{
	pthread_mutex_lock(&server->lock);
	server->live++;
	pthread_mutex_unlock(&server->lock);
}

static void leave(struct rpc_server *server)
{
	rpc_server_leave(server, RPC_STATUS);
}

static void start_batch(grpc_call *call, const grpc_op *ops, size_t n, struct rpc_tag *tag)
{
	HANDED_OVER(tag);
	grpc_call_error e = grpc_call_start_batch(call, ops, n, tag, NULL);
	assert(e == GRPC_CALL_OK);
	(void)e;
}

/* --- Refusal */

/* Ends a call for which there is no memory. Its client gets E_UNAVAILABLE and may retry. */
static void drop(struct rpc_server *server, grpc_call *call, enum rpc_method method)
{
	grpc_call_cancel_with_status(call, GRPC_STATUS_UNAVAILABLE, "the server is out of memory", NULL);
	grpc_call_unref(call);
	rpc_server_leave(server, method);
}

struct refusal {
	struct rpc_tag tag;
	grpc_call *call;
	struct rpc_server *server;
};

static void refused(struct rpc_tag *tag, bool ok)
{
	struct refusal *r = (struct refusal *)tag;
	(void)ok;
	grpc_call_unref(r->call);
	leave(r->server);
	free(r);
}

/* Ends a call without calling a handler. The server counts the call as live. */
static void refuse(struct rpc_server *server, grpc_call *call, weir_status status, const char *text)
{
	struct refusal *r = malloc(sizeof *r);
	if (!r) {
		drop(server, call, RPC_STATUS);
		return;
	}
	*r = (struct refusal){{refused}, call, server};
	grpc_slice details = grpc_details_of(status, text);
	const grpc_op ops[] = {
	    {.op = GRPC_OP_SEND_INITIAL_METADATA},
	    {.op = GRPC_OP_SEND_STATUS_FROM_SERVER,
	     .data.send_status_from_server = {.status = grpc_code_of(status), .status_details = &details}},
	};
	start_batch(call, ops, 2, &r->tag);
	grpc_slice_unref(details);
}

/* --- Unary */

struct unary {
	struct rpc_tag received, replied, ended;
	struct rpc_server_slot *slot;
	struct rpc_timer patience; /* until the request has arrived completely */
	enum rpc_method method;
	unsigned role; /* of the client's certificate; 0: no certificate */
	grpc_call *call;
	grpc_byte_buffer *request;
	uint32_t batches;
	int cancelled;
};

static void unary_batch_done(struct unary *u)
{
	if (--u->batches)
		return;
	struct rpc_server *server = u->slot->server;
	enum rpc_method method = u->method;
	grpc_call_unref(u->call);
	free(u);
	rpc_server_leave(server, method);
}

static void unary_replied(struct rpc_tag *tag, bool ok)
{
	(void)ok;
	unary_batch_done((struct unary *)(void *)((char *)tag - offsetof(struct unary, replied)));
}

static void unary_ended(struct rpc_tag *tag, bool ok)
{
	(void)ok;
	unary_batch_done((struct unary *)(void *)((char *)tag - offsetof(struct unary, ended)));
}

void grpc_server_reply(void *part, weir_status status, const char *text, struct message *reply)
{
	struct unary *u = part;
	grpc_byte_buffer *b = status == WEIR_OK ? grpc_buffer_from(reply) : NULL;
	grpc_slice details = grpc_details_of(status, text);
	grpc_op ops[3] = {{.op = GRPC_OP_SEND_INITIAL_METADATA}};
	size_t n = 1;
	if (b)
		ops[n++] = (grpc_op){.op = GRPC_OP_SEND_MESSAGE, .data.send_message.send_message = b};
	ops[n++] = (grpc_op){.op = GRPC_OP_SEND_STATUS_FROM_SERVER,
	                     .data.send_status_from_server = {.status = grpc_code_of(status), .status_details = &details}};
	start_batch(u->call, ops, n, &u->replied);
	if (b)
		grpc_byte_buffer_destroy(b);
	grpc_slice_unref(details);
}

/* gRPC's form is "ipv4:HOST:PORT", "ipv6:[HOST]:PORT" with escapes, or "unix:". */
void grpc_server_peer(void *part, struct rpc_peer *out)
{
	const struct unary *u = part;
	char *peer = grpc_call_get_peer(u->call);
	const char *host = strncmp(peer, "ipv", 3) == 0 ? strchr(peer, ':') + 1 : NULL;
	const char *end = host ? strrchr(host, ':') : NULL;
	if (end) {
		snprintf(out->address, sizeof out->address, "%.*s", (int)(end - host), host);
		out->connection = hash_bytes(peer, strlen(peer), 0);
	} else {
		snprintf(out->address, sizeof out->address, "unix");
	}
	gpr_free(peer);
	if (!((const struct grpc_rpc *)u->slot->server->rpc)->tls || !grpc_tls_peer(u->call, &out->who))
		out->who = (struct peer_identity){0};
}

static void answer_lane(struct unary *u, const struct message *request)
{
	struct rpc_peer peer = {0};
	struct message *reply = NULL;
	weir_error err = {0};
	grpc_server_peer(u, &peer);
	const weir_status status = grpc_lane_answer(u->slot->server, u->role, &peer, request, &reply, &err);
	grpc_server_reply(u, status, err.text, reply);
}

static void unary_received(struct rpc_tag *tag, bool ok)
{
	struct unary *u = (struct unary *)tag;
	bool arrived = ok && u->request;
	rpc_timer_clear(u->slot->loop, &u->patience);
	struct message *m = arrived ? grpc_buffer_message(u->request) : NULL;
	if (!arrived)
		grpc_server_reply(u, WEIR_E_UNAVAILABLE, "the request has not arrived", NULL);
	else if (m && u->method == RPC_LANE)
		answer_lane(u, m);
	else if (!m || rpc_call_on_request(u->slot, u->method, u, m))
		grpc_server_reply(u, WEIR_E_MEMORY, "the server is out of memory", NULL);
	message_release(m);
	/* u still exists: the batches of the reply and of the end are counted from the beginning. */
	unary_batch_done(u);
}

static void unary_is_slow(void *arg)
{
	struct unary *u = arg;
	grpc_call_cancel_with_status(u->call, GRPC_STATUS_DEADLINE_EXCEEDED, "the request did not arrive whole in time", NULL);
}

static void unary_begin(struct rpc_server_slot *slot, enum rpc_method method, grpc_call *call, unsigned role)
{
	struct unary *u = malloc(sizeof *u);
	if (!u) {
		drop(slot->server, call, method);
		return;
	}
	*u = (struct unary){.received = {unary_received},
	                    .replied = {unary_replied},
	                    .ended = {unary_ended},
	                    .slot = slot,
	                    .method = method,
	                    .role = role,
	                    .call = call,
	                    .batches = 3};
	const grpc_op end = {.op = GRPC_OP_RECV_CLOSE_ON_SERVER, .data.recv_close_on_server.cancelled = &u->cancelled};
	const grpc_op receive = {.op = GRPC_OP_RECV_MESSAGE, .data.recv_message.recv_message = &u->request};
	start_batch(call, &end, 1, &u->ended);
	start_batch(call, &receive, 1, &u->received);
	rpc_timer_set(slot->loop, &u->patience, rpc_now_ns() + WEIR_REQUEST_MS * 1000000ll, unary_is_slow, u);
}

/* --- Streams */

static void stream_ended(struct rpc_tag *tag, bool ok)
{
	struct grpc_stream *s = (struct grpc_stream *)(void *)((char *)tag - offsetof(struct grpc_stream, ended));
	(void)ok;
	rpc_timer_clear(s->base.loop, &s->expiry);
	s->over = true;
	s->base.ended = true;
	grpc_stream_batch_done(s);
}

void grpc_server_stream_finish(struct grpc_stream *s, weir_status status, const char *text)
{
	if (s->over)
		return;
	if (s->status_sent) {
		grpc_call_cancel(s->call, NULL);
		return;
	}
	s->status_sent = true;
	grpc_slice details = grpc_details_of(status, text);
	const grpc_op op = {.op = GRPC_OP_SEND_STATUS_FROM_SERVER,
	                    .data.send_status_from_server = {.status = grpc_code_of(status), .status_details = &details}};
	grpc_stream_batch(s, &op, 1, &s->half_closed);
	grpc_slice_unref(details);
}

/* Peers on this machine's unix sockets are exempt: their address does not distinguish them. */
static bool has_too_many(const struct rpc_server_slot *slot, const char *peer)
{
	uint32_t count = 0;
	for (const struct rpc_link *l = slot->streams.next; l != &slot->streams; l = l->next)
		count += strcmp(((const struct grpc_stream *)(const void *)l)->peer, peer) == 0;
	return count >= WEIR_STREAMS_PER_PEER_MAX && strncmp(peer, "unix:", 5) != 0;
}

static void stream_expires(void *arg)
{
	rpc_stream_cancel(arg, WEIR_E_UNAVAILABLE, "the certificate that it was opened with has expired");
}

/* until_ns: when the stream must end; 0: no such limit. */
static void stream_begin(struct rpc_server_slot *slot, enum rpc_method method, grpc_call *call, unsigned role, int64_t until_ns)
{
	char *peer = grpc_call_get_peer(call);
	if (has_too_many(slot, peer)) {
		gpr_free(peer);
		grpc_server_enter_always(slot->server);
		refuse(slot->server, call, WEIR_E_LIMIT, "this peer has too many streams");
		rpc_server_leave(slot->server, method);
		return;
	}
	struct grpc_stream *s = grpc_stream_new(stream_ended);
	if (!s) {
		gpr_free(peer);
		drop(slot->server, call, method);
		return;
	}
	s->call = call;
	s->peer = peer;
	s->base.role = role;
	s->base.sending = true;
	const grpc_op end = {.op = GRPC_OP_RECV_CLOSE_ON_SERVER, .data.recv_close_on_server.cancelled = &s->cancelled};
	const grpc_op open = {.op = GRPC_OP_SEND_INITIAL_METADATA};
	grpc_stream_batch(s, &end, 1, &s->ended);
	grpc_stream_batch(s, &open, 1, &s->opened);
	rpc_stream_on_open(&s->base, slot, method);
	if (until_ns)
		rpc_timer_set(slot->loop, &s->expiry, until_ns, stream_expires, &s->base);
	if (!s->base.ended)
		grpc_stream_read(&s->base);
}

/* --- Accepting */

static void acceptor_ask(struct acceptor *a)
{
	struct grpc_listener *l = (struct grpc_listener *)a->slot->server;
	grpc_completion_queue *cq = grpc_loop_cq(a->slot->loop);
	a->call = NULL;
	grpc_call_details_init(&a->details);
	grpc_metadata_array_init(&a->metadata);
	HANDED_OVER(&a->tag);
	grpc_call_error e = grpc_server_request_call(l->server, &a->call, &a->details, &a->metadata, cq, cq, &a->tag);
	assert(e == GRPC_CALL_OK);
	(void)e;
}

static int method_of(grpc_slice path)
{
	for (int m = 0; m < RPC_METHODS_SERVED; m++)
		if (grpc_slice_str_cmp(path, rpc_method_path((enum rpc_method)m)) == 0)
			return m;
	return -1;
}

static void begin_call(struct rpc_server_slot *slot, grpc_call *call, grpc_slice path)
{
	int method = method_of(path);
	struct rpc_server *server = slot->server;
	const struct grpc_tls *tls = ((const struct grpc_rpc *)server->rpc)->tls;
	char why[WEIR_ERROR_TEXT_BYTES];
	int64_t until_ns = 0;
	unsigned role = 0;
	const weir_status denied =
	    tls && method >= 0 ? grpc_tls_admit(tls, call, (enum rpc_method)method, &role, &until_ns, why) : WEIR_OK;
	if (denied) {
		LOG_AT(server->rpc->logger, LOG_WARN, "denied", "%s", why);
		grpc_server_enter_always(server);
		refuse(server, call, denied, why);
	} else if (!rpc_server_enter(server, method < 0 ? RPC_STATUS : (enum rpc_method)method)) {
		grpc_server_enter_always(server);
		refuse(server, call, WEIR_E_UNAVAILABLE, "the server is stopping or has too many clients");
	} else if (method < 0) {
		refuse(server, call, WEIR_E_UNSUPPORTED, "no such method");
	} else if (rpc_method_is_stream((enum rpc_method)method)) {
		stream_begin(slot, (enum rpc_method)method, call, role, until_ns);
	} else {
		unary_begin(slot, (enum rpc_method)method, call, role);
	}
}

static void accepted(struct rpc_tag *tag, bool ok)
{
	struct acceptor *a = (struct acceptor *)tag;
	if (ok)
		begin_call(a->slot, a->call, a->details.method);
	grpc_call_details_destroy(&a->details);
	grpc_metadata_array_destroy(&a->metadata);
	if (ok) {
		acceptor_ask(a);
		return;
	}
	leave(a->slot->server); /* the server is closed */
}

static void accept_on_loop(void *arg)
{
	struct rpc_server_slot *slot = arg;
	struct acceptor *first = ((struct grpc_listener *)slot->server)->acceptors + (slot - slot->server->slots) * ACCEPTS_PER_LOOP;
	for (uint32_t i = 0; i < ACCEPTS_PER_LOOP; i++) {
		first[i].tag.fn = accepted;
		first[i].slot = slot;
		acceptor_ask(&first[i]);
	}
}

/* --- Starting and stopping */

struct rpc_server *grpc_server_new(struct rpc *rpc)
{
	(void)rpc;
	struct grpc_listener *l = calloc(1, sizeof *l);
	return l ? &l->base : NULL;
}

static grpc_server *create_server(void)
{
	grpc_arg args[GRPC_ARGS_COMMON + 6];
	size_t n = grpc_args_common(args, WEIR_KEEPALIVE_MS);
	args[n++] = grpc_arg_number(GRPC_ARG_ALLOW_REUSEPORT, 0);
	args[n++] = grpc_arg_number(GRPC_ARG_MAX_CONCURRENT_STREAMS, WEIR_CALLS_PER_CONNECTION_MAX);
	args[n++] = grpc_arg_number(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, WEIR_KEEPALIVE_MS / 4);
	args[n++] = grpc_arg_number(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 0); /* clients may ping */
	args[n++] = grpc_arg_number(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, WEIR_REQUEST_MS);
	args[n++] = grpc_arg_number(GRPC_ARG_MAX_CONNECTION_IDLE_MS, WEIR_CONNECTION_IDLE_MS);
	assert(n <= sizeof args / sizeof *args);
	grpc_channel_args list = {n, args};
	return grpc_server_create(&list, NULL);
}

static void server_closed(struct rpc_tag *tag, bool ok)
{
	(void)ok;
	leave(&((struct grpc_listener *)(void *)((char *)tag - offsetof(struct grpc_listener, closed)))->base);
}

/* Binds the address. Port 0 is replaced by the actual port. */
static weir_status bind_address(struct grpc_listener *l, const char *address, weir_error *err)
{
	l->served.tls = ((const struct grpc_rpc *)l->base.rpc)->tls;
	grpc_server_credentials *credentials =
	    l->served.tls ? grpc_tls_server(&l->served) : grpc_insecure_server_credentials_create();
	char target[RPC_URI_BYTES];
	rpc_address_uri(address, target);
	int port = grpc_server_add_http2_port(l->server, target, credentials);
	grpc_server_credentials_release(credentials);
	if (!port)
		return weir_fail(err, WEIR_E_IO, "%s: cannot listen; choose another address", address);
	if (strncmp(address, "unix:", 5) != 0)
		snprintf(l->base.address, sizeof l->base.address, "%.*s:%d", (int)(strrchr(address, ':') - address), address, port);
	return WEIR_OK;
}

/* Refuses to start a server that no client would trust. */
static weir_status check_security(const struct rpc *rpc, const char *address, weir_error *err)
{
	const struct grpc_tls *tls = ((const struct grpc_rpc *)rpc)->tls;
	char uri[PEER_IDENTITY_URI_BYTES_MAX];
	if (!tls)
		return grpc_check_plain(rpc, address, err);
	peer_identity_uri(grpc_tls_own(tls), uri);
	return grpc_tls_own(tls)->role == ROLE_SERVER
	           ? WEIR_OK
	           : weir_fail(err, WEIR_E_INVALID, "%s: this server's certificate is %s; expected the role server", address, uri);
}

weir_status grpc_server_begin(struct rpc_server *server, const char *address, weir_error *err)
{
	struct grpc_listener *l = (struct grpc_listener *)server;
	weir_status status = rpc_address_check(address, err);
	if (!status)
		status = check_security(server->rpc, address, err);
	if (status)
		return status;
	l->acceptors = calloc(server->slots_count, ACCEPTS_PER_LOOP * sizeof *l->acceptors);
	if (!l->acceptors)
		return weir_fail(err, WEIR_E_MEMORY, "%s: out of memory", address);
	l->server = create_server();
	l->closed.fn = server_closed;
	for (uint32_t i = 0; i < server->slots_count; i++)
		grpc_server_register_completion_queue(l->server, grpc_loop_cq(server->slots[i].loop), NULL);
	status = bind_address(l, address, err);
	if (status)
		return status;
	server->live = server->slots_count * ACCEPTS_PER_LOOP;
	status = grpc_lane_listen(server, err);
	if (status)
		return status;
	grpc_server_start(l->server);
	for (uint32_t i = 0; i < server->slots_count; i++)
		rpc_loop_post(server->slots[i].loop, accept_on_loop, &server->slots[i]);
	return WEIR_OK;
}

void grpc_server_close(struct rpc_server *server)
{
	struct grpc_listener *l = (struct grpc_listener *)server;
	grpc_server_enter_always(server); /* until server_closed */
	grpc_lane_close(server);
	HANDED_OVER(&l->closed);
	grpc_server_shutdown_and_notify(l->server, grpc_loop_cq(server->slots[0].loop), &l->closed);
}

void grpc_server_cut(struct rpc_server *server)
{
	grpc_server_cancel_all_calls(((struct grpc_listener *)server)->server);
}

void grpc_listener_destroy(struct rpc_server *server)
{
	struct grpc_listener *l = (struct grpc_listener *)server;
	if (l->server)
		grpc_server_destroy(l->server);
	lane_listener_destroy(l->lanes);
	free(l->acceptors);
	free(l);
}
