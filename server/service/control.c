/* Control calls of the parameter server: register a table, scan, status, map, health,
 * checkpoints. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "server/checkpoint/rewind.h"
#include "server/cluster/placement.h"
#include "server/cluster/roles.h"
#include "server/replication/scrub.h"
#include "server/service/checkpoint_coordinator.h"
#include "server/service/durable.h"
#include "server/service/server_internal.h"
#include "server/store/store.h"

/* Packs and sends a reply. */
static void answer(struct rpc_call *call, const ProtobufCMessage *reply)
{
	struct message *m = wire_pack(reply);
	if (m)
		rpc_call_reply(call, WEIR_OK, "", m);
	else
		rpc_call_reply(call, WEIR_E_MEMORY, "the reply does not fit in memory", NULL);
}

static weir_status check_job(struct server *s, const Weir__V1__JobId *job, weir_error *err)
{
	if (!job)
		return weir_fail(err, WEIR_E_INVALID, "the request names no job");
	weir_status status = server_check_job(s, job->uuid.data, job->uuid.len, job->generation, err);
	return status ? status : server_check_ledger_process_id(s, job->process_id, err);
}

/* --- RegisterTable: the folder first, then every partition that is primary here, executor by
 * executor. A partition names its tables in its header, and a start must understand that. With
 * other replicas, each partition answers once they know the table too. */

struct registration_share { /* of one partition */
	struct registration *registration;
	struct table_record record;
	weir_error err;
	bool asked;
};

struct registration {
	struct server *server;
	struct rpc_call *call;
	uint32_t id;
	weir_table_spec spec;
	weir_error err;
	/* Answers still missing; the last one replies to the caller. */
	_Atomic uint32_t left;
	struct registration_share shares[]; /* (partitions) each belongs to its partition's executor */
};

static void registration_destroy(struct registration *g)
{
	for (uint32_t p = 0; p < g->server->options.partitions; p++)
		message_release(g->shares[p].record.frame);
	free((void *)(uintptr_t)g->spec.segments);
	free(g);
}

/* Finds the first failure. A partition that has moved meanwhile is left to its new primary. */
static void find_failure(struct registration *g)
{
	for (uint32_t p = 0; p < g->server->options.partitions && !g->err.status; p++)
		if (g->shares[p].err.status != WEIR_E_MOVED)
			g->err = g->shares[p].err;
}

static void registration_tell(struct registration *g)
{
	Weir__V1__Status status = WEIR__V1__STATUS__INIT;
	Weir__V1__RegisterTableReply reply = WEIR__V1__REGISTER_TABLE_REPLY__INIT;
	uint32_t partitions[WEIR_PARTITIONS_MAX];
	find_failure(g);
	for (uint32_t p = 0; p < g->server->options.partitions; p++)
		if (g->shares[p].asked && !g->shares[p].err.status)
			partitions[reply.n_partitions++] = p;
	status.code = g->err.status;
	status.text = g->err.text;
	reply.status = &status;
	reply.partitions = partitions;
	if (g->err.status)
		LOG_AT(g->server->options.logger, LOG_WARN, "table refused", "table=%s reason=\"%s\"", g->spec.name, g->err.text);
	else
		LOG_AT(g->server->options.logger, LOG_DEBUG, "table registered", "id=%u table=%s", g->id, g->spec.name);
	answer(g->call, &reply.base);
}

static void registration_step(struct registration *g)
{
	struct server *s = g->server;
	if (atomic_fetch_sub(&g->left, 1) > 1)
		return;
	registration_tell(g);
	registration_destroy(g);
	server_leave(s);
}

static void on_registered(void *arg, const struct partition_reply *reply)
{
	struct registration_share *x = arg;
	if (reply->status)
		weir_fail(&x->err, reply->status, "%s", reply->text ? reply->text : weir_status_text(reply->status));
	registration_step(x->registration);
}

static void register_with(struct registration *g, struct partition *p)
{
	struct registration_share *x = &g->shares[partition_id(p)];
	x->registration = g;
	x->asked = true;
	if (!server_is_replicated(g->server)) {
		(void)partition_add_table(p, g->id, &g->spec, &x->err);
		return;
	}
	if (partition_table_record(p, g->id, &g->spec, &x->record)) {
		weir_fail(&x->err, WEIR_E_MEMORY, "table %s: out of memory", g->spec.name);
		return;
	}
	atomic_fetch_add(&g->left, 1);
	partition_submit(p, &x->record.record, &x->record.body, x->record.frame, on_registered, x);
}

static void register_visit(struct executor *e, void *arg)
{
	struct registration *g = arg;
	struct server *s = e->server;
	for (uint32_t p = 0; p < s->options.partitions; p++)
		if (s->partitions[p] && server_executor(s, p) == e && !partition_is_moved(s->partitions[p]))
			register_with(g, s->partitions[p]);
}

static void register_done(struct executor *e, void *arg)
{
	(void)e;
	registration_step(arg);
}

static weir_status registration_read(struct registration *g, struct message *request)
{
	ProtobufCMessage *m = NULL;
	weir_status status = wire_unpack(&weir__v1__register_table_request__descriptor, request, &m, &g->err);
	const Weir__V1__RegisterTableRequest *q = (const Weir__V1__RegisterTableRequest *)m;
	if (!status)
		status = check_job(g->server, q->job, &g->err);
	if (!status && !q->table)
		status = weir_fail(&g->err, WEIR_E_INVALID, "the request has no table");
	if (!status)
		status = wire_table_read(q->table, &g->spec, &g->id, &g->err);
	wire_destroy(m);
	return status;
}

static weir_status registration_start(struct registration *g, struct message *request)
{
	weir_status status = registration_read(g, request);
	if (!status)
		status = server_keep_table(g->server, g->id, &g->spec, &g->err);
	if (status)
		return status;
	server_enter(g->server);
	status = server_tour(g->server, register_visit, register_done, g);
	if (status)
		server_leave(g->server);
	return status;
}

void control_register_table(struct server *s, struct rpc_call *call, struct message *request)
{
	struct registration *g = calloc(1, sizeof *g + s->options.partitions * sizeof *g->shares);
	if (!g) {
		rpc_call_reply(call, WEIR_E_MEMORY, "out of memory", NULL);
		return;
	}
	g->server = s;
	g->call = call;
	atomic_store(&g->left, 1);
	const weir_status status = registration_start(g, request);
	if (!status)
		return;
	rpc_call_reply(call, status, g->err.text, NULL);
	registration_destroy(g);
}

/* --- Scan: one page of one partition, on its executor */

struct scan {
	struct server *server;
	struct rpc_call *call;
	uint32_t table, partition, rows_max;
	struct store_place place;
	struct optimizer_clock clock;
	bool slots;
};

static void scan_run(void *arg)
{
	struct scan *q = arg;
	struct server *s = q->server;
	struct record_writer *w = record_writer_create();
	struct message *frame = NULL;
	if (w) {
		partition_scan(s->partitions[q->partition], q->table, q->place, q->rows_max, q->slots, q->clock, s->options.process_id,
		               w);
		frame = record_writer_finish(w, s->options.uuid, s->options.generation, NULL, NULL);
		record_writer_destroy(w);
	}
	struct message *reply = frame ? wire_wrap_frame(frame) : NULL;
	rpc_call_reply(q->call, reply ? WEIR_OK : WEIR_E_MEMORY, reply ? "" : "the page does not fit in memory", reply);
	free(q);
	server_leave(s);
}

static weir_status scan_read(struct scan *out, struct message *request, weir_error *err)
{
	struct server *s = out->server;
	ProtobufCMessage *m = NULL;
	weir_status status = wire_unpack(&weir__v1__scan_request__descriptor, request, &m, err);
	const Weir__V1__ScanRequest *q = (const Weir__V1__ScanRequest *)m;
	if (!status)
		status = check_job(s, q->job, err);
	if (!status && q->partition >= s->options.partitions)
		status = weir_fail(err, WEIR_E_NOT_FOUND, "scan: there is no partition %u", q->partition);
	if (!status && !s->partitions[q->partition])
		status = weir_fail(err, WEIR_E_MOVED, "scan: partition %u is not on server %u of %u", q->partition, s->options.index,
		                   s->options.servers);
	if (!status && (q->cursor || q->below) && q->process_id != s->options.process_id)
		status = weir_fail(err, WEIR_E_MOVED, "scan: server %u was started again since the last page of partition %u",
		                   s->options.index, q->partition);
	if (!status) {
		out->table = q->table;
		out->partition = q->partition;
		out->rows_max = q->rows_max;
		out->place = (struct store_place){.at = q->cursor, .below = q->below};
		out->slots = q->slots;
		out->clock = (struct optimizer_clock){.steps = q->clock_steps, .lr = q->clock_rate};
	}
	wire_destroy(m);
	return status;
}

void control_scan(struct server *s, struct rpc_call *call, struct message *request)
{
	struct scan *q = calloc(1, sizeof *q);
	weir_error err = {0};
	if (!q) {
		rpc_call_reply(call, WEIR_E_MEMORY, "out of memory", NULL);
		return;
	}
	q->server = s;
	q->call = call;
	weir_status status = scan_read(q, request, &err);
	if (status) {
		rpc_call_reply(call, status, err.text, NULL);
		free(q);
		return;
	}
	server_enter(s);
	rpc_loop_post(server_executor(s, q->partition)->loop, scan_run, q);
}

/* --- Status: gathered executor by executor */

struct table_sum {
	char name[WEIR_TABLE_NAME_BYTES];
	bool known;
	Weir__V1__TableStatus status;
	uint64_t staleness[HISTOGRAM_BUCKETS];
};

struct status_tour {
	struct server *server;
	struct rpc_call *call;
	uint32_t partitions_count;
	Weir__V1__PartitionStatus *partitions;  /* (partitions of the job) */
	uint32_t (*members)[WEIR_REPLICAS_MAX]; /* (partitions) of their replicas */
	struct table_sum *tables[WEIR_TABLES_MAX + 1];
	uint64_t duplicates, stale, nonfinite;
	Weir__V1__DurableStatus durable;
	bool rows_below; /* some partition's rows may be on disk only */
	uint64_t requests, request_bytes;
};

static uint64_t relaxed(const _Atomic uint64_t *c)
{
	return atomic_load_explicit(c, memory_order_relaxed);
}

static void visit_table(struct status_tour *g, const struct partition *p, uint32_t id, const struct store_table *t,
                        struct histogram *h)
{
	if (!g->tables[id]) {
		struct table_sum *sum = calloc(1, sizeof *sum);
		if (!sum)
			return;
		memcpy(sum->name, store_table_spec(t)->name, sizeof sum->name);
		weir__v1__table_status__init(&sum->status);
		sum->status.id = id;
		sum->status.name = sum->name;
		sum->status.staleness = sum->staleness;
		sum->status.push_codec = store_table_spec(t)->push.codec;
		sum->status.pull_codec = store_table_spec(t)->pull.codec;
		g->tables[id] = sum;
	}
	struct table_sum *sum = g->tables[id];
	const struct partition_table_counters *c = partition_table_get_counters(p, id);
	const struct optimizer_clock clock = partition_table_clock(p, id);
	if (clock.steps > sum->status.steps) {
		sum->status.steps = clock.steps;
		sum->status.learning_rate = (double)clock.lr;
	}
	sum->status.rows += store_table_rows(t);
	sum->status.bytes += store_table_bytes(t);
	sum->status.pushes += relaxed(&c->pushes);
	sum->status.pulls += relaxed(&c->pulls);
	sum->status.rows_stub += store_table_stubs(t);
	sum->status.pushes_unadmitted += relaxed(&c->unadmitted);
	sum->status.rows_evicted += relaxed(&c->evicted);
	sum->status.push_bytes += relaxed(&c->push_bytes);
	sum->status.push_plain_bytes += relaxed(&c->push_plain_bytes);
	sum->status.pull_bytes += relaxed(&c->pull_bytes);
	sum->status.pull_plain_bytes += relaxed(&c->pull_plain_bytes);
	for (uint32_t i = 0; h && i < HISTOGRAM_BUCKETS; i++) {
		sum->staleness[i] += relaxed(&h->bucket[i]);
		if (sum->staleness[i] && sum->status.n_staleness < i + 1)
			sum->status.n_staleness = i + 1;
	}
}

/* Sums, over partitions, the figures of rows below memory. */
static void visit_store(struct status_tour *g, struct partition *p)
{
	Weir__V1__DurableStatus *out = &g->durable;
	const struct partition_counters *c = partition_get_counters(p);
	struct store_counters rows;
	store_get_counters(partition_store(p), &rows);
	out->flush_lag_entries += relaxed(&c->applied) - relaxed(&c->flushed);
	g->rows_below |= rows.below;
	out->resident_rows += rows.rows;
	out->hits += rows.hits;
	out->misses += rows.misses;
	out->evictions += rows.dropped;
	out->disk_full |= atomic_load_explicit(&c->disk_full, memory_order_relaxed);
}

static void visit_partition(struct status_tour *g, struct partition *p)
{
	const struct partition_counters *c = partition_get_counters(p);
	Weir__V1__PartitionStatus *out = &g->partitions[g->partitions_count];
	const struct member_set *in_sync = roles_in_sync(g->server, (uint16_t)partition_id(p));
	weir__v1__partition_status__init(out);
	out->id = partition_id(p);
	out->applied = relaxed(&c->applied);
	out->log_last = partition_log(p)->ops->last(partition_log(p));
	out->parts_applied = relaxed(&c->parts_applied);
	out->fingerprint = relaxed(&c->fingerprint);
	out->parts_dropped = relaxed(&c->parts_dropped);
	out->dropped_fingerprint = relaxed(&c->dropped_fingerprint);
	out->parts_double = relaxed(&c->parts_double);
	out->units_open = relaxed(&c->units_open);
	out->rows = relaxed(&c->rows);
	out->stable = relaxed(&c->stable);
	out->flushed = relaxed(&c->flushed);
	out->epoch = partition_epoch(p);
	out->members = g->members[g->partitions_count++];
	out->n_members = out->in_sync = in_sync ? in_sync->count : 0;
	for (uint32_t i = 0; i < out->in_sync; i++)
		out->members[i] = in_sync->ids[i];
	const struct scrub *scrub = roles_scrub(g->server, (uint16_t)out->id);
	out->scrubs = scrub ? relaxed(&scrub->counters.compared) : 0;
	out->scrubs_differ = scrub ? relaxed(&scrub->counters.differ) : 0;
	g->duplicates += relaxed(&c->duplicates_refused);
	g->stale += relaxed(&c->stale_refused);
	g->nonfinite += relaxed(&c->nonfinite_refused);
	for (uint32_t id = 0; id <= WEIR_TABLES_MAX; id++) {
		const struct store_table *t = store_table(partition_store(p), id);
		if (t)
			visit_table(g, p, id, t, partition_staleness(p, id));
	}
}

static void status_visit(struct executor *e, void *arg)
{
	struct status_tour *g = arg;
	struct server *s = e->server;
	for (const struct reply_stream *k = e->streams; k; k = k->next) {
		g->requests += k->requests;
		g->request_bytes += k->request_bytes;
	}
	for (uint32_t p = 0; p < s->options.partitions; p++)
		if (s->partitions[p] && server_executor(s, p) == e) {
			visit_store(g, s->partitions[p]);
			if (!partition_is_moved(s->partitions[p]))
				visit_partition(g, s->partitions[p]);
		}
}

static void fill_durable(struct status_tour *g, Weir__V1__ServerStatus *out)
{
	struct server *s = g->server;
	struct durable_status d;
	if (!s->durable)
		return;
	durable_get_status(s, &d);
	g->durable.recovery_ms = d.recovery_ms;
	g->durable.replayed_entries = d.replayed_entries;
	g->durable.replayed_bytes = d.replayed_bytes;
	g->durable.journal_bytes = d.journal_bytes;
	g->durable.cold_rows = g->rows_below && d.keys > g->durable.resident_rows ? d.keys - g->durable.resident_rows : 0;
	g->durable.memory_bytes = d.memory_bytes;
	g->durable.budget_bytes = d.budget_bytes;
	g->durable.disk_full |= d.disk_full;
	g->durable.sync_ms = d.sync_ms;
	g->durable.disk_slow = d.disk_slow;
	out->durable = &g->durable;
}

/* Status that needs no visit to the loops. */
struct self_told {
	Weir__V1__Status status;
	Weir__V1__JobId job;
};

static void fill_self(struct server *s, struct self_told *self, Weir__V1__ServerStatus *out)
{
	weir__v1__status__init(&self->status);
	weir__v1__job_id__init(&self->job);
	self->job.uuid = (ProtobufCBinaryData){.len = sizeof s->options.uuid, .data = s->options.uuid};
	self->job.generation = s->options.generation;
	out->status = &self->status;
	out->job = &self->job;
	out->name = s->name;
	out->address = s->address;
	out->uptime_ms = (uint64_t)(clock_ms(s->options.clock) - s->started_ms);
	out->pid = (uint32_t)getpid();
	out->process_id = s->options.process_id;
	out->replicas = server_replicas(s);
	out->draining = atomic_load(&s->draining);
}

static void fill_server_status(const struct status_tour *g, Weir__V1__ServerStatus *out)
{
	struct server *s = g->server;
	out->bytes_pushed = relaxed(&s->bytes_pushed);
	out->bytes_pulled = relaxed(&s->bytes_pulled);
	out->duplicates_refused = g->duplicates;
	out->stale_refused = g->stale;
	out->nonfinite_refused = g->nonfinite;
	out->corrupt_refused = relaxed(&s->corrupt_refused);
	uint64_t push = relaxed(&s->push_streams), pull = relaxed(&s->pull_streams);
	out->connections = push > pull ? push : pull;
	out->requests = g->requests;
	out->request_bytes = g->request_bytes;
}

static void status_destroy(struct status_tour *g)
{
	for (uint32_t id = 0; id <= WEIR_TABLES_MAX; id++)
		free(g->tables[id]);
	free(g->partitions);
	free(g->members);
	free(g);
}

static void fill_checkpoints(const struct server *s, struct checkpoint_counts *counts, Weir__V1__CheckpointStatus *told,
                             Weir__V1__ServerStatus *out)
{
	weir__v1__checkpoint_status__init(told);
	if (!s->coordinator)
		return;
	checkpoint_coordinator_count(s->coordinator, counts);
	told->written = counts->written;
	told->failed = counts->failed;
	told->name = counts->name;
	told->text = counts->text;
	told->failing = counts->failing;
	told->running = counts->running;
	out->checkpoints = told;
}

static void status_done(struct executor *e, void *arg)
{
	(void)e;
	struct status_tour *g = arg;
	struct server *s = g->server;
	struct self_told self;
	Weir__V1__ServerStatus reply = WEIR__V1__SERVER_STATUS__INIT;
	Weir__V1__TableStatus *tables[WEIR_TABLES_MAX + 1];
	Weir__V1__PartitionStatus *partitions[WEIR_PARTITIONS_MAX];
	char lost[WEIR_ERROR_TEXT_BYTES];
	fill_self(s, &self, &reply);
	for (uint32_t i = 0; i < g->partitions_count; i++)
		partitions[i] = &g->partitions[i];
	for (uint32_t id = 0; id <= WEIR_TABLES_MAX; id++)
		if (g->tables[id])
			tables[reply.n_tables++] = &g->tables[id]->status;
	reply.n_partitions = g->partitions_count;
	reply.partitions = partitions;
	reply.tables = tables;
	fill_server_status(g, &reply);
	fill_durable(g, &reply);
	struct checkpoint_counts counts;
	Weir__V1__CheckpointStatus checkpoints;
	fill_checkpoints(s, &counts, &checkpoints, &reply);
	rewind_get_lost(s->rewind, lost);
	reply.lost = lost;
	answer(g->call, &reply.base);
	status_destroy(g);
}

/* A tour would wait for the stuck thread. So the reply names that thread and reports no
 * partition. */
static bool answer_stuck(struct server *s, struct rpc_call *call)
{
	struct self_told self;
	char thread[LOOP_WATCH_NAME_BYTES];
	uint64_t stuck_ms;
	if (!server_stuck(s, thread, &stuck_ms))
		return false;
	Weir__V1__ServerStatus reply = WEIR__V1__SERVER_STATUS__INIT;
	fill_self(s, &self, &reply);
	reply.stuck = thread;
	reply.stuck_ms = stuck_ms;
	answer(call, &reply.base);
	return true;
}

void control_status(struct server *s, struct rpc_call *call, struct message *request)
{
	weir_error err = {0};
	ProtobufCMessage *m = NULL;
	weir_status status = wire_unpack(&weir__v1__status_request__descriptor, request, &m, &err);
	const Weir__V1__StatusRequest *q = (const Weir__V1__StatusRequest *)m;
	if (!status && q->job && q->job->uuid.len)
		status = check_job(s, q->job, &err);
	wire_destroy(m);
	if (!status && answer_stuck(s, call))
		return;
	struct status_tour *g = status ? NULL : calloc(1, sizeof *g);
	if (g) {
		*g = (struct status_tour){.server = s,
		                          .call = call,
		                          .partitions = calloc(s->options.partitions, sizeof *g->partitions),
		                          .members = calloc(s->options.partitions, sizeof *g->members)};
		weir__v1__durable_status__init(&g->durable);
		if (g->partitions && g->members && !server_tour(s, status_visit, status_done, g))
			return;
		status_destroy(g);
	}
	rpc_call_reply(call, status ? status : WEIR_E_MEMORY, status ? err.text : "out of memory", NULL);
}

/* --- Map */

static void answer_map(void *call, const Weir__V1__PartitionMap *map)
{
	Weir__V1__Status ok = WEIR__V1__STATUS__INIT;
	Weir__V1__MapReply reply = WEIR__V1__MAP_REPLY__INIT;
	reply.status = &ok;
	reply.map = (Weir__V1__PartitionMap *)(uintptr_t)map;
	answer(call, &reply.base);
}

void control_map(struct server *s, struct rpc_call *call, struct message *request)
{
	weir_error err = {0};
	ProtobufCMessage *m = NULL;
	weir_status status = wire_unpack(&weir__v1__map_request__descriptor, request, &m, &err);
	if (!status)
		status = check_job(s, ((const Weir__V1__MapRequest *)m)->job, &err);
	wire_destroy(m);
	if (status)
		rpc_call_reply(call, status, err.text, NULL);
	else
		partition_map_show(s->map, answer_map, call);
}

/* --- Health */

/* The answer is the same for every service of this server, except "ready": whether another server
 * may be stopped while this one serves. The other server may have the only other full copy of a
 * partition. So this server is ready only once it is in sync wherever it is assigned. */
void control_health(struct server *s, struct rpc_call *call, struct message *request)
{
	weir_error err = {0};
	ProtobufCMessage *m = NULL;
	weir_status status = wire_unpack(&grpc__health__v1__health_check_request__descriptor, request, &m, &err);
	if (status) {
		rpc_call_reply(call, status, err.text, NULL);
		return;
	}
	const bool whole = strcmp(((const Grpc__Health__V1__HealthCheckRequest *)m)->service, "ready") != 0 || !roles_placement(s) ||
	                   placement_is_whole(roles_placement(s));
	wire_destroy(m);
	Grpc__Health__V1__HealthCheckResponse reply = GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__INIT;
	char thread[LOOP_WATCH_NAME_BYTES];
	uint64_t ms;
	const bool serves = whole && !atomic_load(&s->draining) && !server_stuck(s, thread, &ms);
	reply.status = serves ? GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVING
	                      : GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__NOT_SERVING;
	answer(call, &reply.base);
}

/* --- Checkpoints */

void control_checkpoint(struct server *s, struct rpc_call *call, enum rpc_method method, struct message *request)
{
	char text[WEIR_NAME_BYTES_MAX + 96];
	bool whole = method == RPC_CHECKPOINT;
	snprintf(text, sizeof text, whole && s->takes ? "%s does not host the ledger; server 0 does" : "%s takes no checkpoints",
	         s->name);
	if (whole && s->takes && !s->coordinator && server_is_replicated(s))
		ledger_rpc_refuse_moved(s, call, method);
	else if (whole ? !s->coordinator : !s->takes)
		rpc_call_reply(call, WEIR_E_NOT_FOUND, text, NULL);
	else if (whole)
		checkpoint_coordinator_ask(s->coordinator, call, request);
	else if (method == RPC_CHECKPOINT_BEGIN)
		checkpoint_take_begin(s->takes, call, request);
	else
		checkpoint_take_poll(s->takes, call, request);
}
