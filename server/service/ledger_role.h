/* The ledger's replica on this server: its log (ledger_log.h) as the subject that the driver
 * (replication.h) replicates, on the ledger's loop. If the job has one copy of everything, there is
 * no replica, and all functions here except the first two do nothing.
 *
 * At first the ledger is placed like partition 0, with server 0 as its primary. Later it moves like
 * a partition (placement.h). So with replicas every server has the ledger's loop and an empty log,
 * and takes part when assigned. Requests reach only the primary's ledger, once all earlier
 * decisions are committed. They wait while the ledger is handed over, and get E_MOVED on all other
 * servers. */
#ifndef WEIR_LEDGER_ROLE_H
#define WEIR_LEDGER_ROLE_H

#include "server/service/server_internal.h"

struct replica_record;
struct replication;

/* Whether the ledger, or a replica of it, may ever be on this server; and whether it is here
 * without an assignment. */
bool ledger_role_may_come(const struct server *s);
bool ledger_role_is_first_host(const struct server *s);

/* Creates the log if it is in memory. A log on disk is durable.h's. */
weir_status ledger_role_prepare(struct server *s, weir_error *err);
void ledger_role_appended(void *server, uint64_t index); /* ledger_log_options.appended */
/* Call with the corresponding functions of roles.h. From a thread that is no loop. */
weir_status ledger_role_start(struct server *s, weir_error *err);
void ledger_role_end_snapshots(struct server *s); /* before the layers below are closed */
void ledger_role_stop(struct server *s);
void ledger_role_destroy(struct server *s);
/* --- On the ledger's loop */
void ledger_role_tick(struct server *s);    /* about every 100 ms */
void ledger_role_durable(struct server *s); /* the log has become durable further */
/* Requests are taken, or wait; with one copy always. */
bool ledger_role_serves(const struct server *s);
/* The state of a serving primary's log. ledger_role_stands returns false if this server's ledger
 * does not serve or is being handed over, or if one of its decisions is not in the log yet. With
 * one copy it always returns true, with zeros. */
struct ledger_stand {
	uint64_t epoch, decided, committed; /* log indices */
};
bool ledger_role_stands(const struct server *s, struct ledger_stand *out);
/* The record of the ledger, as far as this server's replica knows. NULL: no replica. */
const struct replica_record *ledger_role_record(const struct server *s);
/* Takes no request any more, and sends waiting callers to another server. */
void ledger_role_leave(struct server *s);

#endif
