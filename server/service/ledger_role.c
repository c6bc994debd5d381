#include "server/service/ledger_role.h"

#include "server/checkpoint/rewind.h"
#include "server/cluster/heartbeat_loop.h"
#include "server/cluster/placement.h"
#include "server/cluster/roles.h"
#include "server/ledger/ledger_log.h"
#include "server/log/journal.h"
#include "server/replication/peers.h"
#include "server/service/durable.h"
#include "server/snapshot/ledger_snapshot.h"

static bool is_replicated(const struct server *s)
{
	return s->ledger_loop && server_is_replicated(s);
}

bool ledger_role_may_come(const struct server *s)
{
	return server_is_replicated(s) || s->options.index == 0;
}

bool ledger_role_is_first_host(const struct server *s)
{
	const struct member_set hosts = server_first_hosts(s, JOURNAL_LEDGER);
	return member_set_has(&hosts, (uint16_t)s->options.index);
}

/* --- The subject */

static weir_status store(void *subject, const struct log_entry *e)
{
	const struct server *s = subject;
	weir_error err = {0};
	if (!ledger_snapshot_lets_store(s->ledger_snapshot))
		return WEIR_E_BUSY;
	weir_status status = ledger_log_take(s->ledger_log, e, &err);
	if (status)
		LOG_AT(s->options.logger, LOG_WARN, "entry not taken", "%s", err.text);
	return status;
}

static void stop_serving(struct server *s)
{
	s->ledger_paused = false;
	ledger_snapshot_stepped_down(s->ledger_snapshot);
	s->ledger = ledger_log_step_down(s->ledger_log, ledger_rpc_drop_moved);
	ledger_rpc_drop_held(s);
}

static weir_status truncate(void *subject, uint64_t last)
{
	struct server *s = subject;
	weir_error err = {0};
	stop_serving(s);
	return ledger_log_truncate(s->ledger_log, last, &err);
}

static weir_status reset(void *subject)
{
	const struct server *s = subject;
	return ledger_snapshot_reset(s->ledger_snapshot);
}

static void commit(void *subject, uint64_t index)
{
	ledger_log_commit_to(((struct server *)subject)->ledger_log, index);
}

static void begin(void *subject, uint64_t epoch)
{
	ledger_log_begin(((struct server *)subject)->ledger_log, epoch);
}

static void serve(void *subject)
{
	struct server *s = subject;
	if (s->ledger_left)
		return;
	if (!ledger_log_serves(s->ledger_log))
		LOG_AT(s->options.logger, LOG_INFO, "ledger served", "epoch=%llu",
		       (unsigned long long)replica_epoch(replication_replica(s->ledger_replication)));
	ledger_log_serve(s->ledger_log);
	s->ledger_paused = false;
	ledger_rpc_go_on(s);
}

static void pause_requests(void *subject)
{
	((struct server *)subject)->ledger_paused = true;
}

static void step_down(void *subject)
{
	struct server *s = subject;
	if (ledger_log_serves(s->ledger_log))
		LOG_AT(s->options.logger, LOG_WARN, "ledger moved", "another server has it now");
	stop_serving(s);
}

static void snapshot(void *subject, uint16_t member, uint64_t incarnation)
{
	const struct server *s = subject;
	ledger_snapshot_begin(s->ledger_snapshot, member, incarnation);
}

static void fetch(void *subject, const struct replica_message *offer)
{
	const struct server *s = subject;
	ledger_snapshot_offered(s->ledger_snapshot, offer);
}

static void lost(void *subject)
{
	const struct server *s = subject;
	LOG_AT(s->options.logger, LOG_ERROR, "ledger lost", "no replica is left that has all that was acknowledged");
	rewind_lost(s->rewind, JOURNAL_LEDGER);
}

static const struct log_entry *entry(void *subject, uint64_t index)
{
	return ledger_log_entry(((struct server *)subject)->ledger_log, index);
}

static uint64_t durable_index(const void *subject)
{
	const struct server *s = subject;
	return ledger_snapshot_is_busy(s->ledger_snapshot) ? 0 : ledger_log_durable_index(s->ledger_log);
}

static void settled(void *subject)
{
	struct server *s = subject;
	ledger_log_on_disks(s->ledger_log, replica_on_disks(replication_replica(s->ledger_replication)));
}

void ledger_role_appended(void *server, uint64_t index)
{
	replication_appended(((struct server *)server)->ledger_replication, index);
}

/* --- Start */

weir_status ledger_role_prepare(struct server *s, weir_error *err)
{
	if (!is_replicated(s) || s->durable)
		return WEIR_OK;
	struct log *log = log_memory_create();
	if (log && s->ledger_began && log->ops->restart(log, s->begun + 1, err))
		return err->status;
	const struct ledger_log_options o = {.ledger = s->ledger,
	                                     .log = log,
	                                     .generation = s->options.generation,
	                                     .clock = s->options.clock,
	                                     .logger = s->options.logger,
	                                     .replicated = true,
	                                     .backlog_bytes = s->options.backlog_bytes,
	                                     .ack_disk = s->options.ack == PARTITION_ACK_DISK,
	                                     .appended = ledger_role_appended,
	                                     .failed = roles_storage_failed,
	                                     .arg = s};
	s->ledger_log = o.log ? ledger_log_create(&o, err) : NULL;
	if (!s->ledger_log)
		return weir_fail(err, WEIR_E_MEMORY, "ledger: out of memory");
	if (s->ledger_began)
		ledger_log_set_base(s->ledger_log, s->ledger_began);
	s->ledger_began = NULL;
	ledger_log_recovered(s->ledger_log);
	return WEIR_OK;
}

/* Joins the replication. The log is recovered, or empty. */
static weir_status take_part(struct server *s)
{
	static const struct replication_subject_ops subject = {.store = store,
	                                                       .truncate = truncate,
	                                                       .reset = reset,
	                                                       .commit = commit,
	                                                       .begin = begin,
	                                                       .serve = serve,
	                                                       .pause = pause_requests,
	                                                       .step_down = step_down,
	                                                       .snapshot = snapshot,
	                                                       .fetch = fetch,
	                                                       .lost = lost,
	                                                       .durable = durable_index,
	                                                       .settled = settled,
	                                                       .entry = entry};
	struct replication_options o = roles_driver_options(s, JOURNAL_LEDGER, s->ledger_loop);
	struct replica_found found;
	o.subject = (struct replication_subject){&subject, s};
	ledger_log_find(s->ledger_log, &found);
	s->ledger_replication = replication_create(&o, &found);
	if (!s->ledger_replication)
		return WEIR_E_MEMORY;
	replication_tick(s->ledger_replication, &(struct heartbeat){0});
	return WEIR_OK;
}

struct starting {
	struct server *server;
	weir_status status;
};

/* A server that was assigned at first, or has promised anything about the ledger, takes part from
 * the start. Any other server does when assigned. */
static void start(void *arg)
{
	struct starting *x = arg;
	struct server *s = x->server;
	if (ledger_role_is_first_host(s) || vote_store_found(s->identity.votes, JOURNAL_LEDGER).promised > 0)
		x->status = take_part(s);
	server_leave(s);
}

weir_status ledger_role_start(struct server *s, weir_error *err)
{
	if (!is_replicated(s))
		return WEIR_OK;
	s->ledger_snapshot = ledger_snapshot_create(s, s->writer);
	if (!s->ledger_snapshot)
		return weir_fail(err, WEIR_E_MEMORY, "ledger: out of memory");
	struct starting x = {.server = s};
	server_enter(s);
	rpc_loop_post(s->ledger_loop, start, &x);
	server_wait_idle(s);
	return x.status ? weir_fail(err, x.status, "ledger: out of memory") : WEIR_OK;
}

/* --- Running and stopping */

static void trim(struct server *s)
{
	const uint64_t owed = replica_needs(replication_replica(s->ledger_replication)),
	               offered = ledger_snapshot_needs(s->ledger_snapshot);
	replication_trimmed(s->ledger_replication, ledger_log_trim(s->ledger_log, owed < offered ? owed : offered));
}

/* Deletes the replica's data, once no server counts on it. */
static void rest(struct server *s)
{
	struct log *log = ledger_log_entries(s->ledger_log);
	replication_rest(s->ledger_replication);
	const bool is_empty = log->ops->last(log) == 0 && !ledger_snapshot_is_busy(s->ledger_snapshot);
	if (!is_empty && replication_start_over(s->ledger_replication))
		LOG_AT(s->options.logger, LOG_INFO, "ledger has moved away", "this server has no replica of it any more");
}

static void tick_replica(struct server *s, const struct heartbeat *h)
{
	struct placement *placement = roles_placement(s);
	s->ledger_rests = !placement_is_wanted(placement, JOURNAL_LEDGER, ledger_role_record(s));
	if (s->ledger_rests) {
		rest(s);
		return;
	}
	ledger_log_begin_again(s->ledger_log);
	replication_tick(s->ledger_replication, h);
	placement_bring_about(placement, s->ledger_replication);
	ledger_snapshot_tick(s->ledger_snapshot);
	if (!ledger_snapshot_is_busy(s->ledger_snapshot))
		trim(s);
}

void ledger_role_tick(struct server *s)
{
	struct heartbeat h = {0};
	if (!is_replicated(s))
		return;
	if (s->detector)
		heartbeat_loop_silences(s->detector, &h);
	if (!s->ledger_replication && placement_is_wanted(roles_placement(s), JOURNAL_LEDGER, NULL) && take_part(s))
		LOG_AT(s->options.logger, LOG_ERROR, "ledger not taken", "out of memory");
	if (s->ledger_replication)
		tick_replica(s, &h);
	roles_tick_links(s, s->ledger_loop);
}

void ledger_role_durable(struct server *s)
{
	if (s->ledger_replication)
		replication_durable(s->ledger_replication);
}

const struct replica_record *ledger_role_record(const struct server *s)
{
	return s->ledger_replication ? replica_get_record(replication_replica(s->ledger_replication)) : NULL;
}

bool ledger_role_serves(const struct server *s)
{
	return !is_replicated(s) || (!s->ledger_left && ledger_log_serves(s->ledger_log));
}

bool ledger_role_stands(const struct server *s, struct ledger_stand *out)
{
	*out = (struct ledger_stand){0};
	if (!is_replicated(s))
		return true;
	if (!s->ledger_replication)
		return false;
	const struct replica *r = replication_replica(s->ledger_replication);
	*out = (struct ledger_stand){
	    .epoch = replica_epoch(r), .decided = ledger_log_applied(s->ledger_log), .committed = replica_commit(r)};
	return ledger_role_serves(s) && replica_serves(r) && !s->ledger_paused && !ledger_log_is_blocked(s->ledger_log);
}

void ledger_role_leave(struct server *s)
{
	s->ledger_left = true;
	if (s->ledger_replication)
		stop_serving(s);
}

static void stop(void *arg)
{
	struct server *s = arg;
	replication_stop(s->ledger_replication);
	server_leave(s);
}

void ledger_role_stop(struct server *s)
{
	if (!s->ledger_replication)
		return;
	server_enter(s);
	rpc_loop_post(s->ledger_loop, stop, s);
	server_wait_idle(s);
}

void ledger_role_end_snapshots(struct server *s)
{
	if (s->ledger_snapshot)
		ledger_snapshot_close(s->ledger_snapshot);
}

void ledger_role_destroy(struct server *s)
{
	ledger_snapshot_destroy(s->ledger_snapshot);
	replication_destroy(s->ledger_replication);
}
