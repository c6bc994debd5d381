/* Streams over lanes (proto/lane/). A client that opens a bulk stream asks for a lane by a call
 * over gRPC. The server answers with a port and a ticket, bound to the method, the role and the
 * address of the caller. The client connects and shows the ticket. If any of that fails, the stream
 * runs over gRPC, and lanes to this server are not tried again for a while. */
#include <arpa/inet.h>
#include <assert.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include <grpc/support/alloc.h>
#include <grpc/support/string_util.h>

#include "proto/rpc/rpc_grpc.h"
#include "proto/wire/wire.h"

/* Heartbeats stay on the connection of control calls: they tell whether that lives. */
static bool is_bulk(enum rpc_method method)
{
	return method == RPC_PUSH_STREAM || method == RPC_PULL_STREAM || method == RPC_LINK || method == RPC_SNAPSHOT;
}

/* --- Either end: a lane's events are the stream's. */

static void lane_sent(void *arg)
{
	struct grpc_stream *s = arg;
	rpc_stream_on_sent(&s->base);
}

static void lane_message(void *arg, struct message *m)
{
	struct grpc_stream *s = arg;
	rpc_stream_on_message(&s->base, m);
}

static void lane_half_closed(void *arg)
{
	struct grpc_stream *s = arg;
	rpc_stream_on_half_close(&s->base);
}

static void lane_closed(void *arg, weir_status status, const char *text)
{
	struct grpc_stream *s = arg;
	s->lane = NULL;
	s->over = true;
	s->cancelled = status == WEIR_E_CANCELLED;
	if (!s->why && s->base.channel) {
		s->why = status;
		if (status == WEIR_E_UNAVAILABLE)
			snprintf(s->text, sizeof s->text, "%s %s: %s", s->base.channel->address, rpc_method_path(s->base.method), text);
		else
			snprintf(s->text, sizeof s->text, "%s", text);
	}
	grpc_stream_batch_done(s);
}

static const struct lane_events events = {lane_sent, lane_message, lane_half_closed, lane_closed};

/* --- Server */

/* An arrived lane on its way to its loop. */
struct arrival {
	struct rpc_server_slot *slot;
	enum rpc_method method;
	unsigned role;
	int fd;
};

static void begin_stream(void *arg)
{
	struct arrival a = *(struct arrival *)arg;
	struct rpc_server *server = a.slot->server;
	weir_error err = {0};
	free(arg);
	struct lane_poll *poll = grpc_loop_poll(a.slot->loop, &err);
	struct grpc_stream *s = poll ? grpc_stream_new(NULL) : NULL;
	if (!s || !rpc_server_enter(server, a.method)) {
		close(a.fd); /* the client tries again */
		free(s);
	} else if (!(s->lane = lane_end_create(poll, a.fd, true, &events, s, &err))) {
		free(s);
		rpc_server_leave(server, a.method);
	} else {
		s->batches = 1;
		s->peer = gpr_strdup("lane");
		s->base.role = a.role;
		rpc_stream_on_open(&s->base, a.slot, a.method);
	}
	rpc_server_leave(server, RPC_STATUS);
}

static void arrived(void *arg, int fd, const struct lane_ticket *ticket)
{
	struct rpc_server *server = arg;
	struct arrival *a = malloc(sizeof *a);
	if (!a) {
		close(fd);
		return;
	}
	*a = (struct arrival){.slot = ticket->place, .method = (enum rpc_method)ticket->method, .role = ticket->role, .fd = fd};
	grpc_server_enter_always(server);
	rpc_loop_post(a->slot->loop, begin_stream, a);
}

static void start_listening(void *arg)
{
	struct rpc_server *server = arg;
	weir_error err = {0};
	struct lane_poll *poll = grpc_loop_poll(server->slots[0].loop, &err);
	const struct lane_listener *lanes = *grpc_server_lanes(server);
	if (!poll || lane_listener_start(*grpc_server_lanes(server), poll, &err))
		LOG_AT(server->rpc->logger, LOG_WARN, "no lanes", "why=\"%s\"", err.text);
	else if (lane_listener_port(lanes))
		LOG_AT(server->rpc->logger, LOG_INFO, "lanes", "port=%u", lane_listener_port(lanes));
	rpc_server_leave(server, RPC_STATUS);
}

static void stop_listening(void *arg)
{
	struct rpc_server *server = arg;
	lane_listener_stop(*grpc_server_lanes(server));
	rpc_server_leave(server, RPC_STATUS);
}

weir_status grpc_lane_listen(struct rpc_server *server, weir_error *err)
{
	const struct grpc_rpc *g = (const struct grpc_rpc *)server->rpc;
	if (!g->serves_lanes || g->tls)
		return WEIR_OK;
	const struct lane_listener_options options = {
	    .address = server->address, .port = g->lanes.port, .arrived = arrived, .trust = g->lanes.trust, .arg = server};
	const weir_status status = lane_listener_create(grpc_server_lanes(server), &options, err);
	if (status)
		return status;
	grpc_server_enter_always(server);
	rpc_loop_post(server->slots[0].loop, start_listening, server);
	return WEIR_OK;
}

void grpc_lane_close(struct rpc_server *server)
{
	if (!*grpc_server_lanes(server))
		return;
	grpc_server_enter_always(server);
	rpc_loop_post(server->slots[0].loop, stop_listening, server);
}

/* Writes an address as lane_peer_address does: gRPC may write the same one in another way. */
static void normalize(char address[WEIR_ADDRESS_BYTES_MAX])
{
	char host[WEIR_ADDRESS_BYTES_MAX];
	struct in6_addr six;
	const bool brackets = address[0] == '[';
	snprintf(host, sizeof host, "%.*s", (int)strcspn(address + brackets, "]"), address + brackets);
	if (inet_pton(AF_INET6, host, &six) != 1)
		return;
	if (IN6_IS_ADDR_V4MAPPED(&six))
		inet_ntop(AF_INET, six.s6_addr + 12, address, WEIR_ADDRESS_BYTES_MAX);
	else
		inet_ntop(AF_INET6, &six, address, WEIR_ADDRESS_BYTES_MAX);
}

static int bulk_method(const char *path)
{
	for (int m = 0; m < RPC_METHODS_SERVED; m++)
		if (is_bulk((enum rpc_method)m) && strcmp(path, rpc_method_path((enum rpc_method)m)) == 0)
			return m;
	return -1;
}

static weir_status issue(struct rpc_server *server, const struct lane_ticket *ticket, struct message **reply, weir_error *err)
{
	struct lane_listener *l = *grpc_server_lanes(server);
	Weir__V1__LaneReply r = WEIR__V1__LANE_REPLY__INIT;
	uint8_t token[LANE_TOKEN_BYTES];
	if (lane_listener_issue(l, ticket, token))
		return weir_fail(err, WEIR_E_BUSY, "too many lanes are being opened");
	r.port = lane_listener_port(l);
	r.token = (ProtobufCBinaryData){.data = token, .len = sizeof token};
	*reply = wire_pack(&r.base);
	return *reply ? WEIR_OK : weir_fail(err, WEIR_E_MEMORY, "out of memory");
}

weir_status grpc_lane_answer(struct rpc_server *server, unsigned role, const struct rpc_peer *peer, const struct message *request,
                             struct message **reply, weir_error *err)
{
	ProtobufCMessage *unpacked;
	weir_status status = wire_unpack(&weir__v1__lane_request__descriptor, request, &unpacked, err);
	if (status)
		return status;
	const Weir__V1__LaneRequest *q = (const Weir__V1__LaneRequest *)unpacked;
	const int method = bulk_method(q->method);
	struct lane_ticket ticket = {.method = (unsigned)method, .role = role};
	if (!*grpc_server_lanes(server) || q->version != LANE_VERSION)
		status = weir_fail(err, WEIR_E_UNSUPPORTED, "this server opens no lanes of version %u", q->version);
	else if (method < 0 || (role && !(role & rpc_method_roles((enum rpc_method)method))))
		status = weir_fail(err, WEIR_E_DENIED, "no lane for %s", q->method);
	wire_destroy(unpacked);
	if (status)
		return status;
	ticket.place = &server->slots[atomic_fetch_add(&((struct grpc_rpc *)server->rpc)->lanes_begun, 1) % server->slots_count];
	memcpy(ticket.address, peer->address, sizeof ticket.address);
	normalize(ticket.address);
	return issue(server, &ticket, reply, err);
}

void rpc_grpc_serve_lanes(struct rpc *rpc, const struct rpc_lanes *lanes)
{
	struct grpc_rpc *g = (struct grpc_rpc *)rpc;
	g->serves_lanes = true;
	g->lanes = *lanes;
}

/* --- Client */

/* The stream runs over gRPC. */
static void do_without(struct grpc_stream *s, const char *why)
{
	const struct rpc_loop *loop = s->base.loop;
	char text[2 * WEIR_ERROR_TEXT_BYTES];
	grpc_client_lanes(s->base.channel)->again_ns = rpc_now_ns() + WEIR_LANE_AGAIN_MS * INT64_C(1000000);
	if (why) {
		snprintf(text, sizeof text,
		         "to %s: %s. Bulk data go over gRPC, which takes more of the processors; is cluster.lane_port blocked?",
		         s->base.channel->address, why);
		LOG_AT(s->base.rpc->logger, LOG_WARN, "no lane", "%s", text);
		if (loop->notice)
			loop->notice(loop->notice_arg, text);
	}
	s->batches--;
	grpc_client_stream_call(s);
}

static void dialled(void *arg, int fd, const char *why)
{
	struct grpc_stream *s = arg;
	weir_error err = {0};
	s->dial = NULL;
	struct lane_poll *poll = fd < 0 ? NULL : grpc_loop_poll(s->base.loop, &err);
	s->lane = poll ? lane_end_create(poll, fd, false, &events, s, &err) : NULL;
	if (s->lane)
		rpc_stream_on_sent(&s->base);
	else
		do_without(s, fd < 0 ? why : err.text);
}

union socket_address {
	struct sockaddr any;
	struct sockaddr_un path;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

/* The lane's address: where gRPC has found the server ("ipv4:HOST:PORT", "ipv6:[HOST]:PORT"), or
 * the socket beside its own. 0: not such an address. */
static socklen_t lane_address(const struct rpc_channel *channel, const char *peer, uint32_t port, union socket_address *out)
{
	memset(out, 0, sizeof *out);
	if (strncmp(channel->address, "unix:", 5) == 0) {
		out->path.sun_family = AF_UNIX;
		const int n = snprintf(out->path.sun_path, sizeof out->path.sun_path, "%s" LANE_SOCKET_ENDING, channel->address + 5);
		return n > 0 && n < (int)sizeof out->path.sun_path ? sizeof out->path : 0;
	}
	char host[WEIR_ADDRESS_BYTES_MAX];
	const char *colon = strrchr(peer, ':');
	if (!colon || port == 0 || port > UINT16_MAX || colon - peer < 5)
		return 0;
	if (strncmp(peer, "ipv4:", 5) == 0) {
		snprintf(host, sizeof host, "%.*s", (int)(colon - peer) - 5, peer + 5);
		out->v4.sin_family = AF_INET;
		out->v4.sin_port = htons((uint16_t)port);
		return inet_pton(AF_INET, host, &out->v4.sin_addr) == 1 ? sizeof out->v4 : 0;
	}
	snprintf(host, sizeof host, "%s", strncmp(peer, "ipv6:", 5) == 0 ? peer + 5 : "");
	if (strncmp(host, "%5B", 3) == 0)
		memmove(host, host + 2, strlen(host + 2) + 1);
	host[strcspn(host, "]%")] = 0;
	out->v6.sin6_family = AF_INET6;
	out->v6.sin6_port = htons((uint16_t)port);
	return inet_pton(AF_INET6, host + 1, &out->v6.sin6_addr) == 1 ? sizeof out->v6 : 0;
}

/* Connects. False: *err tells why not. */
static bool dial(struct grpc_stream *s, const struct message *reply, weir_error *err)
{
	struct rpc_channel *channel = s->base.channel;
	ProtobufCMessage *unpacked;
	union socket_address to;
	if (wire_unpack(&weir__v1__lane_reply__descriptor, reply, &unpacked, err))
		return false;
	const Weir__V1__LaneReply *r = (const Weir__V1__LaneReply *)unpacked;
	struct lane_poll *poll = grpc_loop_poll(s->base.loop, err);
	const socklen_t bytes = lane_address(channel, grpc_client_lanes(channel)->peer, r->port, &to);
	if (poll && (bytes == 0 || r->token.len != LANE_TOKEN_BYTES))
		weir_fail(err, WEIR_E_CORRUPT, "the server's answer names no lane");
	else if (poll)
		s->dial = lane_dial_start(poll, &to.any, bytes, r->token.data, dialled, s, err);
	wire_destroy(unpacked);
	return s->dial != NULL;
}

static void end_later(void *arg)
{
	grpc_stream_batch_done(arg);
}

/* The end of a stream may close the channel, which the call that brought the answer still uses: so
 * it comes later. */
static void on_ticket(void *arg, weir_status status, const char *text, struct message *reply)
{
	struct grpc_stream *s = arg;
	weir_error err = {0};
	s->asks = false;
	if (s->over) { /* it was cancelled meanwhile */
		rpc_loop_post(s->base.loop, end_later, s);
	} else if (status == WEIR_E_UNAVAILABLE || status == WEIR_E_CANCELLED) {
		s->over = true; /* a stream would end the same way */
		s->why = status;
		snprintf(s->text, sizeof s->text, "%s", text);
		rpc_loop_post(s->base.loop, end_later, s);
	} else if (status) {
		do_without(s, status == WEIR_E_UNSUPPORTED ? NULL : text);
	} else if (!dial(s, reply, &err)) {
		do_without(s, err.text);
	}
}

bool grpc_lane_ask(struct grpc_stream *s)
{
	struct rpc_channel *channel = s->base.channel;
	if (channel->foreign || !is_bulk(s->base.method) || ((const struct grpc_rpc *)channel->rpc)->tls ||
	    rpc_now_ns() < grpc_client_lanes(channel)->again_ns)
		return false;
	Weir__V1__LaneRequest q = WEIR__V1__LANE_REQUEST__INIT;
	q.version = LANE_VERSION;
	q.method = (char *)(uintptr_t)rpc_method_path(s->base.method); /* packing only reads it */
	struct message *request = wire_pack(&q.base);
	if (!request || rpc_call_start(channel, RPC_LANE, request, WEIR_LANE_OPEN_MS, on_ticket, s))
		return false;
	s->asks = true;
	s->batches++;
	return true;
}

bool grpc_lane_ask_cancel(struct grpc_stream *s)
{
	if (s->over) /* its end is on the way */
		return true;
	if (!s->asks && !s->dial)
		return false;
	if (s->dial)
		lane_dial_cancel(s->dial);
	else
		s->batches++; /* the stream outlives the call */
	s->dial = NULL;
	s->over = true;
	rpc_loop_post(s->base.loop, end_later, s);
	return true;
}
