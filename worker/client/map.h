/* Which server has which partition, as far as this client knows, and what happens when that is no longer true.
 *
 * Invariants
 *   - Of two claims about a partition the one of the larger epoch counts; of equal epochs, the one of the larger revision. The other changes nothing.
 *   - What is sent again is what was sent: the same bytes, identity and request id, cut out of their frame (frame_cut), never encoded anew.
 *   - All requests of a partition that are under way are at one server, in the order in which they were submitted, and move together. An answer counts
 *     only if it comes from there.
 *   - In front of them goes a RESUME of the partition, so that a server which lacks what another acknowledged says so first.
 *   - What concerns all partitions (a seal, the close of a step, a retirement) is a request to each, and done when each has answered.
 *   - However often a partition moves: if none of its requests is answered for patience_ms, they fail. */
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
	uint64_t epoch, revision;             /* of the claim */
	bool moved;                           /* its requests are to be moved: it is elsewhere now, or was refused */
	int64_t waits_ms;                     /* since when it has moved and not answered; 0: it answers */
	uint16_t replicas[WEIR_REPLICAS_MAX]; /* (replicas_count) servers with one that is in sync, as the newest map says */
	uint32_t replicas_count, turn;        /* turn: of the one to be read next */
	int64_t readable_ms;                  /* others than the primary's are not read before */
};

struct map {
	uint64_t revision;        /* of the newest map that was taken as a whole */
	uint64_t changes;         /* how often something moved */
	struct map_place *places; /* (partitions) */
	/* Asking for a newer one, one server at a time. */
	bool wanted, asking, timer;
	bool unanswered;      /* the last question was */
	uint32_t hint, asked; /* the server to ask, WEIR_SERVER_NONE: any; the one asked last */
	uint32_t pause_ms;    /* behind the next one */
	int64_t next_ms;      /* not before */
	int64_t taken_ms;     /* when one was taken last */
};

uint32_t map_server(weir_client *c, uint32_t partition); /* that has it; without the lock */

/* All under the lock. */
/* Takes newer claims, and moves what they move. The first one makes the client's links. On the loop, or while nothing is under way. E_CORRUPT. */
weir_status map_take(weir_client *c, const Weir__V1__PartitionMap *m, weir_error *err);
void map_free(weir_client *c);
/* On the loop: the request's server says, in r, that another has the partition. */
void map_refused(struct lane *lane, struct request *q, const struct record *r);
void map_answered(weir_client *c, uint32_t partition);
void map_waits(weir_client *c, uint32_t partition); /* a request of it is being moved */
/* Asks for a newer map, soon. On the loop. hint: the server to ask, WEIR_SERVER_NONE: any. */
void map_want(weir_client *c, uint32_t hint);
/* The same of a caller's thread: posted to the loop, without the lock. arg: the client. */
void map_ask(void *client);
/* Asks when a server does not answer, and ends what has waited too long. On the loop, often. */
void map_tick(weir_client *c);
void map_forgive_pause(weir_client *c, int64_t pause_ms);
bool map_uses(const weir_client *c, uint32_t server); /* some partition is there */
void map_forget_waits(weir_client *c);                /* nothing is under way any more */

#endif
