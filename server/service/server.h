/* A parameter server: partitions owned by executors, the service in front of them, and on one server of the job the ledger. Everything it
 * needs is in its options, so that several live in one process. */
#ifndef WEIR_SERVER_H
#define WEIR_SERVER_H

#include <stdint.h>

#include "server/cluster/loop_watch.h"
#include "server/context/server_options.h"

struct server;

/* Starts serving. On failure nothing is left running. */
weir_status server_create(struct server **out, const struct server_options *options, weir_error *err);
const char *server_address(const struct server *s); /* with the real port */
/* Whether a thread of it is stuck (loop_watch.h); which, and for how long. Any thread. */
bool server_stuck(const struct server *s, char thread[LOOP_WATCH_NAME_BYTES], uint64_t *ms);
/* Whether it has been told what the coordinator has; without one, always. Until then it serves, but has no partition. Any thread. */
bool server_is_coordinated(const struct server *s);
/* Where partitions have replicas, before server_drain: what it is primary of goes to others in sync, in a fifth of the time in which these would find it dead. For
 * timeout_ms at most. From a thread that is no loop. */
void server_hand_over(struct server *s, uint32_t timeout_ms);
/* Not serving any more (health says so): accepts no connections, answers what has arrived, ends the streams, at most timeout_ms. */
void server_drain(struct server *s, uint32_t timeout_ms);
/* Stops, drained or not, and frees. From a thread that is no loop. */
void server_destroy(struct server *s);

#endif
