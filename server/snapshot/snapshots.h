/* What a server has for the snapshots of its partitions, of all together: who sends them (snapshot_send.h), the streams on which learners take them
 * (snapshot_stream.h), and the connections over which its own learners do. */
#ifndef WEIR_SNAPSHOTS_H
#define WEIR_SNAPSHOTS_H

#include "server/context/context.h"
#include "server/snapshot/snapshot_send.h"

struct snapshots;

/* Before streams come in. bytes_per_s: of all that are sent; 0: no limit. */
weir_status snapshots_create(struct snapshots **out, struct server *s, uint64_t bytes_per_s, weir_error *err) WEIR_MUST_CHECK;
/* Those being sent end, and none begins any more. Any thread, and again. NULL is allowed. */
void snapshots_close(struct snapshots *n);
/* Closed; the loops run, every session and fetch has ended, no stream comes in any more. From a thread that is no loop. NULL is allowed. */
void snapshots_destroy(struct snapshots *n);

struct snapshot_sender *snapshots_sender(const struct snapshots *n);
/* Takes a stream that another server has opened (rpc_service.stream_open). */
const struct rpc_stream_handler *snapshots_open(struct snapshots *n, struct rpc_stream *stream, void **arg);
/* To a server, on the executor's loop, which calls; it stays open until snapshots_destroy. E_UNAVAILABLE: its address is not known. */
weir_status snapshots_channel(struct snapshots *n, const struct executor *e, uint16_t server, struct rpc_channel **out,
                              weir_error *err) WEIR_MUST_CHECK;

#endif
