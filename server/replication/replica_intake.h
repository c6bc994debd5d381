/* Receives messages from the replicas of other servers: the server's end of their links
 * (replica_link.h). A stream may arrive on any loop of the server. Its records are checked there,
 * and go in order to the loops of their partitions' replicas. A stream with more than
 * WEIR_REPLICA_CREDIT_BYTES waiting for those loops is not read until half of them are done, so its
 * sender pauses.
 *
 * The first record names the server at the other end. The intake ends a stream, with the reason,
 * that brings records of another server, bytes that are not a replica's, or records of another job
 * or generation. The sender then opens a new one. */
#ifndef WEIR_REPLICA_INTAKE_H
#define WEIR_REPLICA_INTAKE_H

#include "common/system/logger.h"
#include "proto/rpc/rpc.h"
#include "server/replication/replica_wire.h"

/* Created by the server. It must exist until its streams have ended and their records are delivered
 * (leave). */
struct replica_intake {
	struct logger *logger;
	uint8_t uuid[16]; /* of the job */
	uint64_t generation;
	uint16_t self;                /* this server */
	uint32_t servers, partitions; /* servers: how many there are */
	void *arg;                    /* of the calls below */
	/* The loop of the partition's replica (JOURNAL_LEDGER: the ledger's). NULL: there is no replica
	 * here, and the record is dropped. Called on any loop. */
	struct rpc_loop *(*owner)(void *arg, uint16_t partition);
	/* Called on that loop. x is borrowed; to keep an entry, retain its message. */
	void (*deliver)(void *arg, const struct replica_wire *x);
	/* A frame came from the server; called on the stream's loop. May be NULL. */
	void (*heard)(void *arg, uint16_t server);
	/* A stream needs the server's loops from enter to leave, which comes after its last
	 * delivery. */
	void (*enter)(void *arg);
	void (*leave)(void *arg);
};

/* Takes a stream that a server has opened (rpc_service.stream_open). */
const struct rpc_stream_handler *replica_intake_open(const struct replica_intake *in, struct rpc_stream *stream, void **arg);

#endif
