/* The interface between the network and the transport on top of it. */
#ifndef WEIR_SIM_NETWORK_INTERNAL_H
#define WEIR_SIM_NETWORK_INTERNAL_H

#include "proto/rpc/rpc_transport.h"
#include "tests/sim/net/network.h"

enum side { CLIENT, SERVER };

enum packet_kind {
	/* For calls. */
	PACKET_REQUEST,
	PACKET_REPLY,
	/* For streams. */
	PACKET_OPEN,
	PACKET_DATA,
	PACKET_TAKEN, /* the receiver can take one more message */
	PACKET_HALF_CLOSE,
	PACKET_CLOSED,
	/* Local to an end; never sent. */
	PACKET_SENT,
	PACKET_READ,
	PACKET_LOCAL_CLOSED,
	PACKET_BROKEN /* the connection broke; OK: reset, E_TIMEOUT: the peer was silent */
};

struct packet {
	struct packet *next; /* next in its list */
	struct flow *flow;
	enum side to;
	enum packet_kind kind;
	uint64_t sequence; /* number within the flow and direction */
	weir_status status;
	struct rpc_server_slot *slot; /* slot of an admitted request or opening */
	char *text;                   /* NULL: "" */
	size_t bytes;
	uint8_t *data; /* (bytes) */
};

/* A call or a stream as the network sees it. It exists until the world ends. */
struct flow {
	struct connection *connection; /* NULL before the start */
	struct flow *next;             /* next of the connection */
	enum rpc_method method;
	struct flow_end {
		/* Loop that gets its packets; NULL: the end is closed or does not exist yet. */
		struct rpc_loop *loop;
		void *object; /* in memory of its process */
		void (*deliver)(void *object, struct packet *p);
		uint64_t sent, received;
		struct packet *early; /* packets that arrived out of turn, by sequence */
	} end[2];
};

/* The connection of a channel. */
struct connection {
	struct connection *next;
	struct node *node[2]; /* the server's is NULL if nobody ever listened there */
	uint64_t life[2];     /* life of the node; the server's from acceptance on */
	bool accepted, dead[2];
	int64_t heard_ns[2]; /* time of the last answer to a ping */
	char address[WEIR_ADDRESS_BYTES_MAX];
	struct flow *flows;
};

/* Returns a live connection of the current node to the address: `last` if it still lives. */
struct connection *connection_to(struct connection *last, const char *address);
void connection_leave(struct connection *c); /* the client closes it; c may be NULL */

struct flow *flow_create(enum rpc_method method, struct rpc_loop *client, void *object,
                         void (*deliver)(void *object, struct packet *p));
void flow_start(struct flow *f, struct connection *c);
void flow_end(struct flow *f, enum side side); /* stops all delivery to that end */

/* Call on the loop of the sending end. m is borrowed and may be NULL. */
void packet_send(struct flow *f, enum side from, enum packet_kind kind, weir_status status, const char *text,
                 const struct message *m);
/* Sends to one of our own ends through its loop. */
void packet_local(struct flow *f, enum side side, enum packet_kind kind, weir_status status, const char *text);
void packet_free(struct packet *p);
const char *packet_text(const struct packet *p);
struct message *packet_message(const struct packet *p); /* NULL: out of memory */

/* Adds a listener. Returns E_EXISTS if a live process listens at this address. */
weir_status listener_add(const char *address, struct rpc_server *server, weir_error *err);
void listener_remove(const struct rpc_server *server);

/* In rpc_sim.c; runs in an event. Offers an opening or request to a listener. Returns false if it
 * is refused. */
bool server_admit(struct rpc_server *server, struct packet *p);
void failure_text(char *out, size_t size, const struct flow *f, const char *detail);
/* In stream.c. */
void stream_begin(void *packet); /* on its loop: an admitted opening creates the server's end */

struct rpc_stream *sim_stream_create(struct rpc_channel *channel);
void sim_stream_start(struct rpc_stream *stream);
void sim_stream_transmit(struct rpc_stream *stream, struct message *m);
void sim_stream_read(struct rpc_stream *stream);
void sim_stream_half_close(struct rpc_stream *stream);
void sim_stream_cancel(struct rpc_stream *stream, weir_status status, const char *text);
struct connection *channel_connection(struct rpc_channel *channel); /* returns a live one */
uint32_t network_window(void);

#endif
