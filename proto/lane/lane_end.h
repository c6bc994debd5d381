/* One end of a lane: a connection, after its greeting, that carries the messages of one stream.
 * Everything runs on the loop's thread; every event runs in lane_poll_wait, never inside the
 * function that caused it.
 *
 * A message is sent as it is, from its own memory, by one system call where the socket has room. A
 * message is received straight into memory of its own, of one piece, apart from its first bytes,
 * which come with its header. Lending the kernel the pages of a message (vmsplice) is no faster:
 * `weir bench lane` shows it.
 *
 * A peer from which nothing has come for WEIR_DEAD_PEER_MS, while this side was reading, is
 * dead. */
#ifndef WEIR_LANE_END_H
#define WEIR_LANE_END_H

#include "common/base/message.h"
#include "proto/lane/lane_poll.h"

struct lane_events {
	void (*sent)(void *arg);
	/* Borrowed. Nothing more is read until lane_end_read. */
	void (*message)(void *arg, struct message *m);
	void (*half_closed)(void *arg); /* the client sends no more */
	/* Once, last. A client's status is the server's if it told one. Else E_UNAVAILABLE at the
	 * client and E_CANCELLED at the server: the connection is gone. */
	void (*closed)(void *arg, weir_status status, const char *text);
};

struct lane_end;
/* Takes fd over, which does not block, and begins to read. NULL: fd is closed; E_MEMORY,
 * E_LIMIT. */
struct lane_end *lane_end_create(struct lane_poll *poll, int fd, bool is_server, const struct lane_events *events, void *arg,
                                 weir_error *err);
/* Takes m over. One message at a time: wait for `sent`. */
void lane_end_send(struct lane_end *e, struct message *m);
void lane_end_read(struct lane_end *e);
void lane_end_half_close(struct lane_end *e); /* client, when no message is being sent */
/* Ends the stream: `closed` follows with this status. A server's client gets it too. */
void lane_end_finish(struct lane_end *e, weir_status status, const char *text);
/* Whether a client's end has this descriptor: for a forked child, which must not keep it open. */
bool lane_end_is_client(int fd);

#endif
