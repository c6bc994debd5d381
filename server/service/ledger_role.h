/* The ledger's replica on this server: its log (ledger_log.h) as what the driver (replication.h) replicates, on the ledger's loop. Where the job has one copy of everything
 * there is none, and all of these but the first two do nothing.
 *
 * At first the ledger is where partition 0 is, with server 0 as its primary; then it moves like a partition (hosting.h). So where there are replicas every server
 * has its loop and an empty log, and takes part when it is to. Requests reach the ledger of the primary only, once what former ones have decided is committed; they
 * wait while it hands over, and are told E_MOVED everywhere else. */
#ifndef WEIR_LEDGER_ROLE_H
#define WEIR_LEDGER_ROLE_H

#include "server/service/server_internal.h"

struct replica_record;
struct replication;

/* Whether the ledger, or a replica of it, may ever be on this server; whether it is to be there if nobody has said otherwise. */
bool ledger_role_may_come(const struct server *s);
bool ledger_role_is_first_host(const struct server *s);

/* The log, where it is in memory; on disk it is durable.h's. */
weir_status ledger_role_prepare(struct server *s, weir_error *err);
void ledger_role_appended(void *server, uint64_t index); /* ledger_log_options.appended */
/* With those of roles.h. From a thread that is no loop. */
weir_status ledger_role_start(struct server *s, weir_error *err);
void ledger_role_end_snapshots(struct server *s); /* before what lies below is closed */
void ledger_role_stop(struct server *s);
void ledger_role_free(struct server *s);
/* --- On the ledger's loop */
void ledger_role_tick(struct server *s);         /* every 100 ms or so */
void ledger_role_durable(struct server *s);      /* the log has become durable further */
bool ledger_role_serves(const struct server *s); /* requests are taken, or wait; with one copy always */
/* Where the log of a primary that serves stands. False: this server's does not, or hands it over, or something that the ledger has decided is not in its log yet.
 * With one copy it always stands, at 0. */
struct ledger_stand {
	uint64_t epoch, decided, committed; /* log indices */
};
bool ledger_role_stands(const struct server *s, struct ledger_stand *out);
/* Who has the ledger, as far as this server's replica knows; NULL: there is none. */
const struct replica_record *ledger_role_record(const struct server *s);
void ledger_role_leave(struct server *s); /* takes no request any more, and who waits is told to ask another server */

#endif
