/* Hosts of failure detectors that exchange heartbeats by hand. */
#ifndef WEIR_TESTS_DETECTOR_HOSTS_H
#define WEIR_TESTS_DETECTOR_HOSTS_H

#include "server/cluster/failure_detector.h"
#include "tests/cmocka_check.h"

enum { SERVERS = 3, PARTITIONS = 40, SENT_MAX = 16, GOT_MAX = HEARTBEAT_KINDS * (PARTITIONS + 1) };

/* A server with its failure detector. */
struct host {
	struct failure_detector *detector;
	struct message *sent[SENT_MAX]; /* (sent_count) */
	uint16_t to[SENT_MAX];
	uint32_t sent_count;
	struct heartbeat_item got[GOT_MAX]; /* (got_count) */
	uint32_t got_count;
	bool silent[SERVERS];
	uint32_t reports; /* calls of on_silence */
	bool answers;     /* replies to each item with an item */
};

struct failure_detector_options options_of(struct host *h, uint16_t self);
void host_start(struct host *h, uint16_t self);
void drop_sent(struct host *h);
void host_stop(struct host *h);
struct replica_message message_of(enum replica_message_kind kind, uint16_t from, uint16_t to, uint64_t n);
void assert_message(const struct replica_message *a, const struct replica_message *b);
extern const enum replica_message_kind kinds[HEARTBEAT_KINDS];

#endif
