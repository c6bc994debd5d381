#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/key_partition.h"
#include "proto/coord/coord_etcd.h"
#include "server/cluster/heartbeat_loop.h"
#include "server/cluster/placement.h"
#include "server/cluster/roles_internal.h"
#include "server/log/journal.h"
#include "server/replication/peers.h"
#include "server/snapshot/snapshots.h"

/* Ticks of 100 ms; a server silent for so long is taken for dead. */
#define SILENT_TICKS WEIR_HEARTBEAT_SILENT_TICKS
#define STALL_TICKS  20u   /* a replica behind for so long is no longer waited for */
#define RETRY_TICKS  2u    /* an unanswered message is sent again */
#define GROW_LAG     4096u /* entries */
#define LEASE_MS     10000u
#define CALL_MS      1000u /* timeout of the coordinator's answer */
#define ASK_AGAIN_MS 100u  /* at a start, until executors tick */
#define LATE_MS      1000u /* then the wait is logged */

/* --- Start */

static weir_status open_session(void *arg, struct coord **out, const struct coord_options *options, weir_error *err)
{
	struct server *s = arg;
	const struct coordinator_options *shared = &s->roles->shared;
	const struct callback_executor run_on = rpc_loop_executor(s->executors[0].loop);
	if (shared->etcd)
		return coord_etcd_open(out, s->options.rpc, s->roles->session, shared->etcd, options, err);
	if (shared->open)
		return shared->open(shared->arg, out, &run_on, options, err);
	return coord_memory_open(out, s->roles->coordinator, &run_on, options, err);
}

/* What clients learn of the whole job. */
static void on_seen(void *arg, uint16_t partition, const struct replica_record *r)
{
	const struct server *s = arg;
	const bool possible = r->primary < server_servers_max(s) || r->primary == MEMBER_NONE;
	placement_note_record(s->roles->placement, partition, r);
	if ((partition < s->options.partitions || partition == JOURNAL_LEDGER) && possible)
		partition_map_set(s->map, partition,
		                  (struct partition_place){.server = r->primary, .epoch = r->epoch, .in_sync = r->isr});
}

static void on_wanted(void *arg, uint16_t partition, const struct assignment *wanted)
{
	placement_note_wanted(((const struct server *)arg)->roles->placement, partition, wanted);
}

static void on_server(void *arg, uint16_t server, const char *address)
{
	const struct server *s = arg;
	placement_note_server(s->roles->placement, server, address);
	/* A lost server may come back to the same address. */
	if (address && server < server_servers_max(s))
		partition_map_set_address(s->map, server, address);
}

static void on_caught_up(void *arg, uint64_t revision)
{
	const struct server *s = arg;
	placement_note_all(s->roles->placement);
	partition_map_advance(s->map, revision);
	atomic_store(&s->roles->known, true);
}

static void on_next(void *arg, const struct rewind_record *next)
{
	struct server *s = arg;
	s->roles->host->rewound(s, next);
}

static void on_displaced(void *arg, const weir_error *why)
{
	const struct coordinator_options *shared = &((const struct server *)arg)->roles->shared;
	shared->displaced(why);
}

static weir_status open_records(struct server *s, weir_error *err)
{
	struct roles *r = s->roles;
	/* timeout_ms: a coordinator in this process always answers. */
	struct coord_records_options o = {.generation = s->options.generation,
	                                  .partitions = s->options.partitions,
	                                  .session = rpc_loop_executor(r->session ? r->session : s->executors[0].loop),
	                                  .keeper = rpc_loop_executor(r->keeper ? r->keeper : s->executors[0].loop),
	                                  .open = open_session,
	                                  .seen = server_is_replicated(s) ? on_seen : NULL,
	                                  .placed = server_is_replicated(s) ? on_wanted : NULL,
	                                  .server = server_is_replicated(s) ? on_server : NULL,
	                                  .caught_up = server_is_replicated(s) ? on_caught_up : NULL,
	                                  .next = server_is_replicated(s) ? on_next : NULL,
	                                  .displaced = r->shared.displaced ? on_displaced : NULL,
	                                  .address = s->roles->address[0] ? s->roles->address : NULL,
	                                  .incarnation = server_is_replicated(s) ? vote_store_incarnation(s->identity.votes) : 0,
	                                  .self = (uint16_t)s->options.index,
	                                  .arg = s,
	                                  .lease_ms = LEASE_MS,
	                                  .timeout_ms = r->coordinator ? UINT32_MAX : CALL_MS,
	                                  .logger = s->options.logger};
	memcpy(o.uuid, s->options.uuid, sizeof o.uuid);
	return coord_records_create(&r->records, &o, err);
}

uint64_t roles_epochs_before(const struct server *s)
{
	return !server_is_replicated(s) && s->durable ? folder_epoch(s->identity.folder) - 1 : 0;
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
	const bool alone = !server_is_replicated(s);
	struct vote_store *votes = alone ? NULL : s->identity.votes;
	struct replication_options o = {
	    .partition = partition,
	    .replica = {.self = (uint16_t)s->options.index,
	                .incarnation = alone ? roles_epochs_before(s) + 1 : vote_store_incarnation(votes) << REPLICA_ANEW_BITS,
	                .alone = alone,
	                .silent_ticks = SILENT_TICKS,
	                .stall_ticks = STALL_TICKS,
	                .retry_ticks = RETRY_TICKS,
	                .grow_lag = GROW_LAG},
	    .primary =
	        alone ? MEMBER_NONE : (uint16_t)placement_server(partition == JOURNAL_LEDGER ? 0 : partition, s->options.servers),
	    .min_isr = (uint16_t)(s->options.min_isr ? s->options.min_isr : (server_replicas(s) + 1) / 2),
	    .begun = s->begun,
	    .records = s->roles->records,
	    .votes = votes,
	    .run_on = rpc_loop_executor(loop),
	    .logger = s->options.logger,
	    .failed = roles_storage_failed,
	    .failed_arg = (void *)(uintptr_t)s};
	if (!alone)
		o.network = peers_network(s->roles->peers, loop);
	if (s->options.index < s->options.servers) /* an added server begins nothing */
		o.hosts = server_first_hosts(s, partition);
	return o;
}

static void start_roles(struct executor *e, void *arg)
{
	struct server *s = e->server;
	struct roles *roles = s->roles;
	(void)arg;
	if (e == &s->executors[0])
		roles->failed = open_records(s, &roles->err);
	for (uint32_t p = 0; p < s->options.partitions && !roles->failed; p++)
		if (s->partitions[p] && server_executor(s, p) == e)
			roles->failed = role_start(e, p, &roles->err);
}

static void tour_nothing(struct executor *e, void *arg)
{
	(void)e, (void)arg;
}

weir_status roles_create(struct server *s, const struct server_options *o, const struct roles_host *host, weir_error *err)
{
	struct roles *r = s->roles = calloc(1, sizeof *s->roles + s->options.partitions * sizeof(struct role));
	if (r && server_is_replicated(s))
		r->placement = placement_create(s);
	if (!r || (server_is_replicated(s) && !r->placement))
		return weir_fail(err, WEIR_E_MEMORY, "%s: out of memory", s->name);
	r->host = host;
	if (o->coordinator)
		r->shared = *o->coordinator;
	else
		r->coordinator = coord_memory_create(s->options.clock);
	if (server_is_replicated(s))
		snprintf(r->address, sizeof r->address, "%s",
		         o->advertise             ? o->advertise
		         : o->index >= o->servers ? o->listen
		         : o->addresses           ? o->addresses[o->index]
		                                  : "");
	if (r->shared.etcd &&
	    (!(r->session = rpc_loop_create(o->rpc, "coord", err)) || !(r->keeper = rpc_loop_create(o->rpc, "coord-keeper", err))))
		return WEIR_E_MEMORY;
	r->storage_failed = o->durable ? o->durable->failed : o->promising ? o->promising->failed : NULL;
	r->storage_failed_arg = o->durable ? o->durable->arg : o->promising ? o->promising->arg : NULL;
	return WEIR_OK;
}

void roles_share_backlog(struct server *s)
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

/* Stops waiting for partitions that have not begun. */
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

/* Waits until single copies begin. A coordinator in this process has answered already. A remote one
 * may be away, and is asked again. */
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
		/* Out of memory: at the next iteration. */
		(void)server_tour(s, status ? give_up : tick_early, tour_nothing, NULL);
	}
	return status;
}

static const struct peers_directory directory = {
    .replication = roles_replication, .scrub = roles_scrub, .takes_part = roles_take_part};

weir_status roles_start(struct server *s, weir_error *err)
{
	weir_status status = server_is_replicated(s) ? peers_create(&s->roles->peers, s, &directory, err) : WEIR_OK;
	if (!status && server_is_replicated(s))
		status = snapshots_create(&s->roles->snapshots, s, s->options.catch_up_bytes_per_s, err);
	if (status)
		return status;
	if (server_is_replicated(s) && !(s->roles->scrub_reader = scrub_reader_create()))
		return weir_fail(err, WEIR_E_MEMORY, "%s: out of memory", s->name);
	roles_share_backlog(s);
	if (server_tour(s, start_roles, tour_nothing, NULL))
		return weir_fail(err, WEIR_E_MEMORY, "%s: out of memory", s->name);
	if (!server_is_replicated(s) && !s->roles->coordinator)
		status = await_epochs(s, err);
	else
		server_wait_idle(s);
	if (!status && s->roles->failed)
		status = weir_fail(err, s->roles->failed, "%s", s->roles->err.text);
	return status;
}

/* --- Running and stopping */

void roles_tick_links(const struct server *s, const struct rpc_loop *loop)
{
	if (s->roles->peers)
		peers_tick(s->roles->peers, loop);
}

void roles_tick(struct executor *e)
{
	struct server *s = e->server;
	struct heartbeat h = {0};
	if (s->detector)
		heartbeat_loop_silences(s->detector, &h);
	if (e == &s->executors[0])
		coord_records_tick(s->roles->records);
	for (uint32_t p = 0; p < s->options.partitions; p++)
		if (server_executor(s, p) == e)
			role_tick(e, (uint16_t)p, &h);
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

bool roles_distrust(const struct server *s, uint16_t partition)
{
	struct replication *x = roles_replication(s, partition);
	return x && replication_distrust(x);
}

struct placement *roles_placement(const struct server *s)
{
	return s->roles->placement;
}

struct coord_records *roles_records(const struct server *s)
{
	return s->roles->records;
}

const struct member_set *roles_in_sync(const struct server *s, uint16_t partition)
{
	const struct replication *x = roles_replication(s, partition);
	return x ? &replica_get_record(replication_replica(x))->isr : NULL;
}

struct scrub *roles_scrub(const struct server *s, uint16_t partition)
{
	return partition != JOURNAL_LEDGER && roles_replication(s, partition) && server_is_replicated(s)
	           ? &s->roles->of[partition].scrub
	           : NULL;
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
	if (!s->roles || !s->roles->records)
		return;
	(void)server_tour(s, stop_roles, tour_nothing, NULL);
	server_wait_idle(s);
}

void roles_close(struct server *s)
{
	if (!s->roles)
		return;
	if (s->roles->records) {
		server_enter(s);
		coord_records_close(s->roles->records, on_ended, s);
		server_wait_idle(s);
	}
	peers_destroy(s->roles->peers);
	snapshots_destroy(s->roles->snapshots);
	scrub_reader_destroy(s->roles->scrub_reader);
	s->roles->peers = NULL;
	s->roles->snapshots = NULL;
	s->roles->scrub_reader = NULL;
}

void roles_destroy(struct server *s)
{
	if (!s->roles)
		return;
	for (uint32_t p = 0; p < s->options.partitions; p++)
		replication_destroy(s->roles->of[p].replication);
	if (s->roles->session)
		rpc_loop_destroy(s->roles->session);
	if (s->roles->keeper)
		rpc_loop_destroy(s->roles->keeper);
	coord_records_destroy(s->roles->records);
	placement_destroy(s->roles->placement);
	if (s->roles->coordinator)
		coord_memory_destroy(s->roles->coordinator);
	free(s->roles);
}
