/* Between the network and the transport over it. */
#ifndef WEIR_SIM_NETWORK_INTERNAL_H
#define WEIR_SIM_NETWORK_INTERNAL_H

#include "proto/rpc/rpc_transport.h"
#include "tests/sim/net/network.h"

enum side { CLIENT, SERVER };

enum packet_kind {
	/* Of calls. */
	PACKET_REQUEST,
	PACKET_REPLY,
	/* Of streams. */
	PACKET_OPEN,
	PACKET_DATA,
	PACKET_TAKEN, /* the receiver has one more message */
	PACKET_HALF_CLOSE,
	PACKET_CLOSED,
	/* Not on the way anywhere: an end's own. */
	PACKET_SENT,
	PACKET_READ,
	PACKET_LOCAL_CLOSED,
	PACKET_BROKEN /* the connection is; status OK: it was reset, E_TIMEOUT: the peer was silent */
};

struct packet {
	struct packet *next; /* in whoever's list */
	struct flow *flow;
	enum side to;
	enum packet_kind kind;
	uint64_t sequence; /* of the flow, in this direction */
	weir_status status;
	struct rpc_server_slot *slot; /* of a request or opening that was let in */
	char *text;                   /* NULL: "" */
	size_t bytes;
	uint8_t *data; /* (bytes) */
};

/* A call or a stream, as the network sees it. It is there until the world ends. */
struct flow {
	struct connection *connection; /* NULL until it is started */
	struct flow *next;             /* of the connection */
	enum rpc_method method;
	struct flow_end {
		struct rpc_loop *loop; /* where its packets go; NULL: it is over, or not there yet */
		void *object;          /* in the memory of its process */
		void (*deliver)(void *object, struct packet *p);
		uint64_t sent, received;
		struct packet *early; /* arrived before one that was sent before them, by sequence */
	} end[2];
};

/* A channel's connection. */
struct connection {
	struct connection *next;
	struct node *node[2]; /* the server's: NULL when nobody ever listened there */
	uint64_t life[2];     /* of the node; the server's once it is accepted */
	bool accepted, dead[2];
	int64_t heard_ns[2]; /* last answer to a ping */
	char address[WEIR_ADDRESS_BYTES_MAX];
	struct flow *flows;
};

/* A live connection of the current node to the address: `last` while that lives. */
struct connection *connection_to(struct connection *last, const char *address);
void connection_leave(struct connection *c); /* the client closes it; NULL is allowed */

struct flow *flow_create(enum rpc_method method, struct rpc_loop *client, void *object,
                         void (*deliver)(void *object, struct packet *p));
void flow_start(struct flow *f, struct connection *c);
void flow_end(struct flow *f, enum side side); /* nothing is delivered to it any more */

/* On the loop of the sending end. m is borrowed and may be NULL. */
void packet_send(struct flow *f, enum side from, enum packet_kind kind, weir_status status, const char *text,
                 const struct message *m);
/* To an end of our own, through its loop. */
void packet_local(struct flow *f, enum side side, enum packet_kind kind, weir_status status, const char *text);
void packet_free(struct packet *p);
const char *packet_text(const struct packet *p);
struct message *packet_message(const struct packet *p); /* NULL when out of memory */

/* Who listens. E_EXISTS when a live process does at this address. */
weir_status listener_add(const char *address, struct rpc_server *server, weir_error *err);
void listener_remove(const struct rpc_server *server);

/* rpc_sim.c: an opening or a request that arrived at a listener, in an event. False: it was not let in. */
bool server_admit(struct rpc_server *server, struct packet *p);
void failure_text(char *out, size_t size, const struct flow *f, const char *detail);
/* stream.c */
void stream_begin(void *packet); /* on its loop: a server's end begins with an opening that was let in */

struct rpc_stream *sim_stream_create(struct rpc_channel *channel);
void sim_stream_start(struct rpc_stream *stream);
void sim_stream_transmit(struct rpc_stream *stream, struct message *m);
void sim_stream_read(struct rpc_stream *stream);
void sim_stream_half_close(struct rpc_stream *stream);
void sim_stream_cancel(struct rpc_stream *stream, weir_status status, const char *text);
struct connection *channel_connection(struct rpc_channel *channel); /* a live one */
uint32_t network_window(void);

#endif
