/* The snapshots of all partitions of a server: their sender (snapshot_send.h), the streams on which
 * learners receive them (snapshot_stream.h), and the connections of the server's own learners. */
#ifndef WEIR_SNAPSHOTS_H
#define WEIR_SNAPSHOTS_H

#include "server/context/context.h"
#include "server/snapshot/snapshot_send.h"

struct snapshots;

/* Call before streams arrive. bytes_per_s: for all sent snapshots together; 0: no limit. */
weir_status snapshots_create(struct snapshots **out, struct server *s, uint64_t bytes_per_s, weir_error *err) WEIR_MUST_CHECK;
/* Ends the snapshots being sent and refuses new ones. Any thread; may be repeated. NULL is
 * allowed. */
void snapshots_close(struct snapshots *n);
/* Needs: closed; the loops run; every session and fetch has ended; no stream arrives any more. Call
 * from a thread that is not a loop. NULL is allowed. */
void snapshots_destroy(struct snapshots *n);

struct snapshot_sender *snapshots_sender(const struct snapshots *n);
/* Accepts a stream that another server has opened (rpc_service.stream_open). */
const struct rpc_stream_handler *snapshots_open(struct snapshots *n, struct rpc_stream *stream, void **arg);
/* Opens or finds a channel to a server, on the calling executor's loop. It stays open until
 * snapshots_destroy. E_UNAVAILABLE: the server's address is not known. */
weir_status snapshots_channel(struct snapshots *n, const struct executor *e, uint16_t server, struct rpc_channel **out,
                              weir_error *err) WEIR_MUST_CHECK;

#endif
