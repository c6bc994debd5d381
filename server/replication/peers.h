/* Communication of this server's replicas with those of other servers. Each executor, and the
 * ledger's loop, has the links of its replicas (replica_link.h). The server has the other end of
 * the links from other servers (replica_intake.h). */
#ifndef WEIR_PEERS_H
#define WEIR_PEERS_H

#include "server/context/context.h"
#include "server/replication/replication.h"

struct peers;
struct scrub;

/* Finds the receivers of messages for a partition or the ledger. Called on the loop of that
 * partition; `replication` on any loop. */
struct peers_directory {
	/* NULL: it is not on this server */
	struct replication *(*replication)(const struct server *s, uint16_t partition);
	struct scrub *(*scrub)(const struct server *s, uint16_t partition); /* NULL: it has no scrub */
	/* Whether messages concern it. */
	bool (*takes_part)(const struct server *s, uint16_t partition);
};

/* Call before creating the drivers. directory: borrowed. E_MEMORY. */
weir_status peers_create(struct peers **out, struct server *s, const struct peers_directory *directory,
                         weir_error *err) WEIR_MUST_CHECK;
/* Call from a thread that is not a loop, while the loops run but no stream comes in and nobody
 * ticks. Sources may be asked until it returns. NULL does nothing. */
void peers_destroy(struct peers *p);

/* The network that the drivers of a loop's partitions, or of the ledger, send through. */
struct replication_network peers_network(struct peers *p, const struct rpc_loop *loop);
struct replica_links *peers_links(struct peers *p, const struct rpc_loop *loop);
void peers_tick(struct peers *p, const struct rpc_loop *loop); /* about every 100 ms, on the loop */

/* Takes a stream that another server has opened (rpc_service.stream_open). */
const struct rpc_stream_handler *peers_open(struct peers *p, struct rpc_stream *stream, void **arg);
/* Ends the streams on an executor's loop before the server ends. Call on that loop. */
void peers_end_streams(struct peers *p, const struct rpc_loop *loop);

#endif
