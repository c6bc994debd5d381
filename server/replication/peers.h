/* What the replicas of this server say to those of other servers, and hear from them: for each executor, and the ledger's loop, the links of its replicas (replica_link.h), and the
 * server's end of the others' links (replica_intake.h). */
#ifndef WEIR_PEERS_H
#define WEIR_PEERS_H

#include "server/context/context.h"
#include "server/replication/replication.h"

struct peers;
struct scrub;

/* Where messages of a partition, or of the ledger, go to. On its loop, but for `replication`. */
struct peers_directory {
	struct replication *(*replication)(const struct server *s, uint16_t partition); /* NULL: it is not here */
	struct scrub *(*scrub)(const struct server *s, uint16_t partition);             /* NULL: it has none */
	bool (*takes_part)(const struct server *s, uint16_t partition);                 /* messages concern it */
};

/* Before the drivers. directory: borrowed. E_MEMORY. */
weir_status peers_create(struct peers **out, struct server *s, const struct peers_directory *directory,
                         weir_error *err) WEIR_MUST_CHECK;
/* From a thread that is no loop: the loops run, no stream comes in any more, and nobody ticks; sources may be asked until it returns. NULL is allowed. */
void peers_destroy(struct peers *p);

/* What the drivers of a loop's partitions, or of the ledger, send through, and its argument. */
const struct replication_network *peers_network(void);
void *peers_of(struct peers *p, const struct rpc_loop *loop);
void peers_tick(struct peers *p, const struct rpc_loop *loop); /* every 100 ms or so, on the loop */

/* Takes a stream that another server has opened (rpc_service.stream_open). */
const struct rpc_stream_handler *peers_open(struct peers *p, struct rpc_stream *stream, void **arg);
/* Ends those on an executor's loop, which calls: the server is about to end. */
void peers_end_streams(struct peers *p, const struct rpc_loop *loop);

#endif
