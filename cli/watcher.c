/* Overviews from the wire's status messages. */
#include "watcher.h"
#include "codec.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "doors.h"
#include "rpc.h"
#include "wire.h"

struct watcher {
	struct rpc *rpc;
	struct rpc_loop *loop;
	struct doors *doors;
	struct rpc_channel *servers[WEIR_SERVERS_MAX]; /* (servers_count) NULL: its address was not told yet */
	uint32_t servers_count;
	uint32_t asked_next; /* of the doors: what is lost */
};

/* One status call per server, all at once; the poller waits until every one has answered or timed out. */
struct gather {
	pthread_mutex_t lock;
	pthread_cond_t change;
	uint32_t pending; /* under lock */
};

struct asked {
	struct gather *gather;
	struct message *reply; /* NULL: no answer */
};

static void copy_text(char *out, size_t bytes, const char *text)
{
	snprintf(out, bytes, "%s", text ? text : "");
}

/* --- Reading the ledger's answer */

static enum job_state job_state_of(Weir__V1__LeaseState state)
{
	switch (state) {
	case WEIR__V1__LEASE_STATE__FINISHED:
		return JOB_FINISHED;
	case WEIR__V1__LEASE_STATE__FAILED:
		return JOB_FAILED;
	case WEIR__V1__LEASE_STATE__EVALUATE:
		return JOB_EVALUATING;
	default:
		return JOB_RUNNING;
	}
}

static void read_totals(struct overview *s, const Weir__V1__WorkerReport *totals)
{
	if (!totals)
		return;
	s->rows = totals->rows;
	s->batches = totals->batches;
	s->loss_sum = totals->loss_sum;
	s->bytes_pushed = totals->bytes_pushed;
	s->bytes_pulled = totals->bytes_pulled;
	s->redone_batches = totals->redone_batches;
	s->bad_lines = totals->bad_lines;
	s->keys = totals->keys;
	s->keys_cached = totals->keys_cached;
	s->batches_not_finite = totals->nonfinite;
	s->scale_skipped = totals->scale_skipped;
	s->loss_scale = totals->loss_scale;
	s->device_bytes = totals->device_bytes;
	s->energy_sent = totals->energy_measured ? totals->energy_sent / (double)totals->energy_measured : 1;
	s->residual_norm = totals->residual_norm;
	s->residual_lost = totals->residual_lost;
}

static weir_status read_workers(struct overview *s, const Weir__V1__LedgerStatus *l)
{
	s->workers = calloc(l->n_workers + 1, sizeof *s->workers);
	if (!s->workers)
		return WEIR_E_MEMORY;
	s->workers_count = (uint32_t)l->n_workers;
	for (size_t i = 0; i < l->n_workers; i++) {
		const Weir__V1__WorkerStatus *in = l->workers[i];
		struct overview_worker *out = &s->workers[i];
		copy_text(out->name, sizeof out->name, in->name);
		copy_text(out->host, sizeof out->host, in->host);
		out->pid = in->pid;
		out->evaluator = in->role == WEIR__V1__ROLE__EVALUATOR;
		out->live = in->live;
		out->left = in->left;
		out->rows = in->rows;
		out->silent_ms = in->silent_ms;
		out->units_held = in->units_held;
		out->residual_norm = in->residual_norm;
		for (size_t b = 0; b < in->n_staleness && b < HISTOGRAM_BUCKETS; b++)
			out->staleness[b] = in->staleness[b];
		s->workers_live += in->live && in->role == WEIR__V1__ROLE__TRAINER;
	}
	return WEIR_OK;
}

static struct part_sum read_sum(const Weir__V1__PartTotals *t, uint32_t partition)
{
	if (!t || partition >= t->n_count || partition >= t->n_fingerprint)
		return (struct part_sum){0};
	return (struct part_sum){t->count[partition], t->fingerprint[partition]};
}

static weir_status read_partitions(struct overview *s, const Weir__V1__LedgerStatus *l)
{
	s->partitions = calloc(l->n_partition_server + 1, sizeof *s->partitions);
	if (!s->partitions)
		return WEIR_E_MEMORY;
	s->partitions_count = (uint32_t)l->n_partition_server;
	for (uint32_t p = 0; p < s->partitions_count; p++) {
		s->partitions[p].expected = read_sum(l->expected, p);
		s->partitions[p].skipped = read_sum(l->skipped, p);
	}
	return WEIR_OK;
}

static weir_status read_servers(struct overview *s, const Weir__V1__LedgerStatus *l)
{
	s->servers = calloc(l->n_servers + 1, sizeof *s->servers);
	if (!s->servers)
		return WEIR_E_MEMORY;
	s->servers_count = (uint32_t)l->n_servers;
	for (size_t i = 0; i < l->n_servers; i++)
		copy_text(s->servers[i].address, sizeof s->servers[i].address, l->servers[i]);
	return WEIR_OK;
}

static const char *codec_text(uint32_t codec)
{
	const char *name = codec_name((weir_codec)codec);
	return name ? name : "unknown";
}

static void read_table(struct overview_table *out, const Weir__V1__Table *in)
{
	copy_text(out->name, sizeof out->name, in->name);
	out->push_codec = codec_text(in->push_codec);
	out->pull_codec = codec_text(in->pull_codec);
}

static weir_status read_tables(struct overview *s, const Weir__V1__LedgerStatus *l)
{
	s->tables = calloc(l->n_tables + 1, sizeof *s->tables);
	if (!s->tables)
		return WEIR_E_MEMORY;
	s->tables_count = (uint32_t)l->n_tables;
	for (size_t i = 0; i < l->n_tables; i++)
		read_table(&s->tables[i], l->tables[i]);
	return WEIR_OK;
}

static weir_status read_ledger(struct overview *s, const Weir__V1__LedgerStatus *l, weir_error *err)
{
	if (l->status && l->status->code != WEIR_OK)
		return weir_fail(err, (weir_status)l->status->code, "the ledger answers: %s", l->status->text);
	s->state = job_state_of(l->state);
	s->generation = l->job ? l->job->generation : 0;
	copy_text(s->checkpoint, sizeof s->checkpoint, l->checkpoint);
	copy_text(s->rewound, sizeof s->rewound, l->rewound);
	s->pass = l->pass;
	s->passes = l->passes;
	s->units = l->units;
	s->committed = l->committed;
	s->dataset_rows = l->dataset_rows;
	s->auc = l->auc;
	s->logloss = l->logloss;
	s->workers_lost = l->workers_lost;
	s->leases_expired = l->leases_expired;
	s->units_quarantined = l->units_quarantined;
	s->steps_closed = l->steps_closed;
	s->batches_dropped = l->batches_dropped;
	copy_text(s->failure, sizeof s->failure, l->failure);
	s->ledger = (struct overview_place){.server = l->server, .epoch = l->epoch};
	for (size_t i = 0; i < l->n_members && i < WEIR_REPLICAS_MAX; i++)
		s->ledger.in_sync[s->ledger.in_sync_count++] = l->members[i];
	read_totals(s, l->totals);
	if (l->n_servers > WEIR_SERVERS_MAX)
		return weir_fail(err, WEIR_E_CORRUPT, "the ledger tells of %zu servers, more than there may be", l->n_servers);
	if (read_workers(s, l) != WEIR_OK || read_partitions(s, l) != WEIR_OK || read_servers(s, l) != WEIR_OK ||
	    read_tables(s, l) != WEIR_OK)
		return weir_fail(err, WEIR_E_MEMORY, "no memory for a status of %zu workers and %zu servers", l->n_workers, l->n_servers);
	return WEIR_OK;
}

/* --- Reading a server's answer */

static void add_counts(uint64_t sum[HISTOGRAM_BUCKETS], const Weir__V1__TableStatus *in)
{
	for (size_t b = 0; b < in->n_staleness && b < HISTOGRAM_BUCKETS; b++)
		sum[b] += in->staleness[b];
}

static void read_server_table(struct overview *s, const Weir__V1__TableStatus *in)
{
	for (uint32_t t = 0; t < s->tables_count; t++)
		if (strcmp(s->tables[t].name, in->name) == 0) {
			s->tables[t].rows += in->rows;
			s->tables[t].bytes += in->bytes;
			s->tables[t].pushes += in->pushes;
			s->tables[t].pulls += in->pulls;
			s->tables[t].rows_stub += in->rows_stub;
			s->tables[t].pushes_unadmitted += in->pushes_unadmitted;
			s->tables[t].rows_evicted += in->rows_evicted;
			s->tables[t].push_bytes += in->push_bytes;
			s->tables[t].push_plain_bytes += in->push_plain_bytes;
			add_counts(s->tables[t].staleness, in);
			s->tables[t].pull_bytes += in->pull_bytes;
			s->tables[t].pull_plain_bytes += in->pull_plain_bytes;
		}
	add_counts(s->staleness, in);
}

static void take_durable(const Weir__V1__DurableStatus *in, struct overview_server *out)
{
	out->durable = in != NULL;
	if (!in)
		return;
	out->disk_full = in->disk_full;
	out->recovery_ms = in->recovery_ms;
	out->replayed_entries = in->replayed_entries;
	out->journal_bytes = in->journal_bytes;
	out->flush_lag = in->flush_lag_entries;
	out->resident_rows = in->resident_rows;
	out->cold_rows = in->cold_rows;
	out->hits = in->hits;
	out->misses = in->misses;
	out->memory_bytes = in->memory_bytes;
	out->budget_bytes = in->budget_bytes;
}

/* Who was primary before, and has not heard of the next one, may say that it still is. */
static void read_partition(struct overview *s, uint32_t server, const Weir__V1__PartitionStatus *in)
{
	struct overview_partition *out = in->id < s->partitions_count ? &s->partitions[in->id] : NULL;
	if (!out || (out->reported && out->epoch > in->epoch))
		return;
	out->reported = true;
	out->primary = server;
	out->epoch = in->epoch;
	out->applied = (struct part_sum){in->parts_applied, in->fingerprint};
	out->dropped = (struct part_sum){in->parts_dropped, in->dropped_fingerprint};
	out->twice = in->parts_double;
	out->rows = in->rows;
	s->scrubs += in->scrubs;
	s->scrubs_differ += in->scrubs_differ;
	out->in_sync_count = 0;
	for (size_t i = 0; i < in->n_members && i < WEIR_REPLICAS_MAX; i++)
		out->in_sync[out->in_sync_count++] = in->members[i];
}

static void read_server(struct overview *s, struct overview_server *out, const Weir__V1__ServerStatus *in)
{
	if (in->job && in->job->generation != s->generation) /* it is not there yet, or the ledger is not */
		return;
	out->answered = true;
	out->draining = in->draining;
	out->pid = in->pid;
	out->uptime_ms = in->uptime_ms;
	take_durable(in->durable, out);
	out->connections = in->connections;
	out->partitions = in->n_partitions;
	out->bytes_pushed = in->bytes_pushed;
	out->bytes_pulled = in->bytes_pulled;
	s->servers_answered++;
	if (!s->lost[0])
		copy_text(s->lost, sizeof s->lost, in->lost);
	s->replicas = in->replicas;
	s->duplicates_refused += in->duplicates_refused;
	s->stale_refused += in->stale_refused;
	s->corrupt_refused += in->corrupt_refused;
	s->nonfinite_refused += in->nonfinite_refused;
	for (size_t i = 0; i < in->n_partitions; i++)
		read_partition(s, (uint32_t)(out - s->servers), in->partitions[i]);
	for (size_t i = 0; i < in->n_tables; i++)
		read_server_table(s, in->tables[i]);
}

/* --- Asking */

static struct message *empty_request(void)
{
	Weir__V1__StatusRequest q = WEIR__V1__STATUS_REQUEST__INIT;
	return wire_pack(&q.base);
}

static void on_server_answer(void *arg, weir_status status, const char *text, struct message *reply)
{
	(void)text;
	struct asked *a = arg;
	struct gather *g = a->gather;
	if (status == WEIR_OK)
		a->reply = message_retain(reply);
	pthread_mutex_lock(&g->lock);
	g->pending--;
	pthread_cond_signal(&g->change);
	pthread_mutex_unlock(&g->lock);
}

static void ask_servers(struct watcher *w, enum rpc_method method, struct message *(*make_request)(void), uint32_t timeout_ms,
                        struct asked *asked)
{
	struct gather g = {.pending = 0};
	pthread_mutex_init(&g.lock, NULL);
	pthread_cond_init(&g.change, NULL);
	pthread_mutex_lock(&g.lock);
	for (uint32_t i = 0; i < w->servers_count; i++) {
		struct message *request = make_request();
		asked[i] = (struct asked){.gather = &g};
		if (!request || !w->servers[i]) {
			message_release(request);
			continue;
		}
		g.pending++;
		if (rpc_call_start(w->servers[i], method, request, timeout_ms, on_server_answer, &asked[i]) != WEIR_OK)
			g.pending--;
	}
	while (g.pending > 0) /* every accepted call answers by its deadline */
		pthread_cond_wait(&g.change, &g.lock);
	pthread_mutex_unlock(&g.lock);
	pthread_cond_destroy(&g.change);
	pthread_mutex_destroy(&g.lock);
}

/* Servers may be added to a job while it is watched. */
static weir_status open_servers(struct watcher *w, const struct overview *s, weir_error *err)
{
	weir_status status = WEIR_OK;
	w->servers_count = s->servers_count > w->servers_count ? s->servers_count : w->servers_count;
	for (uint32_t i = 0; i < s->servers_count && status == WEIR_OK; i++)
		if (!w->servers[i] && s->servers[i].address[0])
			status = rpc_channel_open(&w->servers[i], w->rpc, w->loop, s->servers[i].address, err);
	return status;
}

static weir_status poll_ledger(struct watcher *w, uint32_t timeout_ms, struct overview *out, weir_error *err)
{
	const Weir__V1__StatusRequest q = WEIR__V1__STATUS_REQUEST__INIT;
	ProtobufCMessage *m = NULL;
	weir_status s = doors_ask(w->doors, RPC_JOB_STATUS, &q.base, timeout_ms, &weir__v1__ledger_status__descriptor, &m, err);
	if (s == WEIR_OK)
		s = read_ledger(out, (const Weir__V1__LedgerStatus *)m, err);
	wire_free(m);
	return s;
}

weir_status watcher_poll(struct watcher *w, uint32_t timeout_ms, struct overview *out, weir_error *err)
{
	memset(out, 0, sizeof *out);
	weir_status s = poll_ledger(w, timeout_ms, out, err);
	if (s == WEIR_OK)
		s = open_servers(w, out, err);
	if (s != WEIR_OK)
		return s;
	struct asked *asked = calloc(w->servers_count + 1, sizeof *asked);
	if (!asked)
		return weir_fail(err, WEIR_E_MEMORY, "no memory to ask %u servers", w->servers_count);
	ask_servers(w, RPC_STATUS, empty_request, timeout_ms, asked);
	for (uint32_t i = 0; i < w->servers_count && i < out->servers_count; i++) {
		ProtobufCMessage *m = NULL;
		if (asked[i].reply && wire_unpack(&weir__v1__server_status__descriptor, asked[i].reply, &m, NULL) == WEIR_OK) {
			read_server(out, &out->servers[i], (const Weir__V1__ServerStatus *)m);
			wire_free(m);
		}
		message_release(asked[i].reply);
	}
	free(asked);
	return WEIR_OK;
}

/* Without the ledger: one of the servers that were given, or told of since, and the next one at the next call. */
bool watcher_find_lost(struct watcher *w, uint64_t generation, uint32_t timeout_ms, char out[WEIR_ERROR_TEXT_BYTES])
{
	const Weir__V1__StatusRequest q = WEIR__V1__STATUS_REQUEST__INIT;
	ProtobufCMessage *m = NULL;
	weir_error ignored = {0};
	out[0] = '\0';
	if (doors_ask_one(w->doors, w->asked_next++ % doors_count(w->doors), RPC_STATUS, &q.base, timeout_ms,
	                  &weir__v1__server_status__descriptor, &m, &ignored))
		return false;
	const Weir__V1__ServerStatus *s = (const Weir__V1__ServerStatus *)m;
	if (s->job && s->job->generation >= generation)
		copy_text(out, WEIR_ERROR_TEXT_BYTES, s->lost);
	wire_free(m);
	return out[0] != '\0';
}

/* --- Comparing replicas */

static struct message *scrub_request(void)
{
	Weir__V1__ScrubRequest q = WEIR__V1__SCRUB_REQUEST__INIT;
	return wire_pack(&q.base);
}

static bool is_equal(const Weir__V1__ReplicaHash *a, const Weir__V1__ReplicaHash *b)
{
	return a->rows == b->rows && a->state == b->state;
}

static void describe(const Weir__V1__PartitionScrub *p, char *out, size_t bytes)
{
	int n = snprintf(out, bytes, "partition %u at log entry %" PRIu64 ":", p->partition, p->index);
	for (size_t i = 0; i < p->n_replicas && n > 0 && (size_t)n < bytes; i++)
		n += snprintf(out + n, bytes - (size_t)n, " server %u has rows %016" PRIx64 " and state %016" PRIx64 "%s",
		              p->replicas[i]->server, p->replicas[i]->rows, p->replicas[i]->state, i + 1 < p->n_replicas ? "," : "");
}

static void read_scrub(struct overview_replicas *out, const Weir__V1__ScrubReply *in)
{
	for (size_t i = 0; i < in->n_partitions; i++) {
		const Weir__V1__PartitionScrub *p = in->partitions[i];
		bool equal = true;
		for (size_t j = 1; j < p->n_replicas; j++)
			equal &= is_equal(p->replicas[j], p->replicas[0]);
		out->compared += p->n_replicas > 1;
		out->differ += !equal;
		if (!equal && !out->text[0])
			describe(p, out->text, sizeof out->text);
	}
}

weir_status watcher_scrub(struct watcher *w, uint32_t timeout_ms, struct overview_replicas *out, weir_error *err)
{
	*out = (struct overview_replicas){0};
	struct asked *asked = calloc(w->servers_count + 1, sizeof *asked);
	if (!asked)
		return weir_fail(err, WEIR_E_MEMORY, "no memory to ask %u servers", w->servers_count);
	ask_servers(w, RPC_SCRUB, scrub_request, timeout_ms, asked);
	for (uint32_t i = 0; i < w->servers_count; i++) {
		ProtobufCMessage *m = NULL;
		if (asked[i].reply && wire_unpack(&weir__v1__scrub_reply__descriptor, asked[i].reply, &m, NULL) == WEIR_OK) {
			read_scrub(out, (const Weir__V1__ScrubReply *)m);
			wire_free(m);
		}
		message_release(asked[i].reply);
	}
	free(asked);
	return WEIR_OK;
}

/* --- Life */

weir_status watcher_open(struct watcher **out, const char *ledger, struct logger *logger, weir_error *err)
{
	struct watcher *w = calloc(1, sizeof *w);
	if (!w)
		return weir_fail(err, WEIR_E_MEMORY, "no memory for a watcher");
	weir_status s = WEIR_OK;
	w->rpc = rpc_grpc_create(logger);
	if (!w->rpc)
		s = weir_fail(err, WEIR_E_MEMORY, "no memory for a transport");
	else if (!(w->loop = rpc_loop_create(w->rpc, "watcher", err)))
		s = err ? err->status : WEIR_E_MEMORY;
	else
		s = doors_open(&w->doors, w->rpc, w->loop, ledger, err);
	if (s != WEIR_OK) {
		watcher_close(w);
		return s;
	}
	*out = w;
	return WEIR_OK;
}

void watcher_close(struct watcher *w)
{
	if (!w)
		return;
	for (uint32_t i = 0; i < w->servers_count; i++)
		rpc_channel_close(w->servers[i]);
	doors_close(w->doors);
	if (w->loop)
		rpc_loop_destroy(w->loop);
	if (w->rpc)
		rpc_destroy(w->rpc);
	free(w);
}
