#include "roles.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backlog.h"
#include "coord_etcd.h"
#include "coord_memory.h"
#include "durable.h"
#include "heart_loop.h"
#include "hosting.h"
#include "journal.h"
#include "learner.h"
#include "ledger_role.h"
#include "peers.h"
#include "placement.h"
#include "replica_link.h"
#include "rewind.h"
#include "scrub.h"
#include "snapshot_offer.h"
#include "snapshots.h"

#define SILENT_TICKS WEIR_HEART_SILENT_TICKS /* of 100 ms: who is silent for so long is taken for dead; */
#define STALL_TICKS  20u                     /* who is behind for so long is no longer waited for; */
#define RETRY_TICKS  2u                      /* what is not answered is sent again */
#define GROW_LAG     4096u                   /* entries */
#define LEASE_MS     10000u
#define CALL_MS      1000u /* the coordinator's answer is waited for */
#define ASK_AGAIN_MS 100u  /* at a start, until executors tick */
#define LATE_MS      1000u /* then it is said that it is waited for */

struct role {
	struct server *server;
	struct partition *partition;
	struct replication *_Atomic replication; /* NULL: not started */
	bool begun;
	/* Where there are other replicas. */
	struct backlog backlog;
	struct snapshot_offer offer;
	struct learner learner;
	struct scrub scrub;
	bool rests; /* it is not this server's any more */
};
struct roles {
	struct coordinator_options shared; /* neither etcd nor open: there is none, */
	struct coord_memory *coordinator;  /* but this */
	struct rpc_loop *session, *keeper; /* of the session with etcd; NULL: the first executor's loop is both */
	_Atomic bool known;                /* what the coordinator has was read */
	void (*storage_failed)(void *arg, const weir_error *err);
	void *storage_failed_arg;
	struct authority *authority; /* NULL: not started */
	struct peers *peers;         /* this and the next three NULL: there are no other replicas */
	struct snapshots *snapshots;
	struct hosting *hosting;
	struct scrub_reader *scrub_reader;
	char address[WEIR_ADDRESS_BYTES_MAX]; /* of this server, for the others; "": not known */
	_Atomic uint64_t backlog_bytes;       /* of a partition */
	weir_status failed;                   /* of the start */
	weir_error err;
	struct role of[]; /* (partitions) */
};

/* --- A partition as a subject */

static bool is_alone(const struct server *s)
{
	return server_replicas(s) == 1;
}

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
	if (is_alone(r->server) && !r->begun)
		server_leave(r->server);
	r->begun = true;
}

static void serve(void *subject)
{
	struct role *r = subject;
	partition_serve(r->partition);
	if (!is_alone(r->server))
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
	snapshot_offer_end(&r->offer);
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
	LOG_AT(r->server->options.logger, LOG_ERROR, "partition lost",
	       "partition=%u no replica is left that has all that was acknowledged", partition_id(r->partition));
	rewind_lost(r->server->rewind, (uint16_t)partition_id(r->partition));
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

static void on_appended(void *arg, uint64_t index)
{
	replication_appended(((struct role *)arg)->replication, index);
}

static void on_durable(void *arg)
{
	struct role *r = arg;
	if (r->replication) /* recovery, too, makes entries durable */
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
	return s->durable ? durable_add_table(s, id, spec, err) : WEIR_OK;
}

static void on_scrub(void *arg, const struct log_entry *e, bool exact)
{
	scrub_applied(&((struct role *)arg)->scrub, e, exact);
}

void roles_prepare_partition(struct server *s, struct partition_options *options)
{
	options->appended = on_appended;
	options->durable = on_durable;
	options->stable = is_alone(s) ? NULL : stable_index;
	options->on_disks = is_alone(s) ? NULL : on_disks_index;
	options->scrub = is_alone(s) ? NULL : on_scrub;
	options->driver = &s->roles->of[options->id];
	s->roles->of[options->id].server = s;
	options->keep_table = is_alone(s) ? NULL : keep_table;
	options->replicated = !is_alone(s);
}

/* --- Start */

static weir_status open_session(void *arg, struct coord **out, const struct coord_options *options, weir_error *err)
{
	struct server *s = arg;
	const struct coordinator_options *shared = &s->roles->shared;
	const struct poster poster = rpc_loop_poster(s->executors[0].loop);
	if (shared->etcd)
		return coord_etcd_open(out, s->options.rpc, s->roles->session, shared->etcd, options, err);
	if (shared->open)
		return shared->open(shared->arg, out, &poster, options, err);
	return coord_memory_open(out, s->roles->coordinator, &poster, options, err);
}

/* What clients are told of the whole job. */
static void on_seen(void *arg, uint16_t partition, const struct replica_record *r)
{
	const struct server *s = arg;
	const bool possible = r->primary < server_servers_max(s) || r->primary == MEMBER_NONE;
	hosting_note_record(s->roles->hosting, partition, r);
	if ((partition < s->options.partitions || partition == JOURNAL_LEDGER) && possible)
		partition_map_set(s->map, partition,
		                  (struct partition_place){.server = r->primary, .epoch = r->epoch, .in_sync = r->isr});
}

static void on_wanted(void *arg, uint16_t partition, const struct hosts_record *wanted)
{
	hosting_note_wanted(((const struct server *)arg)->roles->hosting, partition, wanted);
}

static void on_server(void *arg, uint16_t server, const char *address)
{
	const struct server *s = arg;
	hosting_note_server(s->roles->hosting, server, address != NULL);
	if (address && server < server_servers_max(s)) /* who is gone may come back to where it was */
		partition_map_set_address(s->map, server, address);
}

static void on_caught_up(void *arg, uint64_t revision)
{
	const struct server *s = arg;
	hosting_note_all(s->roles->hosting);
	partition_map_advance(s->map, revision);
	atomic_store(&s->roles->known, true);
}

static void on_next(void *arg, const struct rewind_record *next)
{
	rewind_told(((const struct server *)arg)->rewind, next);
}

static void on_displaced(void *arg, const weir_error *why)
{
	const struct coordinator_options *shared = &((const struct server *)arg)->roles->shared;
	shared->displaced(why);
}

static weir_status open_authority(struct server *s, weir_error *err)
{
	struct roles *r = s->roles;
	struct authority_options o = {.generation = s->options.generation,
	                              .partitions = s->options.partitions,
	                              .session = rpc_loop_poster(r->session ? r->session : s->executors[0].loop),
	                              .keeper = rpc_loop_poster(r->keeper ? r->keeper : s->executors[0].loop),
	                              .open = open_session,
	                              .seen = is_alone(s) ? NULL : on_seen,
	                              .placed = is_alone(s) ? NULL : on_wanted,
	                              .server = is_alone(s) ? NULL : on_server,
	                              .caught_up = is_alone(s) ? NULL : on_caught_up,
	                              .next = is_alone(s) ? NULL : on_next,
	                              .displaced = r->shared.displaced ? on_displaced : NULL,
	                              .address = s->roles->address[0] ? s->roles->address : NULL,
	                              .incarnation = is_alone(s) ? 0 : promises_incarnation(s->standing.promises),
	                              .self = (uint16_t)s->options.index,
	                              .arg = s,
	                              .lease_ms = LEASE_MS,
	                              .timeout_ms = r->coordinator ? UINT32_MAX : CALL_MS, /* one in this process always answers */
	                              .logger = s->options.logger};
	memcpy(o.uuid, s->options.uuid, sizeof o.uuid);
	return authority_create(&r->authority, &o, err);
}

/* Of a single copy the record does not outlive the process: its epoch is that of the start before, at least. */
static uint64_t epochs_before(const struct server *s)
{
	return is_alone(s) && s->durable ? durable_epoch(s) - 1 : 0;
}

void roles_storage_failed(void *server, const weir_error *err)
{
	const struct server *s = server;
	LOG_AT(s->options.logger, LOG_ERROR, "storage failed", "%s", err->text);
	if (s->roles->storage_failed)
		s->roles->storage_failed(s->roles->storage_failed_arg, err);
}

struct replication_options roles_driver_options(const struct server *s, uint16_t partition, struct rpc_loop *loop)
{
	const bool alone = is_alone(s);
	struct promises *promises = alone ? NULL : s->standing.promises;
	struct replication_options o = {
	    .partition = partition,
	    .replica = {.self = (uint16_t)s->options.index,
	                .incarnation = alone ? epochs_before(s) + 1 : promises_incarnation(promises) << REPLICA_ANEW_BITS,
	                .alone = alone,
	                .silent_ticks = SILENT_TICKS,
	                .stall_ticks = STALL_TICKS,
	                .retry_ticks = RETRY_TICKS,
	                .grow_lag = GROW_LAG},
	    .primary =
	        alone ? MEMBER_NONE : (uint16_t)placement_server(partition == JOURNAL_LEDGER ? 0 : partition, s->options.servers),
	    .min_isr = (uint16_t)(s->options.min_isr ? s->options.min_isr : (server_replicas(s) + 1) / 2),
	    .begun = s->begun,
	    .network = alone ? NULL : peers_network(),
	    .network_arg = alone ? NULL : peers_of(s->roles->peers, loop),
	    .authority = s->roles->authority,
	    .promises = promises,
	    .poster = rpc_loop_poster(loop),
	    .logger = s->options.logger,
	    .failed = roles_storage_failed,
	    .failed_arg = (void *)(uintptr_t)s};
	if (s->options.index < s->options.servers) /* one that was added begins nothing */
		o.hosts = server_first_hosts(s, partition);
	return o;
}

/* --- Scrubs */

static void send_scrubbed(void *arg, const struct replica_message *m)
{
	const struct role *r = arg;
	const uint32_t id = partition_id(r->partition);
	replica_links_send(peers_of(r->server->roles->peers, server_executor(r->server, id)->loop), (uint16_t)id, m);
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
	                                .owner = rpc_loop_poster(e->loop),
	                                .logger = s->options.logger,
	                                .send = send_scrubbed,
	                                .enter = enter,
	                                .leave = leave,
	                                .arg = r};
	scrub_init(&r->scrub, &o);
}

/* --- Bringing replicas up */

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
	                                  .writer = s->durable ? durable_writer(s) : NULL,
	                                  .owner = rpc_loop_poster(e->loop),
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
	                                   .owner = rpc_loop_poster(e->loop),
	                                   .logger = s->options.logger,
	                                   .enter = enter_server,
	                                   .leave = leave_server,
	                                   .arg = s};
	open_scrub(r, e);
	partition_step_down(r->partition); /* until it serves */
	backlog_open(&r->backlog, r->partition);
}

static weir_status start_role(struct executor *e, uint32_t id, weir_error *err)
{
	static const struct replication_subject subject = {.store = store,
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
	o.subject = &subject;
	o.subject_arg = r;
	struct replica_found found;
	partition_find(r->partition, &found);
	found.promised = epochs_before(s);
	r->replication = replication_create(&o, &found);
	if (!r->replication)
		return weir_fail(err, WEIR_E_MEMORY, "partition %u: out of memory", id);
	if (is_alone(s))
		server_enter(s); /* until it has begun */
	else
		prepare_for_others(r, e);
	replication_tick(r->replication, &(struct heartbeat){0});
	return WEIR_OK;
}

static void start_roles(struct executor *e, void *arg)
{
	struct server *s = e->server;
	struct roles *roles = s->roles;
	(void)arg;
	if (e == &s->executors[0])
		roles->failed = open_authority(s, &roles->err);
	for (uint32_t p = 0; p < s->options.partitions && !roles->failed; p++)
		if (s->partitions[p] && server_executor(s, p) == e)
			roles->failed = start_role(e, p, &roles->err);
}

static void tour_nothing(struct executor *e, void *arg)
{
	(void)e, (void)arg;
}

weir_status roles_create(struct server *s, const struct server_options *o, weir_error *err)
{
	struct roles *r = s->roles = calloc(1, sizeof *s->roles + s->options.partitions * sizeof(struct role));
	if (r && !is_alone(s))
		r->hosting = hosting_create(s);
	if (!r || (!is_alone(s) && !r->hosting))
		return weir_fail(err, WEIR_E_MEMORY, "%s: out of memory", s->name);
	if (o->coordinator)
		r->shared = *o->coordinator;
	else
		r->coordinator = coord_memory_create(s->options.clock);
	if (!is_alone(s))
		snprintf(r->address, sizeof r->address, "%s",
		         o->index >= o->servers ? o->listen
		         : o->addresses         ? o->addresses[o->index]
		                                : "");
	if (r->shared.etcd &&
	    (!(r->session = rpc_loop_create(o->rpc, "coord", err)) || !(r->keeper = rpc_loop_create(o->rpc, "coord-keeper", err))))
		return WEIR_E_MEMORY;
	r->storage_failed = o->durable ? o->durable->failed : o->promising ? o->promising->failed : NULL;
	r->storage_failed_arg = o->durable ? o->durable->arg : o->promising ? o->promising->arg : NULL;
	return WEIR_OK;
}

static void share_backlog(struct server *s)
{
	uint32_t count = 0;
	for (uint32_t p = 0; p < s->options.partitions; p++)
		count += s->partitions[p] != NULL;
	const uint64_t bytes = s->options.backlog_bytes ? s->options.backlog_bytes : WEIR_BACKLOG_BYTES;
	s->roles->backlog_bytes = count ? bytes / count : 0;
}

static void tick_early(struct executor *e, void *arg)
{
	(void)arg;
	roles_tick(e);
}

/* Who has not begun is waited for no more. */
static void give_up(struct executor *e, void *arg)
{
	struct server *s = e->server;
	(void)arg;
	for (uint32_t p = 0; p < s->options.partitions; p++) {
		struct role *r = &s->roles->of[p];
		if (!r->replication || server_executor(s, p) != e || r->begun)
			continue;
		r->begun = true;
		server_leave(s);
	}
}

/* Single copies begin. A coordinator in this process has answered; another one may be away, and is asked again. */
static weir_status await_epochs(struct server *s, weir_error *err)
{
	const struct coordinator_options *shared = &s->roles->shared;
	const uint32_t patience_ms = shared->patience_ms ? shared->patience_ms : WEIR_SERVER_PATIENCE_MS;
	weir_status status = WEIR_OK;
	for (uint32_t waited_ms = 0; !server_wait_idle_for(s, ASK_AGAIN_MS); waited_ms += ASK_AGAIN_MS) {
		if (waited_ms == LATE_MS)
			LOG_AT(s->options.logger, LOG_WARN, "waiting",
			       "the coordinator does not answer yet: start it, or correct its address");
		if (waited_ms >= patience_ms && !status)
			status =
			    weir_fail(err, WEIR_E_TIMEOUT, "%s: the coordinator has not answered for %u ms: start it, or correct its address",
			              s->name, patience_ms);
		(void)server_tour(s, status ? give_up : tick_early, tour_nothing, NULL); /* out of memory: at the next */
	}
	return status;
}

weir_status roles_start(struct server *s, weir_error *err)
{
	weir_status status = is_alone(s) ? WEIR_OK : peers_create(&s->roles->peers, s, err);
	if (!status && !is_alone(s))
		status = snapshots_create(&s->roles->snapshots, s, s->options.catch_up_bytes_per_s, err);
	if (status)
		return status;
	if (!is_alone(s) && !(s->roles->scrub_reader = scrub_reader_create()))
		return weir_fail(err, WEIR_E_MEMORY, "%s: out of memory", s->name);
	share_backlog(s);
	if (server_tour(s, start_roles, tour_nothing, NULL))
		return weir_fail(err, WEIR_E_MEMORY, "%s: out of memory", s->name);
	if (is_alone(s) && !s->roles->coordinator)
		status = await_epochs(s, err);
	else
		server_wait_idle(s);
	if (!status && s->roles->failed)
		status = weir_fail(err, s->roles->failed, "%s", s->roles->err.text);
	return status ? status : ledger_role_start(s, err);
}

/* --- Running and stopping */

/* What it had is deleted, once nobody counts on it. */
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

/* Whether it may be read from, and as of when its primary was alive. */
static void follow(struct role *r, const struct heartbeat *h)
{
	const struct server *s = r->server;
	const struct replica *x = replication_replica(r->replication);
	const struct replica_record *record = replica_get_record(x);
	const bool established = !learner_is_busy(&r->learner) && !replica_is_primary(x) && replica_epoch(x) == record->epoch &&
	                         record->primary != MEMBER_NONE;
	if (established && member_set_has(&record->isr, (uint16_t)s->options.index))
		partition_follow(r->partition,
		                 clock_ms(s->options.clock) - (int64_t)heartbeat_silent(h, record->primary) * WEIR_HEART_TICK_MS);
	else
		partition_unfollow(r->partition);
}

/* One that this server is to have from now on: its tables come as all else does, from the primary. */
static void bring_here(struct executor *e, uint16_t id)
{
	struct server *s = e->server;
	weir_error err = {0};
	if (s->partitions[id] || !hosting_is_wanted(s->roles->hosting, id, NULL))
		return;
	weir_status status = server_begin_partition(s, id, &err);
	share_backlog(s);
	if (!status)
		status = start_role(e, id, &err);
	if (status)
		LOG_AT(s->options.logger, LOG_ERROR, "partition not taken", "%s", err.text);
}

static void tick_replica(struct role *r, const struct heartbeat *h)
{
	struct hosting *hosting = r->server->roles->hosting;
	const struct replica *replica = replication_replica(r->replication);
	r->rests = !hosting_is_wanted(hosting, replication_partition(r->replication), replica_get_record(replica));
	if (r->rests) {
		rest(r);
		return;
	}
	replication_tick(r->replication, h);
	hosting_bring_about(hosting, r->replication);
	learner_tick(&r->learner);
	snapshot_offer_tick(&r->offer);
	if (!learner_is_busy(&r->learner))
		trim(r);
	follow(r, h);
	scrub_tick(&r->scrub);
}

void roles_tick_links(const struct server *s, const struct rpc_loop *loop)
{
	if (s->roles->peers)
		peers_tick(s->roles->peers, loop);
}

static void tick_role(struct executor *e, uint16_t id, const struct heartbeat *h)
{
	struct role *r = &e->server->roles->of[id];
	if (!is_alone(e->server))
		bring_here(e, id);
	if (!r->replication)
		return;
	if (is_alone(e->server))
		replication_tick(r->replication, h);
	else
		tick_replica(r, h);
}

void roles_tick(struct executor *e)
{
	struct server *s = e->server;
	struct heartbeat h = {0};
	if (s->heart)
		heart_loop_silences(s->heart, &h);
	if (e == &s->executors[0])
		authority_tick(s->roles->authority);
	for (uint32_t p = 0; p < s->options.partitions; p++)
		if (server_executor(s, p) == e)
			tick_role(e, (uint16_t)p, &h);
	roles_tick_links(s, e->loop);
}

bool roles_are_known(const struct server *s)
{
	return atomic_load(&s->roles->known);
}

struct replication *roles_replication(const struct server *s, uint16_t partition)
{
	if (partition == JOURNAL_LEDGER)
		return s->ledger_replication;
	return partition < s->options.partitions ? s->roles->of[partition].replication : NULL;
}

bool roles_take_part(const struct server *s, uint16_t partition)
{
	return partition == JOURNAL_LEDGER ? !s->ledger_rests : !s->roles->of[partition].rests;
}

bool roles_serves(const struct server *s, uint16_t partition)
{
	const struct replication *x = roles_replication(s, partition);
	return x && replica_serves(replication_replica(x));
}

struct hosting *roles_hosting(const struct server *s)
{
	return s->roles->hosting;
}

struct authority *roles_authority(const struct server *s)
{
	return s->roles->authority;
}

const struct member_set *roles_in_sync(const struct server *s, uint16_t partition)
{
	const struct replication *x = roles_replication(s, partition);
	return x ? &replica_get_record(replication_replica(x))->isr : NULL;
}

struct scrub *roles_scrub(const struct server *s, uint16_t partition)
{
	return partition != JOURNAL_LEDGER && roles_replication(s, partition) && !is_alone(s) ? &s->roles->of[partition].scrub : NULL;
}

const struct rpc_stream_handler *roles_open_link(struct server *s, struct rpc_stream *stream, void **arg)
{
	return s->roles->peers ? peers_open(s->roles->peers, stream, arg) : NULL;
}

const struct rpc_stream_handler *roles_open_snapshot(struct server *s, struct rpc_stream *stream, void **arg)
{
	return s->roles->snapshots ? snapshots_open(s->roles->snapshots, stream, arg) : NULL;
}

static void stop_scrubs(struct executor *e)
{
	struct server *s = e->server;
	for (uint16_t p = 0; p < s->options.partitions; p++)
		if (server_executor(s, p) == e && roles_scrub(s, p))
			scrub_stop(roles_scrub(s, p));
}

void roles_end_links(struct executor *e)
{
	struct peers *peers = e->server->roles->peers;
	stop_scrubs(e);
	snapshots_close(e->server->roles->snapshots);
	if (peers)
		peers_end_streams(peers, e->loop);
}

static void stop_others(struct executor *e, void *arg)
{
	struct server *s = e->server;
	(void)arg;
	for (uint32_t p = 0; p < s->options.partitions; p++)
		if (s->roles->of[p].replication && server_executor(s, p) == e)
			learner_stop(&s->roles->of[p].learner);
	stop_scrubs(e);
}

void roles_end_snapshots(struct server *s)
{
	if (!s->roles || !s->roles->snapshots)
		return;
	snapshots_close(s->roles->snapshots);
	(void)server_tour(s, stop_others, tour_nothing, NULL);
}

static void stop_roles(struct executor *e, void *arg)
{
	struct server *s = e->server;
	(void)arg;
	for (uint32_t p = 0; p < s->options.partitions; p++)
		if (s->roles->of[p].replication && server_executor(s, p) == e)
			replication_stop(s->roles->of[p].replication);
}

static void on_ended(void *arg)
{
	server_leave(arg);
}

void roles_stop(struct server *s)
{
	if (!s->roles)
		return;
	if (s->roles->authority) {
		(void)server_tour(s, stop_roles, tour_nothing, NULL);
		server_wait_idle(s);
		ledger_role_stop(s);
		server_enter(s);
		authority_close(s->roles->authority, on_ended, s);
		server_wait_idle(s);
	}
	peers_destroy(s->roles->peers);
	snapshots_destroy(s->roles->snapshots);
	scrub_reader_destroy(s->roles->scrub_reader);
	s->roles->peers = NULL;
	s->roles->snapshots = NULL;
	s->roles->scrub_reader = NULL;
}

void roles_free(struct server *s)
{
	if (!s->roles)
		return;
	for (uint32_t p = 0; p < s->options.partitions; p++)
		replication_destroy(s->roles->of[p].replication);
	ledger_role_free(s);
	if (s->roles->session)
		rpc_loop_destroy(s->roles->session);
	if (s->roles->keeper)
		rpc_loop_destroy(s->roles->keeper);
	authority_destroy(s->roles->authority);
	hosting_free(s->roles->hosting);
	if (s->roles->coordinator)
		coord_memory_destroy(s->roles->coordinator);
	free(s->roles);
}
