/* The partition map of a client: the server of each partition, as far as the client knows, and the
 * moves of requests when it changes.
 *
 * Invariants
 *   - Of two claims about a partition the one with the larger epoch counts; with equal epochs, the
 *     one with the larger revision. The other changes nothing.
 *   - A request sent again has the same bytes, identity and request id. It is cut out of its frame
 *     (frame_cut), never encoded anew.
 *   - All requests of a partition that are under way are at one server, in the order in which they
 *     were submitted, and move together. An answer counts only if it comes from that server.
 *   - A RESUME of the partition goes in front of them, so that a server that lacks entries which
 *     another acknowledged says so first.
 *   - An operation on all partitions (a seal, the close of a step, a retirement) is a request to
 *     each, and completes when each has answered.
 *   - However often a partition moves: if none of its requests is answered for patience_ms, they
 *     fail. */
#ifndef WEIR_MAP_H
#define WEIR_MAP_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/limits.h"
#include "proto/wire/wire.h"
#include "weir/weir.h"

struct lane;
struct record;
struct request;

struct map_place {
	uint32_t server;
	uint64_t epoch, revision; /* of the claim */
	/* Its requests are to be moved: it is at another server now, or was refused. */
	bool moved;
	int64_t waits_ms; /* since when it has moved without an answer; 0: it answers */
	/* (replicas_count) servers with an in-sync replica, as in the newest map */
	uint16_t replicas[WEIR_REPLICAS_MAX];
	uint32_t replicas_count, turn; /* turn: the replica to read next */
	/* Replicas other than the primary are not read before this time. */
	int64_t readable_ms;
};

struct map {
	uint64_t revision;        /* of the newest complete map */
	uint64_t changes;         /* number of moves */
	struct map_place *places; /* (partitions) */
	/* Requests for a newer map, to one server at a time. */
	bool wanted, asking, timer;
	bool unanswered;      /* the last request had no answer */
	uint32_t hint, asked; /* the server to ask, WEIR_SERVER_NONE: any; the server asked last */
	uint32_t pause_ms;    /* pause after the next request */
	int64_t next_ms;      /* time of the next request at the earliest */
	int64_t taken_ms;     /* when the last map was taken */
};

/* The server of the partition. Takes the lock itself. */
uint32_t map_server(weir_client *c, uint32_t partition);

/* All others under the lock. */

/* Takes newer claims, and moves the requests that they concern. The first map makes the client's
 * links. On the loop, or while nothing is under way. E_CORRUPT. */
weir_status map_take(weir_client *c, const Weir__V1__PartitionMap *m, weir_error *err);
void map_destroy(weir_client *c);
/* On the loop: the request's server says, in r, that another server has the partition. */
void map_refused(struct lane *lane, struct request *q, const struct record *r);
void map_answered(weir_client *c, uint32_t partition);
void map_waits(weir_client *c, uint32_t partition); /* one of its requests is being moved */
/* Asks for a newer map, soon. On the loop. hint: the server to ask, WEIR_SERVER_NONE: any. */
void map_want(weir_client *c, uint32_t hint);
/* The same from a caller's thread: post it to the loop, without the lock. arg: the client. */
void map_ask(void *client);
/* Asks for a map when a server does not answer, and fails requests that have waited too long. On
 * the loop, often. */
void map_tick(weir_client *c);
void map_forgive_pause(weir_client *c, int64_t pause_ms);
bool map_uses(const weir_client *c, uint32_t server); /* some partition is there */
void map_forget_waits(weir_client *c);                /* nothing is under way any more */

#endif
