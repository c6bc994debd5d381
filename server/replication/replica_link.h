/* What the replicas of one executor send to those of other servers: a stream to each server that one of them has something for.
 *
 * Nothing is sent at once. What has come together when the loop's turn ends goes in one frame: messages in their order, entries, partition after partition,
 * as many as fit, and the newest acknowledgement of each partition; the next frame when the stream has taken this one. Entries are asked for only then, so
 * while the other server does not read (replica_intake.h has its limit) nothing is gathered for it, and whoever appends can see that it has no room.
 *
 * Messages come in the order in which they were sent, but that an acknowledgement may come behind what was sent after it. For a server that cannot be reached
 * nothing but acknowledgements is kept: every message may be lost. Replicas say again what matters, and rewind to where their peer's log ends.
 *
 * One owner: the executor's loop. */
#ifndef WEIR_REPLICA_LINK_H
#define WEIR_REPLICA_LINK_H

#include "common/system/logger.h"
#include "proto/rpc/rpc.h"
#include "server/log/log.h"
#include "server/replica/replica.h"

struct replica_links;

struct replica_links_options {
	struct rpc *rpc;
	struct rpc_loop *loop;
	struct logger *logger;
	uint8_t uuid[16]; /* of the job */
	uint64_t generation;
	uint16_t self;                /* this server, */
	uint32_t servers, partitions; /* of so many */
	void *arg;                    /* of the calls that follow, which come on the loop */
	/* Where a server listens, copied to out (WEIR_ADDRESS_BYTES_MAX); false: that is not known. Asked for each attempt to reach it. */
	bool (*address)(void *arg, uint16_t server, char *out);
	/* There is room again for a server for which replica_links_has_room said that there is none. May be NULL. */
	void (*room)(void *arg, uint16_t server);
};

/* Where a partition's entries come from. */
struct replica_source {
	const struct replica *replica; /* replica_peers, replica_batch */
	void *arg; /* of the calls that follow, which come from the loop, never from inside a function of this header */
	/* NULL: the log has it no more. Valid until the log changes. */
	const struct log_entry *(*entry)(void *arg, uint64_t index);
	void (*shipped)(void *arg, uint16_t to, uint64_t last, uint64_t commit); /* replica_shipped */
};

weir_status replica_links_create(struct replica_links **out, const struct replica_links_options *options,
                                 weir_error *err) WEIR_MUST_CHECK;
/* Ends all streams. From a thread that is no loop, when nothing else calls any more; sources may be asked until it returns. NULL is allowed. */
void replica_links_destroy(struct replica_links *l);

/* Every 100 ms or so: tries to reach servers whose stream is lost, if there is something for them. */
void replica_links_tick(struct replica_links *l);
/* m goes to m->to; an ACK takes the place of one that waits. Not an APPEND with entries. m and its epochs are borrowed. */
void replica_links_send(struct replica_links *l, uint16_t partition, const struct replica_message *m);
/* There may be something for the replica's peers. The source stays what it is until it is replaced or forgotten. */
void replica_links_ship(struct replica_links *l, uint16_t partition, const struct replica_source *source);
/* The partition's source is no more. */
void replica_links_forget(struct replica_links *l, uint16_t partition);
/* Whether the server takes what is sent; false also while it cannot be reached. */
bool replica_links_has_room(struct replica_links *l, uint16_t server);

struct replica_links_stats {
	uint64_t frames, bytes; /* given to streams */
	uint64_t entries;
	uint64_t connects; /* streams that came to be */
};
/* Of the link to one server. */
struct replica_links_stats replica_links_get_stats(const struct replica_links *l, uint16_t server);

#endif
