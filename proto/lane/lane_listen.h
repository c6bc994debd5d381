/* Accepts lanes. The gRPC side of a server issues a ticket to a client that may open a stream; the
 * client then connects here and shows the ticket's token, once, within WEIR_LANE_OPEN_MS and from
 * the same address. Whoever shows no ticket is hung up on.
 *
 * Tickets may be issued by any thread; the rest runs on the thread of the poll. */
#ifndef WEIR_LANE_LISTEN_H
#define WEIR_LANE_LISTEN_H

#include "proto/lane/lane_poll.h"
#include "proto/lane/lane_wire.h"

/* What a ticket is for: whoever issued it gives the fields their meaning. */
struct lane_ticket {
	unsigned method, role;
	void *place;
	int64_t until_ns;                     /* when the stream must end; 0: no such limit */
	char address[WEIR_ADDRESS_BYTES_MAX]; /* the client's, as lane_peer_address writes it */
};

struct lane_listener;
struct lane_listener_options {
	/* The address of the gRPC side: "unix:/path" or "HOST:PORT". The lane of a unix socket is the
	 * socket beside it, with the ending LANE_SOCKET_ENDING. */
	const char *address;
	uint32_t port; /* of a lane by TCP; 0: any */
	/* A client has shown the ticket. It owns fd, on which the greeting has been answered. */
	void (*arrived)(void *arg, int fd, const struct lane_ticket *ticket);
	/* The connection has proven itself; may be NULL. */
	void (*trust)(int fd);
	void *arg;
};
#define LANE_SOCKET_ENDING ".lane"

/* From any thread. E_MEMORY, E_IO, E_LIMIT: nothing listens. */
weir_status lane_listener_create(struct lane_listener **out, const struct lane_listener_options *options,
                                 weir_error *err) WEIR_MUST_CHECK;
weir_status lane_listener_start(struct lane_listener *l, struct lane_poll *poll, weir_error *err) WEIR_MUST_CHECK;
/* No new lanes; visitors that have not shown a ticket are hung up on. On the thread of the poll. */
void lane_listener_stop(struct lane_listener *l);
void lane_listener_destroy(struct lane_listener *l); /* after stop, or if it was never started; NULL is allowed */
/* The port; 0: a unix socket. */
uint32_t lane_listener_port(const struct lane_listener *l);
/* E_BUSY: WEIR_LANE_TICKETS_MAX have been issued and not shown yet. */
weir_status lane_listener_issue(struct lane_listener *l, const struct lane_ticket *ticket,
                                uint8_t token[LANE_TOKEN_BYTES]) WEIR_MUST_CHECK;
/* The host at the other end, without a port; "unix". */
void lane_peer_address(int fd, char out[WEIR_ADDRESS_BYTES_MAX]);

#endif
