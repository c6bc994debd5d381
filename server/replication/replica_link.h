/* Sends messages of one executor's replicas to other servers, on one stream to each server that is
 * needed.
 *
 * Nothing is sent at once. At the end of the loop's turn, one frame takes all that has gathered:
 * messages in their order, entries of partition after partition as far as they fit, and the newest
 * acknowledgement of each partition. The next frame follows when the stream has taken this one.
 * Only then are entries requested. So while the other server does not read (replica_intake.h has
 * its limit), nothing is gathered for it, and the appender can see that it has no room.
 *
 * Messages arrive in the order in which they were sent, except that an acknowledgement may arrive
 * later than messages sent after it. While a server is unreachable, only acknowledgements are kept:
 * any message may be lost. Replicas repeat important messages, and rewind to the end of their
 * peer's log.
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
	uint16_t self;                /* this server */
	uint32_t servers, partitions; /* servers: how many there are */
	void *arg;                    /* of the calls below, which come on the loop */
	/* Copies the address of a server to out (WEIR_ADDRESS_BYTES_MAX). False: not known. Asked for
	 * each attempt to connect. */
	bool (*address)(void *arg, uint16_t server, char *out);
	/* There is room again for a server for which replica_links_has_room was false. May be NULL. */
	void (*room)(void *arg, uint16_t server);
};

/* The source of a partition's entries. */
struct replica_source {
	const struct replica *replica; /* replica_peers, replica_batch */
	/* Of the calls below. They come from the loop, never from inside a function of this header. */
	void *arg;
	/* NULL: the entry has left the log. Valid until the log changes. */
	const struct log_entry *(*entry)(void *arg, uint64_t index);
	void (*shipped)(void *arg, uint16_t to, uint64_t last, uint64_t commit); /* replica_shipped */
};

weir_status replica_links_create(struct replica_links **out, const struct replica_links_options *options,
                                 weir_error *err) WEIR_MUST_CHECK;
/* Ends all streams. Call from a thread that is not a loop, after all other calls. Sources may be
 * asked until it returns. NULL does nothing. */
void replica_links_destroy(struct replica_links *l);

/* Call about every 100 ms: reconnects lost streams if something waits for their servers. */
void replica_links_tick(struct replica_links *l);
/* Sends m to m->to. An ACK replaces one that waits. m is not an APPEND with entries. m and its
 * epochs are borrowed. */
void replica_links_send(struct replica_links *l, uint16_t partition, const struct replica_message *m);
/* Tells that the replica's peers may need entries. The source stays valid until it is replaced or
 * forgotten. */
void replica_links_ship(struct replica_links *l, uint16_t partition, const struct replica_source *source);
/* Forgets the partition's source. */
void replica_links_forget(struct replica_links *l, uint16_t partition);
/* Whether the server takes what is sent; false also while it is unreachable. */
bool replica_links_has_room(struct replica_links *l, uint16_t server);

struct replica_links_stats {
	uint64_t frames, bytes; /* given to streams */
	uint64_t entries;
	uint64_t connects; /* streams that were established */
};
/* Of the link to one server. */
struct replica_links_stats replica_links_get_stats(const struct replica_links *l, uint16_t server);

#endif
