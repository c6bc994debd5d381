/* A parameter server: partitions owned by executors, the service in front of them, and on one
 * server of the job the ledger. All that it needs is in its options, so that several servers can
 * live in one process. */
#ifndef WEIR_SERVER_H
#define WEIR_SERVER_H

#include <stdint.h>

#include "server/cluster/loop_watch.h"
#include "server/context/server_options.h"

struct server;

/* Starts serving. On failure nothing is left running. */
weir_status server_create(struct server **out, const struct server_options *options, weir_error *err);
const char *server_address(const struct server *s); /* with the real port */
/* Whether a thread of the server is stuck (loop_watch.h); which one, and for how long. Any
 * thread. */
bool server_stuck(const struct server *s, char thread[LOOP_WATCH_NAME_BYTES], uint64_t *ms);
/* Whether the server has read the coordinator's records. Always true without a coordinator. Until
 * then it serves, but has no partition. Any thread. */
bool server_is_coordinated(const struct server *s);
/* With replicas, call before server_drain: hands the server's primary roles to other servers in
 * sync. This takes a fifth of the time that those need to detect a dead server. Takes at most
 * timeout_ms. From a thread that is no loop. */
void server_hand_over(struct server *s, uint32_t timeout_ms);
/* Ends serving, as health reports from then on: accepts no connections, answers requests that have
 * arrived, and ends the streams, within timeout_ms. */
void server_drain(struct server *s, uint32_t timeout_ms);
/* Stops, drained or not, and frees. From a thread that is no loop. */
void server_destroy(struct server *s);

#endif
