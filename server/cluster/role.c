/* One partition of this server as the subject of its replication; brings its replica up and keeps
 * it running. */
#include <string.h>

#include "server/cluster/placement.h"
#include "server/cluster/roles_internal.h"
#include "server/log/journal.h"
#include "server/replication/peers.h"
#include "server/replication/replica_link.h"
#include "server/snapshot/snapshots.h"

/* --- The subject */

static weir_status store(void *subject, const struct log_entry *e)
{
	struct role *r = subject;
	weir_error err = {0};
	if (!learner_lets_store(&r->learner))
		return WEIR_E_BUSY;
	weir_status status = partition_take(r->partition, e, &err);
	if (status)
		LOG_AT(r->server->options.logger, LOG_WARN, "entry not taken", "%s", err.text);
	return status;
}

static weir_status truncate(void *subject, uint64_t last)
{
	weir_error err = {0};
	return partition_truncate(((struct role *)subject)->partition, last, &err);
}

static weir_status reset(void *subject)
{
	struct role *r = subject;
	scrub_cancel(&r->scrub);
	return learner_reset(&r->learner);
}

static void commit(void *subject, uint64_t index)
{
	partition_commit_to(((struct role *)subject)->partition, index);
}

static void begin(void *subject, uint64_t epoch)
{
	struct role *r = subject;
	partition_begin(r->partition, epoch);
	if (!server_is_replicated(r->server) && !r->begun)
		server_leave(r->server);
	r->begun = true;
}

static void serve(void *subject)
{
	struct role *r = subject;
	partition_serve(r->partition);
	if (server_is_replicated(r->server))
		LOG_AT(r->server->options.logger, LOG_INFO, "partition served", "partition=%u epoch=%llu", partition_id(r->partition),
		       (unsigned long long)partition_epoch(r->partition));
}

static void pause_records(void *subject)
{
	partition_pause(((struct role *)subject)->partition);
}

static void step_down(void *subject)
{
	struct role *r = subject;
	LOG_AT(r->server->options.logger, LOG_INFO, "partition moved", "partition=%u another server has it now, or will",
	       partition_id(r->partition));
	partition_step_down(r->partition);
	snapshot_offer_stop(&r->offer);
}

static void snapshot(void *subject, uint16_t member, uint64_t incarnation)
{
	snapshot_offer_begin(&((struct role *)subject)->offer, member, incarnation);
}

static void fetch(void *subject, const struct replica_message *offer)
{
	learner_offered(&((struct role *)subject)->learner, offer);
}

static void lost(void *subject)
{
	const struct role *r = subject;
	struct server *s = r->server;
	LOG_AT(s->options.logger, LOG_ERROR, "partition lost", "partition=%u no replica is left that has all that was acknowledged",
	       partition_id(r->partition));
	s->roles->host->lost(s, (uint16_t)partition_id(r->partition));
}

static const struct log_entry *entry(void *subject, uint64_t index)
{
	struct log *log = partition_log(((struct role *)subject)->partition);
	return log->ops->get(log, index);
}

static void settled(void *subject)
{
	partition_settled(((struct role *)subject)->partition);
}

static uint64_t durable_index(const void *subject)
{
	const struct role *r = subject;
	return learner_is_busy(&r->learner) ? 0 : partition_durable_index(r->partition);
}

/* --- The partition's host */

static void on_failed(void *arg, const weir_error *err)
{
	struct server *s = ((struct role *)arg)->server;
	s->roles->host->storage_failed(s, err);
}

static void on_appended(void *arg, uint64_t index)
{
	replication_appended(((struct role *)arg)->replication, index);
}

static void on_durable(void *arg)
{
	struct role *r = arg;
	if (r->replication) /* recovery also makes entries durable */
		replication_durable(r->replication);
}

static uint64_t stable_index(void *arg)
{
	const struct replication *x = ((const struct role *)arg)->replication;
	return x ? replica_stable(replication_replica(x)) : 0;
}

static uint64_t on_disks_index(void *arg)
{
	const struct replication *x = ((const struct role *)arg)->replication;
	return x ? replica_on_disks(replication_replica(x)) : 0;
}

static weir_status keep_table(void *arg, uint32_t id, const weir_table_spec *spec, weir_error *err)
{
	struct server *s = ((struct role *)arg)->server;
	return s->roles->host->keep_table(s, id, spec, err);
}

static void on_scrub(void *arg, const struct log_entry *e, bool exact)
{
	scrub_applied(&((struct role *)arg)->scrub, e, exact);
}

void roles_prepare_partition(struct server *s, struct partition_options *options)
{
	static const struct partition_host_ops of_one_copy = {.failed = on_failed, .appended = on_appended, .durable = on_durable};
	static const struct partition_host_ops of_several = {.failed = on_failed,
	                                                     .appended = on_appended,
	                                                     .durable = on_durable,
	                                                     .stable = stable_index,
	                                                     .on_disks = on_disks_index,
	                                                     .keep_table = keep_table,
	                                                     .scrub = on_scrub};
	struct role *r = &s->roles->of[options->id];
	r->server = s;
	options->replicated = server_is_replicated(s);
	options->host = (struct partition_host){options->replicated ? &of_several : &of_one_copy, r};
}

/* --- Scrubs */

static void send_scrubbed(void *arg, const struct replica_message *m)
{
	const struct role *r = arg;
	const uint32_t id = partition_id(r->partition);
	replica_links_send(peers_links(r->server->roles->peers, server_executor(r->server, id)->loop), (uint16_t)id, m);
}

static void enter(void *arg)
{
	server_enter(((const struct role *)arg)->server);
}

static void leave(void *arg)
{
	server_leave(((const struct role *)arg)->server);
}

static void open_scrub(struct role *r, const struct executor *e)
{
	struct server *s = r->server;
	const struct scrub_options o = {.partition = r->partition,
	                                .replication = r->replication,
	                                .reader = s->roles->scrub_reader,
	                                .cold = s->cold,
	                                .self = (uint16_t)s->options.index,
	                                .interval_ms = s->options.scrub_interval_ms,
	                                .clock = s->options.clock,
	                                .owner = rpc_loop_executor(e->loop),
	                                .logger = s->options.logger,
	                                .send = send_scrubbed,
	                                .enter = enter,
	                                .leave = leave,
	                                .arg = r};
	scrub_init(&r->scrub, &o);
}

/* --- Startup of replicas */

static void on_learner_failed(void *arg, const weir_error *err)
{
	roles_storage_failed(((struct role *)arg)->server, err);
}

static void on_learner_changed(void *arg)
{
	struct role *r = arg;
	backlog_close(&r->backlog, r->partition);
	backlog_open(&r->backlog, r->partition);
}

static weir_status connect(void *arg, uint16_t server, struct rpc_channel **out, weir_error *err)
{
	const struct role *r = arg;
	struct server *s = r->server;
	return snapshots_channel(s->roles->snapshots, server_executor(s, partition_id(r->partition)), server, out, err);
}

static void enter_server(void *arg)
{
	server_enter(arg);
}

static void leave_server(void *arg)
{
	server_leave(arg);
}

static void prepare_for_others(struct role *r, struct executor *e)
{
	struct server *s = r->server;
	struct learner_options learner = {.partition = r->partition,
	                                  .replication = r->replication,
	                                  .writer = s->writer,
	                                  .owner = rpc_loop_executor(e->loop),
	                                  .generation = s->options.generation,
	                                  .partitions = s->options.partitions,
	                                  .clock = s->options.clock,
	                                  .logger = s->options.logger,
	                                  .connect = connect,
	                                  .add_table = keep_table,
	                                  .changed = on_learner_changed,
	                                  .failed = on_learner_failed,
	                                  .arg = r};
	memcpy(learner.uuid, s->options.uuid, sizeof learner.uuid);
	learner_init(&r->learner, &learner);
	r->offer = (struct snapshot_offer){.sender = snapshots_sender(s->roles->snapshots),
	                                   .partition = r->partition,
	                                   .replication = r->replication,
	                                   .owner = rpc_loop_executor(e->loop),
	                                   .logger = s->options.logger,
	                                   .enter = enter_server,
	                                   .leave = leave_server,
	                                   .arg = s};
	open_scrub(r, e);
	partition_step_down(r->partition); /* until it serves */
	backlog_open(&r->backlog, r->partition);
}

weir_status role_start(struct executor *e, uint32_t id, weir_error *err)
{
	static const struct replication_subject_ops subject = {.store = store,
	                                                       .truncate = truncate,
	                                                       .reset = reset,
	                                                       .commit = commit,
	                                                       .begin = begin,
	                                                       .serve = serve,
	                                                       .pause = pause_records,
	                                                       .step_down = step_down,
	                                                       .snapshot = snapshot,
	                                                       .fetch = fetch,
	                                                       .lost = lost,
	                                                       .settled = settled,
	                                                       .durable = durable_index,
	                                                       .entry = entry};
	struct server *s = e->server;
	struct role *r = &s->roles->of[id];
	r->partition = s->partitions[id];
	struct replication_options o = roles_driver_options(s, (uint16_t)id, e->loop);
	o.subject = (struct replication_subject){&subject, r};
	struct replica_found found;
	partition_find(r->partition, &found);
	found.promised = roles_epochs_before(s);
	r->replication = replication_create(&o, &found);
	if (!r->replication)
		return weir_fail(err, WEIR_E_MEMORY, "partition %u: out of memory", id);
	if (server_is_replicated(s))
		prepare_for_others(r, e);
	else
		server_enter(s); /* until it has begun */
	replication_tick(r->replication, &(struct heartbeat){0});
	return WEIR_OK;
}

/* --- Running */

/* Deletes the partition's data, once no server counts on it. */
static void rest(struct role *r)
{
	struct log *log = partition_log(r->partition);
	replication_rest(r->replication);
	partition_unfollow(r->partition);
	const bool is_empty = log->ops->last(log) == 0 && !learner_is_busy(&r->learner);
	if (!is_empty && replication_start_over(r->replication))
		LOG_AT(r->server->options.logger, LOG_INFO, "partition has moved away", "partition=%u", partition_id(r->partition));
}

static void trim(struct role *r)
{
	struct log *log = partition_log(r->partition);
	const uint64_t owed = replica_needs(replication_replica(r->replication)), offered = snapshot_offer_needs(&r->offer);
	backlog_trim(&r->backlog, r->partition, owed < offered ? owed : offered, r->server->roles->backlog_bytes);
	replication_trimmed(r->replication, log->ops->first(log));
}

/* Sets whether the partition may be read from, and as of when its primary was alive. */
static void follow(struct role *r, const struct heartbeat *h)
{
	const struct server *s = r->server;
	const struct replica *x = replication_replica(r->replication);
	const struct replica_record *record = replica_get_record(x);
	const bool established = !learner_is_busy(&r->learner) && !replica_is_primary(x) && replica_epoch(x) == record->epoch &&
	                         record->primary != MEMBER_NONE;
	if (established && member_set_has(&record->isr, (uint16_t)s->options.index))
		partition_follow(r->partition,
		                 clock_ms(s->options.clock) - (int64_t)heartbeat_silent(h, record->primary) * WEIR_HEARTBEAT_TICK_MS);
	else
		partition_unfollow(r->partition);
}

/* Creates a partition newly assigned to this server. Its tables come from the primary, like all
 * else. */
static void bring_here(struct executor *e, uint16_t id)
{
	struct server *s = e->server;
	weir_error err = {0};
	if (s->partitions[id] || !placement_is_wanted(s->roles->placement, id, NULL))
		return;
	weir_status status = s->roles->host->begin_partition(s, id, &err);
	roles_share_backlog(s);
	if (!status)
		status = role_start(e, id, &err);
	if (status)
		LOG_AT(s->options.logger, LOG_ERROR, "partition not taken", "%s", err.text);
}

static void tick_replica(struct role *r, const struct heartbeat *h)
{
	struct placement *placement = r->server->roles->placement;
	const struct replica *replica = replication_replica(r->replication);
	r->rests = !placement_is_wanted(placement, replication_partition(r->replication), replica_get_record(replica));
	if (r->rests) {
		rest(r);
		return;
	}
	replication_tick(r->replication, h);
	placement_bring_about(placement, r->replication);
	learner_tick(&r->learner);
	snapshot_offer_tick(&r->offer);
	if (!learner_is_busy(&r->learner))
		trim(r);
	follow(r, h);
	scrub_tick(&r->scrub);
}

void role_tick(struct executor *e, uint16_t id, const struct heartbeat *h)
{
	struct role *r = &e->server->roles->of[id];
	const bool replicated = server_is_replicated(e->server);
	if (replicated)
		bring_here(e, id);
	if (!r->replication)
		return;
	if (replicated)
		tick_replica(r, h);
	else
		replication_tick(r->replication, h);
}
