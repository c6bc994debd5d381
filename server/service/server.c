/* Life and death of a server. Start: executors, partitions, the ledger, then the listener. Stop:
 * the listener, then all work still under way between the loops, then the loops, then what they
 * owned. */
#include "server/service/server.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/base/deadline.h"
#include "common/base/key_partition.h"
#include "server/checkpoint/checkpoint_restore.h"
#include "server/checkpoint/rewind.h"
#include "server/cluster/heartbeat_loop.h"
#include "server/cluster/marks.h"
#include "server/cluster/placement.h"
#include "server/cluster/roles.h"
#include "server/ledger/ledger_log.h"
#include "server/log/journal.h"
#include "server/service/checkpoint_coordinator.h"
#include "server/service/durable.h"
#include "server/service/ledger_role.h"
#include "server/service/server_internal.h"
#include "server/service/service.h"
#include "server/service/trace_session.h"

#define TICK_MS           100u
#define HAND_OVER_POLL_MS 5u

/* --- Running */

/* Expires parked pulls of this executor's partitions whose deadline is at or before now_ms, and
 * ticks the partitions. */
static void expire_parked(struct executor *e, int64_t now_ms)
{
	struct server *s = e->server;
	for (uint32_t p = 0; p < s->options.partitions; p++)
		if (s->partitions[p] && server_executor(s, p) == e)
			partition_tick(s->partitions[p], now_ms);
}

static void executor_tick(void *arg)
{
	struct executor *e = arg;
	if (atomic_load(&e->server->stopping))
		return;
	loop_watch_ran(e->server->watch, (uint32_t)(e - e->server->executors));
	expire_parked(e, clock_ms(e->server->options.clock));
	roles_tick(e);
	if (e->server->durable)
		durable_tick(e->server, e);
	rpc_loop_after(e->loop, TICK_MS, executor_tick, e);
}

void server_ledger_ran(struct server *s)
{
	const int64_t now_ms = clock_ms(s->options.clock), before_ms = s->ledger_ran_ms;
	s->ledger_ran_ms = now_ms;
	if (!s->ledger || !before_ms || now_ms - before_ms <= (int64_t)WEIR_PROGRESS_INTERVAL_MS)
		return;
	LOG_AT(s->options.logger, LOG_WARN, "ledger stood still", "ms=%lld every lease begins anew", (long long)(now_ms - before_ms));
	ledger_renew_all(s->ledger);
}

static void ledger_ticks(void *arg)
{
	struct server *s = arg;
	if (atomic_load(&s->stopping))
		return;
	server_ledger_ran(s);
	loop_watch_ran(s->watch, s->options.executors);
	ledger_role_tick(s);
	if (ledger_rpc_is_open(s) && !(s->ledger_log && ledger_log_is_blocked(s->ledger_log)))
		ledger_tick(s->ledger);
	ledger_rpc_commit(s);
	if (s->ledger_log)
		ledger_log_tick(s->ledger_log, clock_ms(s->options.clock));
	if (s->durable && s->ledger_log)
		durable_ledger_tick(s);
	rpc_loop_after(s->ledger_loop, TICK_MS, ledger_ticks, s);
}

/* Ticks the watch of a server without heartbeats. */
static void watch_ticks(void *arg)
{
	struct server *s = arg;
	if (atomic_load(&s->stopping))
		return;
	(void)loop_watch_tick(s->watch);
	if (s->durable)
		durable_watch_tick(s);
	rpc_loop_after(s->watch_loop, WEIR_HEARTBEAT_TICK_MS, watch_ticks, s);
}

/* --- Start */

static weir_status make_partition(struct server *s, uint32_t id, struct partition **out, weir_error *err)
{
	struct partition_options o = {.id = id,
	                              .partitions = s->options.partitions,
	                              .generation = s->options.generation,
	                              .process_id = s->options.process_id,
	                              .clock = s->options.clock,
	                              .logger = s->options.logger,
	                              .trace = s->trace,
	                              .not_finite = s->options.not_finite,
	                              .ack = s->options.ack};
	struct store_options store = {.budget = &s->budget, .descriptors = &s->descriptors};
	o.store = &store;
	*out = NULL;
	roles_prepare_partition(s, &o);
	if (s->durable)
		durable_prepare_partition(s, &o, &store);
	else if (!(o.log = log_memory_create()))
		return weir_fail(err, WEIR_E_MEMORY, "partition %u: out of memory", id);
	*out = partition_create(&o, err);
	return *out ? WEIR_OK : WEIR_E_MEMORY;
}

static weir_status start_partition(struct server *s, uint32_t id, weir_error *err)
{
	struct partition *p;
	weir_status status = make_partition(s, id, &p, err);
	s->partitions[id] = p;
	return !status && s->durable ? durable_fill_partition(s, p, err) : status;
}

weir_status server_begin_partition(struct server *s, uint32_t id, weir_error *err)
{
	struct partition *p;
	assert(!s->partitions[id]);
	weir_status status = make_partition(s, id, &p, err);
	if (!status && s->durable)
		status = durable_begin_partition(s, p, err);
	if (status) {
		if (p)
			partition_close(p);
		partition_destroy(p);
		return status;
	}
	partition_recovered(p);
	s->partitions[id] = p;
	return WEIR_OK;
}

static weir_status start_executors(struct server *s, weir_error *err)
{
	const struct server_options *o = &s->options;
	for (uint32_t i = 0; i < o->executors; i++) {
		struct executor *e = &s->executors[i];
		char name[32];
		snprintf(name, sizeof name, "exec-%u", i);
		*e = (struct executor){.server = s, .writer = record_writer_create()};
		if (!e->writer)
			return weir_fail(err, WEIR_E_MEMORY, "%s: out of memory", s->name);
		e->loop = s->loops[i] = rpc_loop_create(o->rpc, name, err);
		if (!e->loop)
			return WEIR_E_MEMORY;
	}
	for (uint32_t p = 0; p < o->partitions; p++)
		if (server_is_first_host(s, (uint16_t)p) ||
		    (s->durable && vote_store_found(s->identity.votes, (uint16_t)p).promised > 0)) {
			weir_status status = start_partition(s, p, err);
			if (status)
				return status;
		}
	return WEIR_OK;
}

static weir_status start_ledger(struct server *s, const struct ledger_options *options, weir_error *err)
{
	if (!options || !ledger_role_may_come(s))
		return WEIR_OK;
	s->ledger_loop = rpc_loop_create(s->options.rpc, "ledger", err);
	if (!s->ledger_loop)
		return WEIR_E_MEMORY;
	struct ledger_options own = *options;
	own.process_id = server_volatile_process_id(s);
	own.replicas = server_replicas(s);
	own.memory_budget_bytes = s->options.memory_budget_bytes;
	return ledger_create(&s->ledger, &own, err);
}

weir_status server_open_replica_identity(struct server *s, const struct promising_options *folder, enum vote_log log,
                                         const struct folder_start *start, weir_error *err)
{
	const struct server_options *o = &s->options;
	char holder[WEIR_NAME_BYTES_MAX + 32];
	struct replica_identity_options options = {
	    .disk = folder->disk,
	    .path = folder->path,
	    .holder = holder,
	    .clock = o->clock,
	    .who = {.generation = o->generation, .index = o->index, .servers = o->servers, .partitions = o->partitions},
	    .log = log,
	    .start = *start,
	    .incarnation_least = o->incarnation_least};
	memcpy(options.who.uuid, o->uuid, sizeof options.who.uuid);
	memcpy(options.machine_boot, folder->machine_boot, sizeof options.machine_boot);
	snprintf(holder, sizeof holder, "%s, pid %ld", s->name, (long)getpid());
	return replica_identity_open(&s->identity, &options, err);
}

static bool is_restored(const struct server_options *o)
{
	return o->restore && *o->restore;
}

/* Restarts a log in memory behind the restored state. */
static weir_status begin_behind(const struct server *s, struct log *log, weir_error *err)
{
	return s->begun ? log->ops->restart(log, s->begun + 1, err) : WEIR_OK;
}

/* Loads rows and state of this server's partitions, and the ledger's, from the checkpoint. Call
 * before anyone can ask. */
static weir_status restore(struct server *s, const struct server_options *o, weir_error *err)
{
	struct checkpoint_restore *r = NULL;
	struct checkpoint_restore_job job = {
	    .generation = o->generation, .partitions = o->partitions, .replicated = server_is_replicated(s)};
	uint8_t *ledger = NULL;
	size_t bytes = 0;
	if (!is_restored(o) || (s->durable && !durable_is_restoring(s)))
		return WEIR_OK;
	memcpy(job.uuid, o->uuid, sizeof job.uuid);
	weir_status status = checkpoint_restore_open(&r, o->checkpoint, o->restore, &job, err);
	for (uint32_t p = 0; p < o->partitions && !status; p++)
		if (s->partitions[p]) {
			status = checkpoint_restore_partition(r, s->partitions[p], s->cold, err);
			if (!status && s->durable)
				status = durable_load_rows(s, s->partitions[p], err);
			else if (!status)
				status = begin_behind(s, partition_log(s->partitions[p]), err);
		}
	if (!status && s->ledger && ledger_role_is_first_host(s)) {
		status = checkpoint_restore_ledger(r, &ledger, &bytes, err);
		if (!status)
			status = ledger_merge(s->ledger, ledger, bytes, NULL, err);
		if (!status && s->begun && !(s->ledger_began = message_copy(ledger, bytes)))
			status = weir_fail(err, WEIR_E_MEMORY, "ledger: out of memory");
	}
	free(ledger);
	checkpoint_restore_close(r);
	if (!status)
		logger_write(o->logger, LOG_INFO, NULL, "restored", "checkpoint=%s generation=%llu", o->restore,
		             (unsigned long long)o->generation);
	return status;
}

/* Brings partitions and the ledger to the state of their logs. This start's entries follow. */
static weir_status begin_logs(struct server *s, const struct server_options *o, weir_error *err)
{
	weir_status status = s->durable ? durable_recover(s, err) : WEIR_OK;
	if (s->durable && !status)
		status = marks_create(s, o->durable, &(struct marks_log){durable_mark, durable_began(s)}, err);
	for (uint32_t p = 0; p < s->options.partitions && !s->durable; p++)
		if (s->partitions[p])
			partition_recovered(s->partitions[p]);
	if (!status)
		status = ledger_role_prepare(s, err);
	if (!status)
		status = roles_start(s, err);
	return status ? status : ledger_role_start(s, err);
}

static weir_status start_checkpoints(struct server *s, const struct server_options *o, weir_error *err)
{
	if (!o->checkpoint)
		return WEIR_OK;
	s->takes = checkpoint_takes_create(s, o->checkpoint);
	if (s->takes && s->ledger_loop)
		s->coordinator = checkpoint_coordinator_create(s, o->checkpoint, o->ledger->servers, o->ledger->servers_count);
	if (!s->takes || (s->ledger_loop && !s->coordinator))
		return weir_fail(err, WEIR_E_MEMORY, "%s: out of memory for checkpoints", o->name);
	return WEIR_OK;
}

static weir_status open_folder(struct server *s, const struct server_options *o, weir_error *err)
{
	if (o->durable)
		return durable_open(s, o->durable, is_restored(o), err);
	weir_status status =
	    o->promising ? server_open_replica_identity(s, o->promising, VOTE_LOG_MEMORY, &(struct folder_start){0}, err) : WEIR_OK;
	return o->promising && !status ? folder_begin(s->identity.folder, err) : status;
}

/* Checks the requirements of replicated partitions. */
static weir_status check_replicas(const struct server *s, const struct server_options *o, weir_error *err)
{
	if (!server_is_replicated(s))
		return WEIR_OK;
	assert(s->identity.votes);
	if (!o->coordinator)
		return weir_fail(err, WEIR_E_INVALID, "%s: partitions with replicas need a coordinator, and none is given", o->name);
	return WEIR_OK;
}

static bool address_of(void *server, uint16_t i, char *out)
{
	const struct server *s = server;
	return partition_map_address(s->map, i, out);
}

static bool is_slow(void *server)
{
	durable_watch_tick(server); /* called at each tick */
	return durable_is_slow(server);
}

/* Call before streams may come in. A server without replicas has no heartbeats, and a loop of its
 * own for the watch. */
static weir_status start_heartbeats(struct server *s, const struct server_options *o, weir_error *err)
{
	s->watch = loop_watch_create(o->logger, o->executors, s->ledger_loop);
	if (!s->watch)
		return weir_fail(err, WEIR_E_MEMORY, "%s: out of memory", o->name);
	if (!server_is_replicated(s))
		return (s->watch_loop = rpc_loop_create(o->rpc, "watch", err)) ? WEIR_OK : WEIR_E_MEMORY;
	struct heartbeat_loop_options detector = {.rpc = o->rpc,
	                                          .logger = o->logger,
	                                          .generation = o->generation,
	                                          .self = (uint16_t)o->index,
	                                          .servers = server_servers_max(s),
	                                          .partitions = o->partitions,
	                                          .watch = s->watch,
	                                          .incarnation = vote_store_incarnation(s->identity.votes),
	                                          .process_id = o->process_id,
	                                          .arg = s,
	                                          .address = address_of,
	                                          .is_slow = s->durable ? is_slow : NULL};
	memcpy(detector.uuid, o->uuid, sizeof detector.uuid);
	return heartbeat_loop_create(&s->detector, &detector, err);
}

/* Storage in memory does not fail. */
static void on_storage_failed(struct server *s, const weir_error *err)
{
	assert(s->durable);
	durable_failed(s, err);
}

static void on_partition_lost(struct server *s, uint16_t partition)
{
	rewind_lost(s->rewind, partition);
}

static void on_rewound(struct server *s, const struct rewind_record *next)
{
	rewind_told(s->rewind, next);
}

static const struct roles_host roles_host = {.begin_partition = server_begin_partition,
                                             .keep_table = server_keep_table,
                                             .storage_failed = on_storage_failed,
                                             .lost = on_partition_lost,
                                             .rewound = on_rewound};

static weir_status start(struct server *s, const struct server_options *o, weir_error *err)
{
	assert(o->index < server_servers_max(s));
	if (!s->executors || !s->loops || !s->partitions || !s->map || !s->trace_session)
		return weir_fail(err, WEIR_E_MEMORY, "%s: out of memory", o->name);
	weir_status status = open_folder(s, o, err);
	if (!status)
		status = check_replicas(s, o, err);
	if (!status)
		status = roles_create(s, o, &roles_host, err);
	if (!status)
		status = rewind_create(s, o->checkpoint, err);
	if (!status)
		status = start_executors(s, err);
	if (!status)
		status = start_ledger(s, o->ledger, err);
	if (!status)
		status = restore(s, o, err);
	if (!status)
		status = begin_logs(s, o, err);
	server_note_tables(s);
	if (!status && s->marks)
		status = marks_start(s->marks, err);
	if (!status)
		status = start_heartbeats(s, o, err);
	if (!status)
		status = rpc_server_start(&s->listener, o->rpc, o->listen, s->loops, o->executors, service_handlers(), s, err);
	if (status)
		return status;
	snprintf(s->address, sizeof s->address, "%s", rpc_server_address(s->listener));
	status = start_checkpoints(s, o, err);
	if (status)
		return status;
	for (uint32_t i = 0; i < o->executors; i++)
		rpc_loop_post(s->executors[i].loop, executor_tick, &s->executors[i]);
	if (s->ledger_loop)
		rpc_loop_post(s->ledger_loop, ledger_ticks, s);
	if (s->watch_loop)
		rpc_loop_post(s->watch_loop, watch_ticks, s);
	return WEIR_OK;
}

weir_status server_create(struct server **out, const struct server_options *options, weir_error *err)
{
	assert(options->executors > 0 && options->servers > 0);
	assert(options->partitions > 0 && options->partitions <= WEIR_PARTITIONS_MAX);
	*out = NULL;
	struct server *s = calloc(1, sizeof *s);
	if (!s)
		return weir_fail(err, WEIR_E_MEMORY, "%s: out of memory", options->name);
	s->options = *options;
	s->options.ledger = NULL;
	s->options.checkpoint = NULL;
	s->options.restore = NULL;
	s->options.rewound = NULL;
	snprintf(s->restored, sizeof s->restored, "%s", options->restore ? options->restore : "");
	s->rewound = options->rewound ? *options->rewound : (struct rewind_record){0};
	s->options.durable = NULL;
	s->options.promising = NULL;
	s->options.coordinator = NULL;
	s->options.listen = NULL;
	s->options.addresses = NULL;
	snprintf(s->name, sizeof s->name, "%s", options->name);
	s->options.name = s->name;
	s->begun = is_restored(options) && server_is_replicated(s) ? CHECKPOINT_RESTORE_INDEX : 0;
	s->started_ms = clock_ms(options->clock);
	s->budget.limit = options->memory_budget_bytes;
	table_descriptors_init(&s->descriptors);
	pthread_mutex_init(&s->lock, NULL);
	deadline_cond_init(&s->idle);
	s->executors = calloc(options->executors, sizeof *s->executors);
	s->loops = calloc(options->executors, sizeof(struct rpc_loop *));
	s->partitions = calloc(options->partitions, sizeof *s->partitions);
	s->map = partition_map_create(options->partitions, options->servers, server_servers_max(s), options->addresses);
	s->trace = trace_create(options->clock);
	s->trace_session = s->trace ? trace_session_create(s->trace, s->name) : NULL;
	weir_status status = start(s, options, err);
	if (status)
		server_destroy(s);
	else
		*out = s;
	return status;
}

const char *server_address(const struct server *s)
{
	return s->address;
}

bool server_stuck(const struct server *s, char thread[LOOP_WATCH_NAME_BYTES], uint64_t *ms)
{
	return loop_watch_stuck(s->watch, thread, ms);
}

bool server_is_coordinated(const struct server *s)
{
	return !server_is_replicated(s) || roles_are_known(s);
}

/* --- Stop */

static void finish_streams(struct executor *e, void *arg)
{
	(void)arg;
	expire_parked(e, INT64_MAX);
	roles_end_links(e);
	for (struct reply_stream *k = e->streams, *next; k; k = next) {
		next = k->next;
		reply_stream_finish(k);
	}
}

static void tour_nothing(struct executor *e, void *arg)
{
	(void)e;
	(void)arg;
}

static void close_ledger(void *arg)
{
	struct server *s = arg;
	ledger_role_leave(s);
	ledger_close(s->ledger);
	ledger_rpc_commit(s);
	server_leave(s);
}

static void close_listener(struct server *s, uint32_t grace_ms)
{
	if (!s->listener)
		return;
	rpc_server_stop(s->listener, grace_ms);
	s->listener = NULL;
}

/* Gives up the checkpoint being written: nothing of it is published. */
static void end_checkpoints(struct server *s)
{
	checkpoint_coordinator_destroy(s->coordinator);
	checkpoint_takes_destroy(s->takes);
	rewind_stop(s->rewind);
	s->coordinator = NULL;
	s->takes = NULL;
}

void server_hand_over(struct server *s, uint32_t timeout_ms)
{
	struct placement *h = roles_placement(s);
	if (s->durable)
		durable_turn_journal(s);
	if (!h)
		return;
	placement_leave(h);
	for (uint32_t waited_ms = 0; waited_ms < timeout_ms && placement_is_leaving(h); waited_ms += HAND_OVER_POLL_MS)
		nanosleep(&(struct timespec){.tv_nsec = HAND_OVER_POLL_MS * 1000000L}, NULL);
}

void server_drain(struct server *s, uint32_t timeout_ms)
{
	atomic_store(&s->draining, true);
	if (s->detector)
		heartbeat_loop_hush(s->detector);
	if (s->ledger_loop) {
		server_enter(s);
		rpc_loop_post(s->ledger_loop, close_ledger, s);
	}
	/* Out of memory: the listener cuts the streams off after the grace period. */
	(void)server_tour(s, finish_streams, tour_nothing, NULL);
	close_listener(s, timeout_ms);
}

static void abandon_all(struct executor *e, void *arg)
{
	struct server *s = e->server;
	(void)arg;
	for (uint32_t p = 0; p < s->options.partitions; p++)
		if (s->partitions[p] && server_executor(s, p) == e)
			partition_abandon(s->partitions[p]);
}

/* Answers every waiting caller: with its reply, if that is durable by now, else that the server is
 * stopping. */
static void end_waiting(struct server *s)
{
	if (s->durable)
		durable_settle(s);
	if (s->ledger_loop) {
		server_enter(s);
		rpc_loop_post(s->ledger_loop, close_ledger, s);
	}
	/* Out of memory: they expire by their own deadline. */
	(void)server_tour(s, abandon_all, tour_nothing, NULL);
	server_wait_idle(s);
}

static void free_parts(struct server *s)
{
	for (uint32_t i = 0; s->executors && i < s->options.executors; i++)
		record_writer_destroy(s->executors[i].writer);
	for (uint32_t p = 0; s->partitions && p < s->options.partitions; p++)
		partition_destroy(s->partitions[p]);
	ledger_role_destroy(s);
	roles_destroy(s);
	rewind_destroy(s->rewind);
	heartbeat_loop_destroy(s->detector);
	loop_watch_destroy(s->watch);
	if (s->durable)
		durable_close(s);
	else
		replica_identity_close(&s->identity, false);
	trace_session_destroy(s->trace_session);
	trace_destroy(s->trace);
	free(s->executors);
	free(s->loops);
	free(s->partitions);
	partition_map_destroy(s->map);
	table_descriptors_destroy(&s->descriptors);
	pthread_mutex_destroy(&s->lock);
	pthread_cond_destroy(&s->idle);
	free(s);
}

void server_destroy(struct server *s)
{
	if (!s)
		return;
	if (s->listener)
		server_drain(s, 0);
	end_checkpoints(s); /* nobody requests one any more */
	atomic_store(&s->stopping, true);
	if (s->loops && s->loops[s->options.executors - 1] && s->loops[0]) {
		marks_stop(s->marks);
		roles_end_snapshots(s);
		ledger_role_end_snapshots(s);
		end_waiting(s);
		if (s->durable)
			durable_stop(s);
		marks_finish(s->marks);
		roles_stop(s);
		ledger_role_stop(s);
		roles_close(s);
	}
	marks_destroy(s->marks);
	vote_store_stop(s->identity.votes);
	heartbeat_loop_stop(s->detector);
	if (s->watch_loop)
		rpc_loop_destroy(s->watch_loop);
	for (uint32_t i = 0; s->loops && i < s->options.executors; i++)
		if (s->loops[i])
			rpc_loop_destroy(s->loops[i]);
	if (s->ledger_loop)
		rpc_loop_destroy(s->ledger_loop);
	ledger_log_destroy(s->ledger_log);
	message_release(s->ledger_began);
	if (s->ledger)
		ledger_destroy(s->ledger);
	free_parts(s);
}
