/* The heart of a server: tells the other servers that it is alive, and knows which of them have been silent.
 *
 * One message per pair of servers and tick, however many partitions they share. What replicas have to say that is small (heart_format.h) waits for the next
 * one and goes along; of each kind and partition only the newest, as a heartbeat repeats itself and may be lost like any message of replicas.
 *
 * Silence is counted in ticks that ran here (heartbeat.h), so there is no clock: the caller ticks. No thread, no I/O; one owner, its loop or a simulator.
 *
 * Who listens. On a machine that has too much to do a loop may tick in time while what others say waits in its sockets. So a server beats for itself, too, by the
 * same way, and once that is heard only ticks count before which it was: who does not hear itself would not have heard others.
 *
 * Who beats. A server is known by its number, its start by an incarnation, which grows, and by a number drawn at random, its boot. What comes from a former
 * start is refused, and so is a second process under the number and incarnation of the first: one of them has begun with another's data, or with none. */
#ifndef WEIR_HEART_H
#define WEIR_HEART_H

#include "server/cluster/heartbeat_format.h"
#include "server/records/heartbeat.h"

struct heart_options {
	uint8_t uuid[16]; /* of the job */
	uint64_t generation;
	uint16_t self;                /* this server, */
	uint32_t servers, partitions; /* of so many */
	uint64_t incarnation, boot;   /* of this start; the incarnation from 1 */
	uint32_t silent_ticks;        /* 0: WEIR_HEART_SILENT_TICKS */
	uint32_t first_ticks;         /* a server that was not heard yet is silent after so many only: it may have to find us again */
	void *arg;                    /* of the calls that follow */
	/* Takes m over; it may get lost. */
	void (*send)(void *arg, uint16_t to, struct message *m);
	/* From another server's replica of the partition (JOURNAL_LEDGER: of the ledger) to ours. May call heart_add. */
	void (*deliver)(void *arg, uint16_t partition, const struct replica_message *m);
	/* The server has been silent for silent_ticks; or has been heard again. */
	void (*silence)(void *arg, uint16_t server, bool silent);
};

struct heart;
struct heart *heart_create(const struct heart_options *options); /* NULL: out of memory */
void heart_destroy(struct heart *h);                             /* NULL is allowed */

/* m goes to m->to with the next heartbeat, in place of one of its kind and partition that still waits. Needs: heart_kind(m) is not 0. */
void heart_add(struct heart *h, uint16_t partition, const struct replica_message *m);
/* Every 100 ms or so of the loop's own running: counts, if this server listens, and tells of servers that are silent now. */
void heart_tick(struct heart *h);
/* The way to itself is lost: ticks count without, until it is heard again. */
void heart_lost_itself(struct heart *h);
/* From now on it says that this server's disk is slow, or is not. */
void heart_say_slow(struct heart *h, bool slow);
/* A heartbeat to every server, this one too, behind heart_tick; left out by a server that cannot do its work: others shall do it. */
void heart_beat(struct heart *h);
/* A heartbeat has come; m is borrowed. Refused as a whole, and nobody was heard: E_CORRUPT, E_VERSION; E_GENERATION: of another job; E_INVALID: not
 * for this server, or of a server or partition that there is not; E_STALE: from a former start; E_STATE: from a second process. */
weir_status heart_receive(struct heart *h, const struct message *m, weir_error *err) WEIR_MUST_CHECK;
/* Something else came from it. */
void heart_heard(struct heart *h, uint16_t server);

/* The start of the server that was heard last; zeros: none yet. */
struct heart_peer {
	uint64_t incarnation, boot;
};
struct heart_peer heart_get_peer(const struct heart *h, uint16_t server);
/* For replica_tick. */
const struct heartbeat *heart_silences(const struct heart *h);

#endif
