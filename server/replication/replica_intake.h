/* What the replicas of other servers send to ours: the server's end of their links (replica_link.h). A stream comes on any of the server's loops; its records
 * are checked there, and go to the loops of their partitions' replicas, in order. What waits for those loops is limited: a stream of which more than
 * WEIR_REPLICA_CREDIT_BYTES wait is not read until half of that is done, and its sender sends no more.
 *
 * The first record says which server the stream is from. A stream that brings another one's records, or bytes that are none of a replica's, of another job or
 * generation, is ended with the reason; its server opens another one. */
#ifndef WEIR_REPLICA_INTAKE_H
#define WEIR_REPLICA_INTAKE_H

#include "common/system/logger.h"
#include "proto/rpc/rpc.h"
#include "server/replication/replica_wire.h"

/* Made by the server, and there until its streams and what came on them are through (leave). */
struct replica_intake {
	struct logger *logger;
	uint8_t uuid[16]; /* of the job */
	uint64_t generation;
	uint16_t self;                /* this server, */
	uint32_t servers, partitions; /* of so many */
	void *arg;                    /* of the calls that follow */
	/* The loop of the partition's replica (JOURNAL_LEDGER: the ledger's); NULL: none is here, and what comes for it is dropped. Any loop. */
	struct rpc_loop *(*owner)(void *arg, uint16_t partition);
	/* On that loop. x is borrowed; who keeps an entry retains its message. */
	void (*deliver)(void *arg, const struct replica_wire *x);
	/* Something came from the server; on the stream's loop. May be NULL. */
	void (*heard)(void *arg, uint16_t server);
	/* A stream needs the server's loops from enter to leave, which comes after its last delivery. */
	void (*enter)(void *arg);
	void (*leave)(void *arg);
};

/* Takes a stream that a server has opened (rpc_service.stream_open). */
const struct rpc_stream_handler *replica_intake_open(const struct replica_intake *in, struct rpc_stream *stream, void **arg);

#endif
