/* The buckets of a network card, and messages that take turns in them. */
#include "proto/rpc/rpc_shape.h"

#include <stdlib.h>

#include "proto/rpc/rpc_transport.h"

#define PACKET_PAYLOAD  1448u /* of TCP with timestamps, in 1500 bytes of IP */
#define PACKET_OVERHEAD 90u   /* preamble 8, Ethernet 14 + 4, gap 12, IP 20, TCP 32 */
#define FRAME_PAYLOAD   16384u
#define FRAME_OVERHEAD  9u /* HTTP/2's DATA frame */
#define PREFIX_BYTES    5u /* gRPC's: compressed?, length */
#define PIECE_NS        4000000u
#define PIECE_BYTES_MAX 65536u
#define PIECE_BYTES_MIN (PACKET_PAYLOAD + PACKET_OVERHEAD)

/* --- Arithmetic */

static uint64_t parts_of(uint64_t bytes, uint64_t part)
{
	return (bytes + part - 1) / part;
}

uint64_t shape_wire_bytes(size_t message_bytes)
{
	uint64_t bytes = message_bytes + PREFIX_BYTES;
	bytes += parts_of(bytes, FRAME_PAYLOAD) * FRAME_OVERHEAD;
	return bytes + parts_of(bytes, PACKET_PAYLOAD) * PACKET_OVERHEAD;
}

uint64_t shape_piece_bytes(uint64_t rate_bits_per_s)
{
	const uint64_t bytes = rate_bits_per_s / 8 / (1000000000u / PIECE_NS);
	if (rate_bits_per_s == 0 || bytes > PIECE_BYTES_MAX)
		return PIECE_BYTES_MAX;
	return bytes < PIECE_BYTES_MIN ? PIECE_BYTES_MIN : bytes;
}

int64_t shape_span_ns(uint64_t rate_bits_per_s, uint64_t wire_bytes)
{
	return rate_bits_per_s ? (int64_t)parts_of(wire_bytes * 8 * 1000000000u, rate_bits_per_s) : 0;
}

int64_t shape_book(struct shape_bucket *bucket, uint64_t rate_bits_per_s, uint64_t wire_bytes, int64_t ready_ns)
{
	if (rate_bits_per_s == 0)
		return ready_ns;
	const int64_t from_ns = bucket->free_ns > ready_ns ? bucket->free_ns : ready_ns;
	bucket->free_ns = from_ns + shape_span_ns(rate_bits_per_s, wire_bytes);
	return bucket->free_ns;
}

_Static_assert((uint64_t)WEIR_MESSAGE_BYTES_MAX * 2 < UINT64_MAX / 8 / 1000000000u, "the time of a whole message fits 64 bits");

/* --- A machine's card, shared by several loops */

struct rpc_shape {
	struct rpc_shape *older; /* next older one of the same struct rpc */
	struct rpc_network network;
	uint64_t piece_bytes;
	pthread_mutex_t lock; /* guards buckets */
	struct shape_bucket buckets[2];
};

weir_status rpc_shape(struct rpc *rpc, const struct rpc_network *network)
{
	rpc->shape = NULL;
	if (network->rate_bits_per_s == 0 && network->latency_ms == 0)
		return WEIR_OK;
	struct rpc_shape *shape = malloc(sizeof *shape);
	if (!shape)
		return WEIR_E_MEMORY;
	*shape =
	    (struct rpc_shape){.older = rpc->shapes, .network = *network, .piece_bytes = shape_piece_bytes(network->rate_bits_per_s)};
	pthread_mutex_init(&shape->lock, NULL);
	rpc->shapes = rpc->shape = shape;
	return WEIR_OK;
}

void rpc_shapes_destroy(struct rpc_shape *newest)
{
	for (struct rpc_shape *older; newest; newest = older) {
		older = newest->older;
		pthread_mutex_destroy(&newest->lock);
		free(newest);
	}
}

static int64_t latency_ns(const struct rpc_shape *shape)
{
	return shape->network.latency_ms * 1000000ll;
}

/* --- Flows */

static void flow_wake(void *arg)
{
	struct rpc_flow *f = arg;
	if (rpc_flow_run(f))
		f->done(f->arg);
}

bool rpc_flow_run(struct rpc_flow *f)
{
	struct rpc_shape *shape = f->loop->shape;
	const int64_t now = rpc_now_ns();
	while (f->left && f->at_ns <= now + SHAPE_EARLY_NS) {
		const uint64_t piece = f->left < shape->piece_bytes ? f->left : shape->piece_bytes;
		pthread_mutex_lock(&shape->lock);
		f->at_ns = shape_book(&shape->buckets[f->side], shape->network.rate_bits_per_s, piece, f->at_ns);
		pthread_mutex_unlock(&shape->lock);
		f->left -= piece;
	}
	const bool travels = f->left == 0 && f->latency_ns > 0;
	const int64_t due_ns = travels ? f->at_ns + f->latency_ns : f->at_ns - SHAPE_EARLY_NS;
	if (due_ns > now)
		rpc_timer_set(f->loop, &f->timer, due_ns, flow_wake, f);
	return due_ns <= now;
}

bool rpc_flow_out(struct rpc_flow *f, struct rpc_loop *loop, size_t message_bytes, void (*done)(void *arg), void *arg)
{
	*f = (struct rpc_flow){.loop = loop,
	                       .side = RPC_OUT,
	                       .left = shape_wire_bytes(message_bytes),
	                       .at_ns = rpc_now_ns(),
	                       .latency_ns = latency_ns(loop->shape),
	                       .done = done,
	                       .arg = arg};
	return rpc_flow_run(f);
}

/* The message may have been arriving for as long as it takes at this rate, because its sender is
 * not faster. */
bool rpc_flow_in(struct rpc_flow *f, struct rpc_loop *loop, size_t message_bytes, void (*done)(void *arg), void *arg)
{
	const uint64_t bytes = shape_wire_bytes(message_bytes);
	*f = (struct rpc_flow){.loop = loop,
	                       .side = RPC_IN,
	                       .left = bytes,
	                       .at_ns = rpc_now_ns() - shape_span_ns(loop->shape->network.rate_bits_per_s, bytes),
	                       .done = done,
	                       .arg = arg};
	return rpc_flow_run(f);
}

void rpc_flow_stop(struct rpc_flow *f)
{
	if (f->loop)
		rpc_timer_clear(f->loop, &f->timer);
}

/* --- Streams */

static bool fly(struct rpc_shaped *x, struct message *m, int64_t due_ns)
{
	if (x->flying_count == x->flying_capacity) {
		const uint32_t capacity = x->flying_capacity ? x->flying_capacity * 2 : 16;
		struct rpc_flying *ring = malloc(capacity * sizeof *ring);
		if (!ring)
			return false;
		for (uint32_t i = 0; i < x->flying_count; i++)
			ring[i] = x->flying[(x->flying_head + i) & (x->flying_capacity - 1)];
		free(x->flying);
		x->flying = ring;
		x->flying_head = 0;
		x->flying_capacity = capacity;
	}
	x->flying[(x->flying_head + x->flying_count++) & (x->flying_capacity - 1)] = (struct rpc_flying){m, due_ns};
	return true;
}

/* Passes the messages that have arrived to the transport, one at a time. */
static void land(void *arg)
{
	struct rpc_stream *s = arg;
	struct rpc_shaped *x = &s->shaped;
	if (x->carrying || x->flying_count == 0 || x->landing.place)
		return;
	const struct rpc_flying first = x->flying[x->flying_head];
	if (first.due_ns > rpc_now_ns()) {
		rpc_timer_set(s->loop, &x->landing, first.due_ns, land, s);
		return;
	}
	x->flying_head = (x->flying_head + 1) & (x->flying_capacity - 1);
	x->flying_count--;
	x->carrying = true;
	s->rpc->ops->stream_transmit(s, first.message);
}

/* Whether a message that should have arrived has not been taken: the receiver is slower than the
 * network. */
static bool is_held_up(const struct rpc_shaped *x)
{
	return x->carrying && x->flying_count > 0 && x->flying[x->flying_head].due_ns <= rpc_now_ns();
}

static void departed(void *arg)
{
	struct rpc_stream *s = arg;
	struct rpc_shaped *x = &s->shaped;
	struct message *m = x->departing;
	const int64_t latency = latency_ns(s->loop->shape);
	x->departing = NULL;
	if (!fly(x, m, latency ? x->out.at_ns + latency : 0)) {
		message_release(m);
		rpc_stream_cancel(s, WEIR_E_MEMORY, "out of memory for a message");
		return;
	}
	land(s);
	x->sent_owed = is_held_up(x);
	if (!x->sent_owed)
		rpc_stream_sent(s);
}

void rpc_shaped_open(struct rpc_stream *s)
{
	s->is_shaped = s->loop->shape && !(s->channel && s->channel->foreign);
	s->shaped.carrying = s->shaped.opening = s->sending;
}

void rpc_shaped_send(struct rpc_stream *s, struct message *m, bool waited)
{
	struct rpc_shaped *x = &s->shaped;
	const int64_t now = rpc_now_ns(), earliest = now - SHAPE_LATE_NS, last = x->out.at_ns;
	x->departing = m;
	x->out = (struct rpc_flow){.loop = s->loop,
	                           .side = RPC_OUT,
	                           .left = shape_wire_bytes(m->bytes),
	                           .at_ns = !waited           ? now
	                                    : last < earliest ? earliest
	                                                      : last,
	                           .done = departed,
	                           .arg = s};
	if (rpc_flow_run(&x->out)) /* `departed` must not run inside this function */
		rpc_timer_set(s->loop, &x->out.timer, now, departed, s);
}

void rpc_shaped_on_sent(struct rpc_stream *s)
{
	struct rpc_shaped *x = &s->shaped;
	const bool opened = x->opening;
	x->carrying = x->opening = false;
	if (s->ended)
		return;
	land(s);
	if (opened || (x->sent_owed && !is_held_up(x))) {
		x->sent_owed = false;
		rpc_stream_sent(s);
	}
	if (!s->ended && rpc_shaped_is_idle(s))
		rpc_stream_idle(s);
}

bool rpc_shaped_is_idle(const struct rpc_stream *s)
{
	return !s->shaped.carrying && s->shaped.flying_count == 0;
}

static void arrived(void *arg)
{
	struct rpc_stream *s = arg;
	struct message *m = s->shaped.arriving;
	s->shaped.arriving = NULL;
	if (!s->ended) /* otherwise the client is gone */
		rpc_stream_deliver(s, m);
	message_release(m);
	if (s->shaped.half_closed)
		rpc_stream_half_closed(s);
}

void rpc_shaped_on_message(struct rpc_stream *s, struct message *m)
{
	if (rpc_flow_in(&s->shaped.in, s->loop, m->bytes, arrived, s))
		rpc_stream_deliver(s, m);
	else
		s->shaped.arriving = message_retain(m);
}

struct message *rpc_shaped_drop(struct rpc_stream *s)
{
	struct rpc_shaped *x = &s->shaped;
	struct message *arriving = x->arriving;
	if (!s->is_shaped)
		return NULL;
	rpc_flow_stop(&x->out);
	rpc_flow_stop(&x->in);
	rpc_timer_clear(s->loop, &x->landing);
	message_release(x->departing);
	for (uint32_t i = 0; i < x->flying_count; i++)
		message_release(x->flying[(x->flying_head + i) & (x->flying_capacity - 1)].message);
	free(x->flying);
	*x = (struct rpc_shaped){0};
	return arriving;
}
