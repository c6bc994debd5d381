/* Streams. Each end is an object of its own process. A sender has up to `window` messages in
 * flight. The receiver reports each message it takes, so a paused receiver stops its peer. Arrived
 * messages wait in the inbox. An orderly end waits behind the messages before it; a cancellation
 * does not wait. */
#include <stdlib.h>

#include "tests/sim/net/internal.h"

struct sim_stream {
	struct rpc_stream base;
	struct flow *flow;
	enum side side;
	bool reading;       /* may deliver the next message */
	bool delivering;    /* inside advance() */
	bool sent_owed;     /* the base still waits for on_sent of its message */
	uint32_t under_way; /* messages that the peer has not taken */
	struct packet *first, **last;
};

static void deliver(void *object, struct packet *p);

static void init(struct sim_stream *s, struct flow *f, enum side side)
{
	s->flow = f;
	s->side = side;
	s->last = &s->first;
}

/* --- Beginning */

struct rpc_stream *sim_stream_create(struct rpc_channel *channel)
{
	struct sim_stream *s = calloc(1, sizeof *s);
	if (!s)
		return NULL;
	/* The start sets the method. */
	init(s, flow_create(RPC_PUSH_STREAM, channel->loop, s, deliver), CLIENT);
	s->reading = true;
	return &s->base;
}

void sim_stream_start(struct rpc_stream *stream)
{
	struct sim_stream *s = (struct sim_stream *)stream;
	s->flow->method = stream->method;
	flow_start(s->flow, channel_connection(stream->channel));
	packet_send(s->flow, CLIENT, PACKET_OPEN, WEIR_OK, NULL, NULL);
	packet_local(s->flow, CLIENT, PACKET_SENT, WEIR_OK, NULL);
}

void stream_begin(void *packet)
{
	struct packet *p = packet;
	struct flow *f = p->flow;
	struct rpc_server_slot *slot = p->slot;
	struct sim_stream *s = calloc(1, sizeof *s);
	packet_free(p);
	if (!s) {
		char text[WEIR_ERROR_TEXT_BYTES];
		flow_end(f, SERVER);
		failure_text(text, sizeof text, f, "the server is out of memory");
		packet_send(f, SERVER, PACKET_CLOSED, WEIR_E_UNAVAILABLE, text, NULL);
		rpc_server_leave(slot->server, f->method);
		return;
	}
	init(s, f, SERVER);
	f->end[SERVER].object = s;
	f->end[SERVER].deliver = deliver;
	s->reading = true;
	rpc_stream_on_open(&s->base, slot, f->method);
}

/* --- Ending */

static void end(struct sim_stream *s, weir_status status, const char *text)
{
	struct rpc_server *server = s->base.slot ? s->base.slot->server : NULL;
	const enum rpc_method method = s->base.method;
	flow_end(s->flow, s->side);
	for (struct packet *p = s->first, *next; p; p = next) {
		next = p->next;
		packet_free(p);
	}
	rpc_stream_on_closed(&s->base, status, text);
	free(s);
	if (server)
		rpc_server_leave(server, method);
}

static void end_broken(struct sim_stream *s, bool silent)
{
	char text[WEIR_ERROR_TEXT_BYTES];
	failure_text(text, sizeof text, s->flow, silent ? "the peer is silent (keepalive timeout)" : "the connection is broken");
	end(s, s->side == CLIENT ? WEIR_E_UNAVAILABLE : WEIR_E_CANCELLED, text);
}

void sim_stream_half_close(struct rpc_stream *stream)
{
	struct sim_stream *s = (struct sim_stream *)stream;
	packet_send(s->flow, s->side, s->side == CLIENT ? PACKET_HALF_CLOSE : PACKET_CLOSED, WEIR_OK, NULL, NULL);
	if (s->side == SERVER)
		packet_local(s->flow, SERVER, PACKET_LOCAL_CLOSED, WEIR_OK, NULL);
}

void sim_stream_cancel(struct rpc_stream *stream, weir_status status, const char *text)
{
	struct sim_stream *s = (struct sim_stream *)stream;
	char full[WEIR_ERROR_TEXT_BYTES];
	packet_local(s->flow, s->side, PACKET_LOCAL_CLOSED, status, text);
	failure_text(full, sizeof full, s->flow, text);
	if (s->side == CLIENT)
		packet_send(s->flow, CLIENT, PACKET_CLOSED, WEIR_E_CANCELLED, text, NULL);
	else
		packet_send(s->flow, SERVER, PACKET_CLOSED, status, status == WEIR_E_UNAVAILABLE ? full : text, NULL);
}

/* --- Sending */

void sim_stream_transmit(struct rpc_stream *stream, struct message *m)
{
	struct sim_stream *s = (struct sim_stream *)stream;
	packet_send(s->flow, s->side, PACKET_DATA, WEIR_OK, NULL, m);
	message_release(m);
	s->sent_owed = ++s->under_way >= network_window();
	if (!s->sent_owed)
		packet_local(s->flow, s->side, PACKET_SENT, WEIR_OK, NULL);
}

static void taken(struct sim_stream *s)
{
	s->under_way--;
	if (!s->sent_owed)
		return;
	s->sent_owed = false;
	rpc_stream_on_sent(&s->base);
}

/* --- Receiving */

static void give(struct sim_stream *s, struct packet *p)
{
	struct message *m = packet_message(p);
	packet_send(s->flow, s->side, PACKET_TAKEN, WEIR_OK, NULL, NULL);
	s->reading = false;
	if (m)
		rpc_stream_on_message(&s->base, m);
	else
		rpc_stream_cancel(&s->base, WEIR_E_MEMORY, "out of memory for a message");
	message_release(m);
}

static struct packet *pop(struct sim_stream *s)
{
	struct packet *p = s->first;
	s->first = p->next;
	if (!s->first)
		s->last = &s->first;
	return p;
}

/* Delivers all messages that may be delivered now. */
static void advance(struct sim_stream *s)
{
	s->delivering = true;
	while (s->first && (s->reading || s->first->kind != PACKET_DATA)) {
		struct packet *p = pop(s);
		const enum packet_kind kind = p->kind;
		if (kind == PACKET_DATA)
			give(s, p);
		else if (kind == PACKET_HALF_CLOSE)
			rpc_stream_on_half_close(&s->base);
		packet_free(p);
		if (kind == PACKET_CLOSED) {
			end(s, WEIR_OK, "");
			return;
		}
	}
	s->delivering = false;
}

void sim_stream_read(struct rpc_stream *stream)
{
	struct sim_stream *s = (struct sim_stream *)stream;
	s->reading = true;
	if (s->first && !s->delivering)
		packet_local(s->flow, s->side, PACKET_READ, WEIR_OK, NULL);
}

static void keep(struct sim_stream *s, struct packet *p)
{
	p->next = NULL;
	*s->last = p;
	s->last = &p->next;
	advance(s);
}

static void deliver(void *object, struct packet *p)
{
	struct sim_stream *s = object;
	if (p->kind == PACKET_DATA || p->kind == PACKET_HALF_CLOSE || (p->kind == PACKET_CLOSED && p->status == WEIR_OK)) {
		keep(s, p);
		return;
	}
	if (p->kind == PACKET_SENT)
		rpc_stream_on_sent(&s->base);
	else if (p->kind == PACKET_TAKEN)
		taken(s);
	else if (p->kind == PACKET_READ)
		advance(s);
	else if (p->kind == PACKET_BROKEN)
		end_broken(s, p->status == WEIR_E_TIMEOUT);
	else
		end(s, p->status, packet_text(p));
	packet_free(p);
}
