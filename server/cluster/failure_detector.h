/* The failure detector of a server: tells the other servers that this one is alive, and knows which
 * of them are silent.
 *
 * Each tick sends one message per pair of servers, however many partitions they share. Small
 * messages of replicas (heartbeat_format.h) wait for the next heartbeat and travel in it. Only the
 * newest of each kind and partition is kept, because a heartbeat repeats itself and may be lost
 * like any message of replicas.
 *
 * Silence is counted in ticks that ran here (heartbeat.h). There is no clock: the caller ticks. No
 * thread and no I/O; one owner: its loop or a simulator.
 *
 * Own heartbeats. On an overloaded machine a loop may tick in time while the others' messages wait
 * in its sockets. So a server also sends heartbeats to itself over the same path. Once it has heard
 * itself, a tick counts only if the server heard itself since the tick before: a server that does
 * not hear itself would not have heard others either.
 *
 * Senders. A server is known by its number. Its start is known by an incarnation, which grows, and
 * by a process id drawn at random (`boot`). Heartbeats of a former start are refused. So is a
 * second process with the number and incarnation of the first: one of the two has begun with
 * another's data, or with none. */
#ifndef WEIR_FAILURE_DETECTOR_H
#define WEIR_FAILURE_DETECTOR_H

#include "server/cluster/heartbeat_format.h"
#include "server/records/heartbeat.h"

struct failure_detector_options {
	uint8_t uuid[16]; /* of the job */
	uint64_t generation;
	uint16_t self;                    /* this server */
	uint32_t servers, partitions;     /* servers and partitions of the job */
	uint64_t incarnation, process_id; /* of this start; the incarnation is at least 1 */
	uint32_t silent_ticks;            /* 0: WEIR_HEARTBEAT_SILENT_TICKS */
	/* A server not heard from yet is silent only after this many ticks: it may have to find this
	 * server again. */
	uint32_t first_ticks;
	void *arg; /* of the following calls */
	/* Owns m; m may get lost. */
	void (*send)(void *arg, uint16_t to, struct message *m);
	/* From another server's replica of the partition (JOURNAL_LEDGER: of the ledger) to ours. May
	 * call failure_detector_add. */
	void (*deliver)(void *arg, uint16_t partition, const struct replica_message *m);
	/* The server has been silent for silent_ticks, or was heard again. */
	void (*silence)(void *arg, uint16_t server, bool silent);
};

struct failure_detector;
struct failure_detector *failure_detector_create(const struct failure_detector_options *options); /* NULL: out of memory */
void failure_detector_destroy(struct failure_detector *h);                                        /* NULL is allowed */

/* Sends m to m->to with the next heartbeat, in place of a waiting message of the same kind and
 * partition. Requires: heartbeat_kind(m) is not 0. */
void failure_detector_add(struct failure_detector *h, uint16_t partition, const struct replica_message *m);
/* Call about every 100 ms of the loop's own running time. Counts the tick if this server hears
 * itself, and reports servers that are silent now. */
void failure_detector_tick(struct failure_detector *h);
/* The path to itself is lost: ticks count without it until the server hears itself again. */
void failure_detector_lost_itself(struct failure_detector *h);
/* Sets whether heartbeats report this server's disk as slow. */
void failure_detector_say_slow(struct failure_detector *h, bool slow);
/* Sends a heartbeat to every server, this one too; call it after failure_detector_tick. A server
 * that cannot do its work skips the call, so that others take over. */
void failure_detector_beat(struct failure_detector *h);
/* Takes in a heartbeat; m is borrowed. A refused heartbeat has no effect: its sender does not count
 * as heard. E_CORRUPT, E_VERSION; E_GENERATION: of another job or generation; E_INVALID: not for
 * this server, or of an unknown server or partition; E_STALE: from a former start; E_STATE: from a
 * second process. */
weir_status failure_detector_receive(struct failure_detector *h, const struct message *m, weir_error *err) WEIR_MUST_CHECK;
/* Another sign of life came from the server. */
void failure_detector_heard(struct failure_detector *h, uint16_t server);

/* The start of the server last heard from; zeros: none yet. */
struct failure_detector_peer {
	uint64_t incarnation, process_id;
};
struct failure_detector_peer failure_detector_get_peer(const struct failure_detector *h, uint16_t server);
/* For replica_tick. */
const struct heartbeat *failure_detector_silences(const struct failure_detector *h);

#endif
