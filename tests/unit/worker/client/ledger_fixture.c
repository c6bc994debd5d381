#include "tests/unit/worker/client/ledger_fixture.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "proto/frame/frame.h"
#include "proto/wire/wire_figures.h"
#include "tests/cmocka_check.h"

static uint64_t next_u64(struct entropy *e)
{
	return prng_u64(&((struct fixture *)((char *)e - offsetof(struct fixture, entropy)))->random);
}

static const struct entropy_ops entropy_ops = {.u64 = next_u64};
static uint8_t uuid[16] = "fixture's uuid.";

void fixture_open(struct fixture *f, const struct ledger_options *options, uint64_t seed)
{
	static const char *const servers[] = {"memory:0", "memory:1"};
	*f = (struct fixture){.clock = manual_clock_ms(&f->now_ms), .entropy = {&entropy_ops}, .now_ms = 1000};
	prng_seed(&f->random, seed);
	for (uint32_t p = 0; p < FIXTURE_PARTITIONS; p++)
		f->partition_server[p] = p % 2;
	struct ledger_options o = *options;
	o.clock = &f->clock.base;
	o.entropy = &f->entropy;
	memcpy(o.uuid, uuid, sizeof o.uuid);
	o.generation = 1;
	o.partitions = FIXTURE_PARTITIONS;
	o.servers_count = 2;
	o.servers = servers;
	o.partition_server = f->partition_server;
	weir_error err = {0};
	if (ledger_create(&f->ledger, &o, &err) != WEIR_OK)
		fprintf(stderr, "ledger_create: %s\n", err.text);
}

void fixture_close(struct fixture *f)
{
	ledger_destroy(f->ledger);
}

Weir__V1__JobId *fixture_job(void)
{
	static Weir__V1__JobId id;
	weir__v1__job_id__init(&id);
	id.uuid.data = uuid;
	id.uuid.len = sizeof uuid;
	id.generation = 1;
	return &id;
}

static void on_join(void *arg, const ProtobufCMessage *m)
{
	struct joined *out = arg;
	const Weir__V1__JoinReply *r = (const Weir__V1__JoinReply *)m;
	out->status = (weir_status)r->status->code;
	out->worker = r->worker;
	out->incarnation = r->incarnation;
	out->holder_pid = r->holder ? r->holder->pid : 0;
	out->holder_heard = r->holder ? r->holder->heard : 0;
	snprintf(out->text, sizeof out->text, "%s", r->status->text);
}

struct joined fixture_join(struct fixture *f, const char *name, Weir__V1__Role role, uint64_t fingerprint, uint32_t units)
{
	struct joined out = {0};
	Weir__V1__JoinRequest q = WEIR__V1__JOIN_REQUEST__INIT;
	Weir__V1__Dataset d = WEIR__V1__DATASET__INIT;
	d.fingerprint = fingerprint;
	d.units = units;
	d.unit_batches = f->unit_batches;
	q.wire_version = f->wire_version ? f->wire_version : FRAME_VERSION;
	q.name = (char *)name;
	q.role = role;
	q.host = (char *)"here";
	q.dataset = &d;
	q.client = f->newcomer.client ? f->newcomer.client : 1;
	q.pid = f->newcomer.pid;
	q.pid_namespace = f->newcomer.pid_namespace;
	q.gone_pid = f->newcomer.gone_pid;
	q.tells_activity = f->tells_activity;
	q.fingerprint = f->fingerprint ? (char *)(uintptr_t)f->fingerprint : q.fingerprint;
	q.accept = (char **)(uintptr_t)f->accept;
	q.n_accept = f->accept_count;
	q.passes = f->passes;
	ledger_join(f->ledger, &q, f->newcomer.peer, on_join, &out);
	return out;
}

static void on_lease(void *arg, const ProtobufCMessage *m)
{
	struct leased *out = arg;
	const Weir__V1__LeaseReply *r = (const Weir__V1__LeaseReply *)m;
	out->status = (weir_status)r->status->code;
	out->state = r->state;
	out->pass = r->pass;
	out->last = r->last;
	snprintf(out->text, sizeof out->text, "%s", r->status->text);
	if (!r->unit)
		return;
	out->pass = r->unit->pass;
	out->unit = r->unit->unit;
	out->attempt = r->unit->attempt;
	out->data_unit = r->unit->data_unit;
	out->watermark = r->unit->watermark;
	out->local_steps = r->unit->local_steps;
	out->place = r->unit->place;
	out->end = r->unit->end;
	out->rate_scale = r->unit->rate_scale;
	out->sealed = r->unit->sealed;
	out->content = r->unit->content;
	out->skip = r->unit->skip;
	for (size_t p = 0; p < r->unit->totals->n_count; p++)
		out->total += (uint32_t)r->unit->totals->count[p];
}

struct leased fixture_lease(struct fixture *f, const struct joined *w, uint64_t sequence)
{
	struct leased out = {0};
	Weir__V1__LeaseRequest q = WEIR__V1__LEASE_REQUEST__INIT;
	q.job = fixture_job();
	q.worker = w->worker;
	q.incarnation = w->incarnation;
	q.sequence = sequence;
	ledger_lease(f->ledger, &q, on_lease, &out);
	return out;
}

static void on_status_field(void *arg, const ProtobufCMessage *m)
{
	/* Every reply's first field is its status. */
	const Weir__V1__LeaveReply *r = (const Weir__V1__LeaveReply *)m;
	*(weir_status *)arg = (weir_status)r->status->code;
}

/* Totals of n batches, with one part in each partition each. */
struct made_totals {
	Weir__V1__PartTotals message;
	uint64_t count[FIXTURE_PARTITIONS];
	uint64_t fingerprint[FIXTURE_PARTITIONS];
};

static Weir__V1__PartTotals *make_totals(struct made_totals *t, const struct leased *u, uint32_t batches)
{
	weir__v1__part_totals__init(&t->message);
	for (uint32_t p = 0; p < FIXTURE_PARTITIONS; p++) {
		t->count[p] = batches;
		t->fingerprint[p] = batches * prng_mix(u->pass, u->unit, p);
	}
	t->message.n_count = t->message.n_fingerprint = FIXTURE_PARTITIONS;
	t->message.count = t->count;
	t->message.fingerprint = t->fingerprint;
	return &t->message;
}

weir_status fixture_progress(struct fixture *f, const struct joined *w, const struct leased *u, uint32_t watermark)
{
	Weir__V1__ProgressRequest q = WEIR__V1__PROGRESS_REQUEST__INIT;
	Weir__V1__UnitProgress p = WEIR__V1__UNIT_PROGRESS__INIT;
	Weir__V1__UnitProgress *list[] = {&p};
	struct made_totals totals;
	weir_status status = WEIR_E_INTERNAL;
	q.job = fixture_job();
	q.worker = w->worker;
	q.incarnation = w->incarnation;
	if (u) {
		p.pass = u->pass;
		p.unit = u->unit;
		p.attempt = u->attempt;
		p.watermark = watermark;
		p.content = f->content;
		p.totals = make_totals(&totals, u, watermark);
		q.n_units = 1;
		q.units = list;
	}
	ledger_progress(f->ledger, &q, on_status_field, &status);
	return status;
}

weir_status fixture_tell(struct fixture *f, const struct joined *w, uint64_t idle_ms, uint64_t longest_ms, uint64_t batches)
{
	Weir__V1__ProgressRequest q = WEIR__V1__PROGRESS_REQUEST__INIT;
	Weir__V1__Activity activity = WEIR__V1__ACTIVITY__INIT;
	weir_status status = WEIR_E_INTERNAL;
	activity.idle_ms = activity.still_ms = idle_ms;
	activity.longest_ms = longest_ms;
	activity.batches = batches;
	q.job = fixture_job();
	q.worker = w->worker;
	q.incarnation = w->incarnation;
	q.activity = &activity;
	ledger_progress(f->ledger, &q, on_status_field, &status);
	return status;
}

static weir_status commit(struct fixture *f, const struct joined *w, const struct leased *u, uint32_t batches, const char *why)
{
	Weir__V1__CommitRequest q = WEIR__V1__COMMIT_REQUEST__INIT;
	struct made_totals totals;
	weir_status status = WEIR_E_INTERNAL;
	q.job = fixture_job();
	q.worker = w->worker;
	q.incarnation = w->incarnation;
	q.pass = u->pass;
	q.unit = u->unit;
	q.attempt = u->attempt;
	q.batches = batches;
	q.totals = make_totals(&totals, u, batches);
	q.failed = why != NULL;
	q.text = (char *)(why ? why : "");
	q.content = f->content;
	ledger_commit(f->ledger, &q, on_status_field, &status);
	return status;
}

weir_status fixture_commit(struct fixture *f, const struct joined *w, const struct leased *u, uint32_t batches)
{
	return commit(f, w, u, batches, NULL);
}
weir_status fixture_fail(struct fixture *f, const struct joined *w, const struct leased *u, const char *why)
{
	return commit(f, w, u, 0, why);
}

weir_status fixture_leave(struct fixture *f, const struct joined *w, Weir__V1__BatchId *done)
{
	Weir__V1__LeaveRequest q = WEIR__V1__LEAVE_REQUEST__INIT;
	weir_status status = WEIR_E_INTERNAL;
	q.job = fixture_job();
	q.worker = w->worker;
	q.incarnation = w->incarnation;
	q.done = done;
	ledger_leave(f->ledger, &q, on_status_field, &status);
	return status;
}

weir_status fixture_gate(struct fixture *f, const struct joined *w, uint32_t pass, bool stop)
{
	return fixture_verdict(f, w, pass, 0.5, 0.5, stop);
}

weir_status fixture_figures(struct fixture *f, const struct joined *w, uint32_t pass, const struct figures *figures)
{
	Weir__V1__GateRequest q = WEIR__V1__GATE_REQUEST__INIT;
	weir_status status = WEIR_E_INTERNAL;
	struct wire_figures messages;
	wire_figures_fill(&messages, figures);
	q.job = fixture_job();
	q.worker = w->worker;
	q.incarnation = w->incarnation;
	q.pass = pass;
	q.auc = q.logloss = 0.5;
	q.n_figures = figures->count;
	q.figures = messages.list;
	ledger_gate(f->ledger, &q, on_status_field, &status);
	return status;
}

weir_status fixture_verdict(struct fixture *f, const struct joined *w, uint32_t pass, double auc, double logloss, bool stop)
{
	Weir__V1__GateRequest q = WEIR__V1__GATE_REQUEST__INIT;
	weir_status status = WEIR_E_INTERNAL;
	q.job = fixture_job();
	q.worker = w->worker;
	q.incarnation = w->incarnation;
	q.pass = pass;
	q.auc = auc;
	q.logloss = logloss;
	q.stop = stop;
	ledger_gate(f->ledger, &q, on_status_field, &status);
	return status;
}

static void on_evaluated(void *arg, const ProtobufCMessage *m)
{
	*(uint64_t *)arg = ((const Weir__V1__LedgerStatus *)m)->evaluated_batches;
}

static void on_figures(void *arg, const ProtobufCMessage *m)
{
	const Weir__V1__LedgerStatus *status = (const Weir__V1__LedgerStatus *)m;
	weir_error err = {0};
	CHECK_OK(wire_figures_read(arg, status->figures, status->n_figures, &err), err);
}

void fixture_read_figures(struct fixture *f, struct figures *out)
{
	const Weir__V1__StatusRequest q = WEIR__V1__STATUS_REQUEST__INIT;
	ledger_status(f->ledger, &q, on_figures, out);
}

uint64_t fixture_evaluated_batches(struct fixture *f)
{
	uint64_t batches = 0;
	const Weir__V1__StatusRequest q = WEIR__V1__STATUS_REQUEST__INIT;
	ledger_status(f->ledger, &q, on_evaluated, &batches);
	return batches;
}

static void on_step(void *arg, const ProtobufCMessage *m)
{
	(void)arg, (void)m;
}

void fixture_step(struct fixture *f, const struct joined *w, const struct leased *u, uint32_t batch, bool ready)
{
	Weir__V1__StepRequest q = WEIR__V1__STEP_REQUEST__INIT;
	Weir__V1__BatchId done = WEIR__V1__BATCH_ID__INIT, next = WEIR__V1__BATCH_ID__INIT;
	next.pass = done.pass = u->pass;
	next.unit = done.unit = u->unit;
	next.batch = batch;
	done.batch = ready && batch ? batch - 1 : batch;
	q.job = fixture_job();
	q.worker = w->worker;
	q.incarnation = w->incarnation;
	q.has_ready = ready;
	q.has_done = !ready || batch;
	q.ready = &next;
	q.done = &done;
	ledger_step(f->ledger, &q, on_step, NULL);
}

static void on_standing(void *arg, const ProtobufCMessage *m)
{
	struct replica_identity *out = arg;
	const Weir__V1__LedgerStatus *r = (const Weir__V1__LedgerStatus *)m;
	out->state = r->state;
	out->pass = r->pass;
	out->units = r->units;
	out->committed = r->committed;
	for (size_t p = 0; p < r->expected->n_count; p++) {
		out->expected[p] = r->expected->count[p];
		out->fingerprint[p] = r->expected->fingerprint[p];
		out->skipped[p] = r->skipped->count[p];
	}
	out->workers = (uint32_t)r->n_workers;
	out->lost = r->workers_lost;
	out->stalled = r->workers_stalled;
	out->expired = r->leases_expired;
	out->quarantined = r->units_quarantined;
	out->steps = r->steps_closed;
	out->dropped = r->batches_dropped;
	out->rows = r->totals->rows;
	out->rows_per_s = r->rows_per_s;
	out->rows_still_ms = r->rows_still_ms;
	snprintf(out->failure, sizeof out->failure, "%s", r->failure);
}

struct replica_identity fixture_status(struct fixture *f)
{
	struct replica_identity out = {0};
	Weir__V1__StatusRequest q = WEIR__V1__STATUS_REQUEST__INIT;
	ledger_status(f->ledger, &q, on_standing, &out);
	return out;
}

struct wanted_worker {
	uint32_t id;
	struct worker_seen seen;
};

static void on_worker(void *arg, const ProtobufCMessage *m)
{
	struct wanted_worker *out = arg;
	const Weir__V1__LedgerStatus *r = (const Weir__V1__LedgerStatus *)m;
	for (size_t i = 0; i < r->n_workers; i++) {
		const Weir__V1__WorkerStatus *w = r->workers[i];
		if (w->id != out->id)
			continue;
		out->seen = (struct worker_seen){.live = w->live,
		                                 .has_stall = w->stall != NULL,
		                                 .units_held = w->units_held,
		                                 .idle_ms = w->idle_ms,
		                                 .idle_limit_ms = w->idle_limit_ms};
		if (w->stall)
			out->seen.stall = *w->stall;
	}
}

struct worker_seen fixture_worker(struct fixture *f, const struct joined *w)
{
	struct wanted_worker out = {.id = w->worker};
	Weir__V1__StatusRequest q = WEIR__V1__STATUS_REQUEST__INIT;
	ledger_status(f->ledger, &q, on_worker, &out);
	return out.seen;
}

weir_status fixture_table(struct fixture *f, const char *name, weir_mode mode)
{
	const weir_init_segment zero = {.elements = 8};
	weir_table_spec spec = {
	    .kind = WEIR_DENSE, .elements = 8, .optimizer = {.lr = 1}, .mode = mode, .segments_count = 1, .segments = &zero};
	snprintf(spec.name, sizeof spec.name, "%s", name);
	struct wire_table table;
	Weir__V1__CreateTableRequest q = WEIR__V1__CREATE_TABLE_REQUEST__INIT;
	weir_status status = wire_table_make(&table, &spec, 0);
	if (status)
		return status;
	q.job = fixture_job();
	q.table = &table.table;
	ledger_create_table(f->ledger, &q, on_status_field, &status);
	wire_table_destroy(&table);
	return status;
}

void fixture_count_reply(void *arg, const ProtobufCMessage *m)
{
	(void)m;
	++*(uint32_t *)arg;
}

void fixture_ignore_reply(void *arg, const ProtobufCMessage *m)
{
	(void)arg, (void)m;
}

struct message *fixture_export(struct ledger *l, uint64_t index)
{
	struct message *m;
	assert_int_equal(ledger_export_all(l, index, &m, NULL), WEIR_OK);
	return m;
}
