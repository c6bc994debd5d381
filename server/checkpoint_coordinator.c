/* One thread, which does one checkpoint at a time and waits for everything it asks. */
#include "checkpoint_coordinator.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "authority.h"
#include "journal.h"
#include "ledger_role.h"
#include "rewind.h"
#include "roles.h"
#include "server_internal.h"
#include "state.pb-c.h"

#define LOOK_MS             500u  /* between two looks at how far the job is, with every_steps */
#define BEGIN_TIMEOUT_MS    2000u /* of one server */
#define BEGIN_PATIENCE_MS   2000u /* for a closed step to be applied everywhere */
#define BEGIN_RETRY_MS      5u
#define COMMIT_PATIENCE_MS  2000u /* for what the ledger has decided to be committed */
#define POLL_MS             100u
#define CANCEL_TIMEOUT_MS   500u /* of one server; one that does not hear of it writes to its end, for nothing */
#define TRIES               5u   /* of one checkpoint, while servers die and partitions move, */
#define TRY_AGAIN_MS        1000u
#define REPLICATED_KEEP_MIN 2u

struct ended { /* the last checkpoint that ended */
	bool any;
	char name[WEIR_CHECKPOINT_NAME_BYTES_MAX];
	weir_error err;
	uint64_t bytes, wall_ms, sequence;
};

struct checkpoint_coordinator {
	struct server *server;
	struct checkpoint_options options;         /* with copies of what it points to */
	char (*addresses)[WEIR_ADDRESS_BYTES_MAX]; /* (servers) the thread's */
	uint32_t servers;                          /* that there may be */
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t wake;
	/* Guarded by lock. */
	bool ending, wanted, running;
	char name[WEIR_CHECKPOINT_NAME_BYTES_MAX]; /* of the one running */
	uint64_t sequence;                         /* of it */
	struct ended ended;
	/* The thread's. */
	struct rpc_loop *loop;
	struct rpc_channel **channels;             /* (servers) NULL: not asked yet */
	char base[WEIR_CHECKPOINT_NAME_BYTES_MAX]; /* the last one published by this coordinator; "": none */
	uint64_t last_step;
};

/* --- On the ledger's loop, from the thread, which waits */

struct ledger_task {
	struct checkpoint_coordinator *coordinator;
	void (*run)(struct ledger_task *task);
	pthread_mutex_t lock;
	pthread_cond_t over;
	bool done;
	/* What came of it. */
	uint64_t batches;
	struct ledger_stand stand;
	bool stands;
	struct message *state;
	weir_status status;
	weir_error err;
};

static void task_on_loop(void *arg)
{
	struct ledger_task *t = arg;
	struct server *s = t->coordinator->server;
	t->run(t);
	pthread_mutex_lock(&t->lock);
	t->done = true;
	pthread_cond_signal(&t->over);
	pthread_mutex_unlock(&t->lock);
	server_leave(s);
}

static void on_ledger_loop(struct checkpoint_coordinator *c, struct ledger_task *t, void (*run)(struct ledger_task *))
{
	*t = (struct ledger_task){.coordinator = c, .run = run};
	pthread_mutex_init(&t->lock, NULL);
	pthread_cond_init(&t->over, NULL);
	server_enter(c->server);
	rpc_loop_post(c->server->ledger_loop, task_on_loop, t);
	pthread_mutex_lock(&t->lock);
	while (!t->done)
		pthread_cond_wait(&t->over, &t->lock);
	pthread_mutex_unlock(&t->lock);
	pthread_cond_destroy(&t->over);
	pthread_mutex_destroy(&t->lock);
}

static void note_batches(void *arg, const ProtobufCMessage *reply)
{
	struct ledger_task *t = arg;
	const Weir__V1__LedgerStatus *status = (const Weir__V1__LedgerStatus *)reply;
	t->batches = status->totals ? status->totals->batches : 0;
}

static void task_look(struct ledger_task *t)
{
	const Weir__V1__StatusRequest q = WEIR__V1__STATUS_REQUEST__INIT;
	ledger_status(t->coordinator->server->ledger, &q, note_batches, t);
}

static void task_stand(struct ledger_task *t)
{
	t->stands = ledger_role_stands(t->coordinator->server, &t->stand);
}

/* What it has decided is in its log, so that its index says whether all of that is committed. */
static void task_hold(struct ledger_task *t)
{
	struct server *s = t->coordinator->server;
	forward_hold(s);
	forward_commit(s);
	task_stand(t);
	if (!t->stands) {
		t->status = weir_fail(&t->err, WEIR_E_MOVED, "the ledger is moving");
		return;
	}
	task_look(t);
	t->status = ledger_export_all(s->ledger, 0, &t->state, &t->err);
}

static void task_due(struct ledger_task *t)
{
	task_stand(t);
	if (t->stands)
		task_look(t);
}

static void task_release(struct ledger_task *t)
{
	forward_release(t->coordinator->server);
}

/* --- The servers */

/* To where it listens now. */
static weir_status connect_server(struct checkpoint_coordinator *c, uint32_t i, weir_error *err)
{
	char address[WEIR_ADDRESS_BYTES_MAX];
	if (!c->loop && !(c->loop = rpc_loop_create(c->server->options.rpc, "checkpoint", err)))
		return err->status;
	if (partition_map_address(c->server->map, i, address) && strcmp(address, c->addresses[i]) != 0) {
		memcpy(c->addresses[i], address, sizeof address);
		if (c->channels[i])
			rpc_channel_close(c->channels[i]);
		c->channels[i] = NULL;
	}
	return c->channels[i] ? WEIR_OK : rpc_channel_open(&c->channels[i], c->server->options.rpc, c->loop, c->addresses[i], err);
}

/* Packs, calls and unpacks; *reply is freed with wire_free. */
static weir_status call_server(struct checkpoint_coordinator *c, uint32_t i, enum rpc_method method,
                               const ProtobufCMessage *request, uint32_t timeout_ms, const ProtobufCMessageDescriptor *type,
                               ProtobufCMessage **reply, weir_error *err)
{
	struct message *in = wire_pack(request), *out = NULL;
	*reply = NULL;
	if (!in)
		return weir_fail(err, WEIR_E_MEMORY, "out of memory for a checkpoint");
	weir_status status = rpc_call_wait(c->channels[i], method, in, timeout_ms, &out, err);
	if (!status)
		status = wire_unpack(type, out, reply, err);
	message_release(out);
	return status;
}

static Weir__V1__JobId job_id(const struct checkpoint_coordinator *c)
{
	Weir__V1__JobId job = WEIR__V1__JOB_ID__INIT;
	job.uuid = (ProtobufCBinaryData){.len = sizeof c->server->options.uuid, .data = c->server->options.uuid};
	job.generation = c->server->options.generation;
	return job;
}

static weir_status status_of(const Weir__V1__Status *s, const struct checkpoint_coordinator *c, uint32_t server, weir_error *err)
{
	if (!s || !s->code)
		return WEIR_OK;
	return weir_fail(err, (weir_status)s->code, "server %u at %s: %s", server, c->addresses[server], s->text);
}

/* --- One checkpoint */

struct checkpoint_run {
	struct checkpoint_coordinator *coordinator;
	struct checkpoint_manifest manifest;
	struct blob_store *store;
	struct message *ledger;    /* its state */
	struct ledger_stand stand; /* of the ledger's log then */
	uint64_t steps_closed;
	uint64_t bytes;
	struct begun {
		uint32_t server;
		uint64_t epoch;
	} * begun;                     /* (manifest.partitions_count) who began each, as its primary */
	bool wanted[WEIR_SERVERS_MAX]; /* servers that have a partition, */
	bool asked[WEIR_SERVERS_MAX];  /* and those told to begin: one may not have heard, or its answer was late */
};

static bool is_replicated(const struct checkpoint_coordinator *c)
{
	return server_replicas(c->server) > 1;
}

static bool is_ending(struct checkpoint_coordinator *c)
{
	pthread_mutex_lock(&c->lock);
	bool ending = c->ending;
	pthread_mutex_unlock(&c->lock);
	return ending;
}

static void sleep_ms(uint32_t ms)
{
	nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000}, NULL);
}

/* Waits ms, or until the coordinator ends. */
static void wait_ms(struct checkpoint_coordinator *c, uint32_t ms)
{
	struct timespec at;
	clock_gettime(CLOCK_REALTIME, &at);
	int64_t ns = at.tv_nsec + (int64_t)ms * 1000000;
	at.tv_sec += ns / 1000000000;
	at.tv_nsec = ns % 1000000000;
	pthread_mutex_lock(&c->lock);
	while (!c->ending && pthread_cond_timedwait(&c->wake, &c->lock, &at) != ETIMEDOUT)
		;
	pthread_mutex_unlock(&c->lock);
}

static weir_status flatten(struct message *m, uint8_t **out, weir_error *err)
{
	struct cursor c = cursor_at(m);
	*out = malloc(m->bytes + 1);
	return *out ? cursor_read(&c, *out, m->bytes) : weir_fail(err, WEIR_E_MEMORY, "out of memory for a checkpoint");
}

/* The tables, and the last closed step, from the ledger's state. */
static weir_status read_ledger(struct checkpoint_run *run, const uint8_t *bytes, size_t n, weir_error *err)
{
	ProtobufCMessage *m;
	struct checkpoint_manifest *out = &run->manifest;
	weir_status status = wire_unpack_state(&weir__v1__ledger_state__descriptor, bytes, n, &m, err);
	if (status)
		return status;
	const Weir__V1__LedgerState *state = (const Weir__V1__LedgerState *)m;
	run->steps_closed = state->steps ? state->steps->closed : 0;
	out->tables = calloc(state->n_tables + 1, sizeof *out->tables);
	if (!out->tables)
		status = weir_fail(err, WEIR_E_MEMORY, "out of memory for a checkpoint");
	for (size_t i = 0; i < state->n_tables && !status; i++) {
		struct checkpoint_table *t = &out->tables[out->tables_count];
		status = wire_table_read(state->tables[i], &t->spec, &t->id, err);
		out->tables_count += !status;
	}
	wire_free(m);
	return status;
}

static weir_status choose_servers(struct checkpoint_run *run, weir_error *err)
{
	struct checkpoint_coordinator *c = run->coordinator;
	uint64_t revision;
	weir_status status = WEIR_OK;
	for (uint32_t p = 0; p < run->manifest.partitions_count && !status; p++) {
		const struct partition_place at = partition_map_find(c->server->map, p, &revision);
		if (at.server < c->servers)
			run->wanted[at.server] = true;
		else
			status = weir_fail(err, WEIR_E_MOVED, "partition %u has no primary now", p);
	}
	for (uint32_t i = 0; i < c->servers && !status; i++)
		if (run->wanted[i])
			status = connect_server(c, i, err);
	return status;
}

static void note_begun(struct checkpoint_run *run, uint32_t server, const Weir__V1__CheckpointBeginReply *r)
{
	for (size_t i = 0; i < r->n_taken; i++) {
		const uint32_t p = r->taken[i]->partition;
		if (p < run->manifest.partitions_count && r->taken[i]->epoch >= run->begun[p].epoch)
			run->begun[p] = (struct begun){server, r->taken[i]->epoch};
	}
}

static weir_status begin_server(struct checkpoint_run *run, uint32_t i, int64_t deadline_ms, weir_error *err)
{
	struct checkpoint_coordinator *c = run->coordinator;
	Weir__V1__JobId job = job_id(c);
	Weir__V1__CheckpointBeginRequest q = WEIR__V1__CHECKPOINT_BEGIN_REQUEST__INIT;
	q.job = &job;
	q.name = run->manifest.name;
	q.previous = c->base;
	q.steps_closed = run->steps_closed;
	while (true) {
		ProtobufCMessage *m;
		weir_error refusal = {0}; /* of this attempt: the next may succeed */
		weir_status status = call_server(c, i, RPC_CHECKPOINT_BEGIN, &q.base, BEGIN_TIMEOUT_MS,
		                                 &weir__v1__checkpoint_begin_reply__descriptor, &m, &refusal);
		if (!status)
			status = status_of(((Weir__V1__CheckpointBeginReply *)m)->status, c, i, &refusal);
		if (!status)
			note_begun(run, i, (const Weir__V1__CheckpointBeginReply *)m);
		wire_free(m);
		if (status != WEIR_E_NOT_CURRENT || clock_ms(c->server->options.clock) >= deadline_ms) {
			if (status)
				*err = refusal;
			return status;
		}
		sleep_ms(BEGIN_RETRY_MS);
	}
}

/* Holds the ledger while its state is exported and every server begins. */
static weir_status begin_all(struct checkpoint_run *run, weir_error *err)
{
	struct checkpoint_coordinator *c = run->coordinator;
	struct ledger_task t;
	uint8_t *flat = NULL;
	on_ledger_loop(c, &t, task_hold);
	run->ledger = t.state;
	run->stand = t.stand;
	run->manifest.step = c->last_step = t.batches;
	weir_status status = t.status ? weir_fail(err, t.status, "%s", t.err.text) : flatten(run->ledger, &flat, err);
	if (!status)
		status = read_ledger(run, flat, run->ledger->bytes, err);
	int64_t deadline_ms = clock_ms(c->server->options.clock) + BEGIN_PATIENCE_MS;
	for (uint32_t i = 0; i < c->servers && !status; i++)
		if (run->wanted[i]) {
			run->asked[i] = true;
			status = begin_server(run, i, deadline_ms, err);
		}
	free(flat);
	on_ledger_loop(c, &t, task_release);
	for (uint32_t p = 0; p < run->manifest.partitions_count && !status; p++)
		if (run->begun[p].server == WEIR_SERVER_NONE)
			status = weir_fail(err, WEIR_E_MOVED, "partition %u has no primary now", p);
	return status;
}

/* --- Confirming */

struct look {
	struct authority_look look;
	struct checkpoint_coordinator *coordinator;
	pthread_mutex_t lock;
	pthread_cond_t over;
	bool done;
};

static void on_looked(struct authority_look *look)
{
	struct look *l = look->arg;
	struct server *s = l->coordinator->server;
	pthread_mutex_lock(&l->lock);
	l->done = true;
	pthread_cond_signal(&l->over);
	pthread_mutex_unlock(&l->lock);
	server_leave(s);
}

static void post_to_loop(void *loop, void (*run)(void *arg), void *arg)
{
	rpc_loop_post(loop, run, arg);
}

/* The map is as of now, or later, when it returns. */
static weir_status look_at_records(struct checkpoint_coordinator *c, weir_error *err)
{
	struct server *s = c->server;
	struct look l = {.coordinator = c,
	                 .look = {.poster = {.post = post_to_loop, .to = s->ledger_loop}, .done = on_looked, .arg = &l}};
	pthread_mutex_init(&l.lock, NULL);
	pthread_cond_init(&l.over, NULL);
	server_enter(s);
	authority_look(roles_authority(s), &l.look);
	pthread_mutex_lock(&l.lock);
	while (!l.done)
		pthread_cond_wait(&l.over, &l.lock);
	pthread_mutex_unlock(&l.lock);
	pthread_cond_destroy(&l.over);
	pthread_mutex_destroy(&l.lock);
	return l.look.status ? weir_fail(err, l.look.status, "the coordinator of the servers does not answer") : WEIR_OK;
}

static weir_status check_place(const struct checkpoint_run *run, uint32_t partition, struct begun begun, weir_error *err)
{
	uint64_t revision;
	const struct partition_place at = partition_map_find(run->coordinator->server->map, partition, &revision);
	if (at.server == begun.server && at.epoch == begun.epoch)
		return WEIR_OK;
	return partition == JOURNAL_LEDGER ? weir_fail(err, WEIR_E_MOVED, "the ledger has moved meanwhile")
	                                   : weir_fail(err, WEIR_E_MOVED, "partition %u has moved meanwhile", partition);
}

/* That the ledger was here all the time, with all that the checkpoint has of it committed. */
static weir_status confirm_ledger(struct checkpoint_run *run, weir_error *err)
{
	struct checkpoint_coordinator *c = run->coordinator;
	const int64_t deadline_ms = clock_ms(c->server->options.clock) + COMMIT_PATIENCE_MS;
	struct ledger_task t;
	if (!is_replicated(c))
		return WEIR_OK;
	for (on_ledger_loop(c, &t, task_stand); t.stands && t.stand.epoch == run->stand.epoch; on_ledger_loop(c, &t, task_stand)) {
		if (t.stand.committed >= run->stand.decided) {
			weir_status status = look_at_records(c, err);
			const struct begun here = {c->server->options.index, run->stand.epoch};
			if (!status && rewind_is_told(c->server))
				status = weir_fail(err, WEIR_E_GENERATION, "the job goes back to a checkpoint");
			return status ? status : check_place(run, JOURNAL_LEDGER, here, err);
		}
		if (clock_ms(c->server->options.clock) >= deadline_ms)
			return weir_fail(err, WEIR_E_TIMEOUT, "what the ledger had decided was not committed within %u ms",
			                 COMMIT_PATIENCE_MS);
		sleep_ms(BEGIN_RETRY_MS);
	}
	return weir_fail(err, WEIR_E_MOVED, "the ledger has moved meanwhile");
}

/* An older primary's rows would lack what a newer one has acknowledged. */
static weir_status confirm_all(struct checkpoint_run *run, weir_error *err)
{
	weir_status status = confirm_ledger(run, err);
	for (uint32_t p = 0; p < run->manifest.partitions_count && is_replicated(run->coordinator) && !status; p++)
		status = check_place(run, p, run->begun[p], err);
	return status;
}

/* --- Writing */

static void read_file(const Weir__V1__CheckpointFile *in, struct checkpoint_object *out, bool *ok)
{
	*ok = *ok && in && strlen(in->name) < sizeof out->name && in->xxh3_128.len == sizeof out->info.hash;
	if (!*ok)
		return;
	snprintf(out->name, sizeof out->name, "%s", in->name);
	out->info.bytes = in->bytes;
	out->info.rows = in->rows;
	out->index = in->index;
	memcpy(out->info.hash, in->xxh3_128.data, sizeof out->info.hash);
}

static weir_status read_parts(struct checkpoint_run *run, uint32_t server, const Weir__V1__CheckpointPollReply *r,
                              weir_error *err)
{
	struct checkpoint_manifest *m = &run->manifest;
	for (size_t i = 0; i < r->n_parts; i++) {
		const Weir__V1__CheckpointPart *in = r->parts[i];
		bool ok = in->partition < m->partitions_count && in->n_rows > 0 && in->n_rows <= WEIR_CHECKPOINT_CHAIN_MAX;
		if (ok && run->begun[in->partition].server != server) /* it moved while all began */
			continue;
		struct checkpoint_partition *out = ok ? &m->partitions[in->partition] : NULL;
		if (ok)
			read_file(in->header, &out->header, &ok);
		for (size_t f = 0; ok && f < in->n_rows; f++)
			read_file(in->rows[f], &out->rows[f], &ok);
		if (!ok)
			return weir_fail(err, WEIR_E_CORRUPT, "server %u at %s: a part of partition %u that is none", server,
			                 run->coordinator->addresses[server], in->partition);
		out->index = in->index;
		out->rows_count = (uint32_t)in->n_rows;
	}
	run->bytes += r->bytes;
	return WEIR_OK;
}

/* cancel: tells it to give up, and does not care what it says. */
static weir_status poll_server(struct checkpoint_run *run, uint32_t i, bool cancel, bool *done, weir_error *err)
{
	struct checkpoint_coordinator *c = run->coordinator;
	Weir__V1__JobId job = job_id(c);
	Weir__V1__CheckpointPollRequest q = WEIR__V1__CHECKPOINT_POLL_REQUEST__INIT;
	ProtobufCMessage *m;
	q.job = &job;
	q.name = run->manifest.name;
	q.cancel = cancel;
	weir_status status = call_server(c, i, RPC_CHECKPOINT_POLL, &q.base, cancel ? CANCEL_TIMEOUT_MS : WEIR_CONTROL_TIMEOUT_MS,
	                                 &weir__v1__checkpoint_poll_reply__descriptor, &m, err);
	const Weir__V1__CheckpointPollReply *r = (const Weir__V1__CheckpointPollReply *)m;
	if (status == WEIR_E_NOT_FOUND) /* it was started again */
		err->status = status = WEIR_E_UNAVAILABLE;
	*done = !status && r->done;
	if (!status)
		status = status_of(r->status, c, i, err);
	if (!status && *done)
		status = read_parts(run, i, r, err);
	wire_free(m);
	return status;
}

static weir_status wait_servers(struct checkpoint_run *run, weir_error *err)
{
	struct checkpoint_coordinator *c = run->coordinator;
	weir_status status = WEIR_OK;
	for (uint32_t i = 0; i < c->servers && !status; i++)
		for (bool done = !run->asked[i]; !status && !done;) {
			status =
			    is_ending(c) ? weir_fail(err, WEIR_E_CLOSED, "the server is stopping") : poll_server(run, i, false, &done, err);
			if (!status && !done)
				wait_ms(c, POLL_MS);
		}
	return status;
}

static void cancel_servers(struct checkpoint_run *run)
{
	for (uint32_t i = 0; i < run->coordinator->servers; i++) {
		bool done;
		weir_error ignored = {0};
		if (run->asked[i])
			(void)poll_server(run, i, true, &done, &ignored);
	}
}

static weir_status write_ledger(struct checkpoint_run *run, weir_error *err)
{
	char name[WEIR_BLOB_NAME_BYTES_MAX];
	uint8_t *flat = NULL;
	weir_status status = flatten(run->ledger, &flat, err);
	checkpoint_object_name(name, run->manifest.uuid, run->manifest.name, "ledger");
	if (!status)
		status = checkpoint_object_write(run->store, name, flat, run->ledger->bytes, &run->manifest.ledger, err);
	free(flat);
	return status;
}

static weir_status check_complete(const struct checkpoint_manifest *m, weir_error *err)
{
	for (uint32_t p = 0; p < m->partitions_count; p++)
		if (m->partitions[p].rows_count == 0)
			return weir_fail(err, WEIR_E_INTERNAL, "no server wrote partition %u", p);
	return WEIR_OK;
}

static weir_status write_checkpoint(struct checkpoint_run *run, weir_error *err)
{
	weir_status status = choose_servers(run, err);
	if (!status)
		status = begin_all(run, err);
	if (!status)
		status = confirm_all(run, err);
	if (!status)
		status = write_ledger(run, err);
	if (!status)
		status = wait_servers(run, err);
	if (!status)
		status = check_complete(&run->manifest, err);
	if (!status)
		status = confirm_ledger(run, err);
	if (!status)
		status = checkpoint_manifest_write(run->store, &run->manifest, err);
	if (status)
		cancel_servers(run);
	return status;
}

static weir_status prepare(struct checkpoint_run *run, weir_error *err)
{
	struct checkpoint_coordinator *c = run->coordinator;
	const struct server_options *o = &c->server->options;
	struct checkpoint_manifest *m = &run->manifest;
	memcpy(m->uuid, o->uuid, sizeof m->uuid);
	m->generation = o->generation;
	weir_status status = checkpoint_options_open(&c->options, &run->store, err);
	if (!status)
		status = checkpoint_next_ms(run->store, m->uuid, o->clock->ops->wall_ns(o->clock) / 1000000, &m->created_ms, err);
	if (status)
		return status;
	m->values = c->options.values;
	m->slots = c->options.slots;
	snprintf(m->job, sizeof m->job, "%s", c->options.job);
	checkpoint_name(m->name, m->uuid, m->created_ms);
	m->partitions = calloc(o->partitions, sizeof *m->partitions);
	m->partitions_count = m->partitions ? o->partitions : 0;
	run->begun = calloc(o->partitions, sizeof *run->begun);
	for (uint32_t p = 0; run->begun && p < o->partitions; p++)
		run->begun[p].server = WEIR_SERVER_NONE;
	return m->partitions && run->begun ? WEIR_OK : weir_fail(err, WEIR_E_MEMORY, "out of memory for a checkpoint");
}

static void say_ended(struct checkpoint_coordinator *c, const struct ended *e)
{
	struct logger *l = c->server->options.logger;
	if (e->err.status)
		LOG_AT(l, LOG_ERROR, "checkpoint failed", "name=%s reason=\"%s\"", e->name, e->err.text);
	else
		LOG_AT(l, LOG_INFO, "checkpoint written", "name=%s place=%s bytes=%" PRIu64 " wall_ms=%" PRIu64, e->name,
		       c->options.place, e->bytes, e->wall_ms);
}

static void run_free(struct checkpoint_run *run)
{
	message_release(run->ledger);
	checkpoint_manifest_free(&run->manifest);
	free(run->begun);
	blob_close(run->store);
}

/* With replicas a server that was away, or has lost its folder, may still need the checkpoint that this generation began with; and the job may be going back, just
 * now, to the one that was the last before this. */
static weir_status retain(const struct checkpoint_coordinator *c, const struct checkpoint_run *run, weir_error *err)
{
	const bool replicated = is_replicated(c);
	const uint32_t keep = replicated && c->options.keep < REPLICATED_KEEP_MIN ? REPLICATED_KEEP_MIN : c->options.keep;
	return checkpoint_retain(run->store, run->manifest.uuid, keep, replicated ? c->server->restored : NULL, run->manifest.name,
	                         err);
}

/* One try, under a name of its own. */
static weir_status try_one(struct checkpoint_coordinator *c, struct ended *e)
{
	struct checkpoint_run run = {.coordinator = c};
	weir_error kept = {0};
	e->err = (weir_error){0};
	weir_status status = prepare(&run, &e->err);
	memcpy(e->name, run.manifest.name, sizeof e->name);
	pthread_mutex_lock(&c->lock);
	memcpy(c->name, e->name, sizeof c->name);
	pthread_mutex_unlock(&c->lock);
	if (!status)
		status = write_checkpoint(&run, &e->err);
	if (!status)
		memcpy(c->base, e->name, sizeof c->base);
	e->bytes = run.bytes;
	if (!status && retain(c, &run, &kept))
		LOG_AT(c->server->options.logger, LOG_WARN, "old checkpoints stay", "reason=\"%s\"", kept.text);
	run_free(&run);
	return status;
}

static bool has_ledger(struct checkpoint_coordinator *c)
{
	struct ledger_task t;
	on_ledger_loop(c, &t, task_stand);
	return t.stands;
}

/* Whether a checkpoint failed for what passes: a server has died, or a partition moves. */
static bool is_passing(weir_status status)
{
	switch (status) {
	case WEIR_E_MOVED:
	case WEIR_E_UNAVAILABLE:
	case WEIR_E_TIMEOUT:
	case WEIR_E_NOT_CURRENT:
	case WEIR_E_CANCELLED:
	case WEIR_E_CLOSED:
	case WEIR_E_BUSY:
		return true;
	default:
		return false;
	}
}

static weir_status try_all(struct checkpoint_coordinator *c, struct ended *e)
{
	for (uint32_t tries = 1;; tries++) {
		weir_status status = try_one(c, e);
		if (!is_passing(status) || !is_replicated(c) || tries == TRIES)
			return status;
		wait_ms(c, TRY_AGAIN_MS);
		if (is_ending(c) || !has_ledger(c))
			return status;
		LOG_AT(c->server->options.logger, LOG_WARN, "checkpoint begins anew", "name=%s reason=\"%s\"", e->name, e->err.text);
	}
}

/* The present one, told to those who ask, from begin to end. */
static void run_one(struct checkpoint_coordinator *c)
{
	struct ended e = {.any = true};
	const struct clock *clock = c->server->options.clock;
	int64_t start_ms = clock_ms(clock);
	pthread_mutex_lock(&c->lock);
	c->running = true;
	c->wanted = false;
	e.sequence = ++c->sequence;
	pthread_mutex_unlock(&c->lock);
	(void)try_all(c, &e);
	e.wall_ms = (uint64_t)(clock_ms(clock) - start_ms);
	say_ended(c, &e);
	pthread_mutex_lock(&c->lock);
	c->running = false;
	c->ended = e;
	pthread_mutex_unlock(&c->lock);
}

/* Whether every_steps says that it is time. */
static bool is_due(struct checkpoint_coordinator *c)
{
	struct ledger_task t;
	if (!c->options.every_steps)
		return false;
	on_ledger_loop(c, &t, task_due);
	if (!t.stands || t.batches < c->last_step + c->options.every_steps)
		return false;
	c->last_step = t.batches; /* also of one that fails before it begins: the next is due when as many steps were taken again */
	return true;
}

static void *coordinate(void *arg)
{
	struct checkpoint_coordinator *c = arg;
	while (!is_ending(c)) {
		pthread_mutex_lock(&c->lock);
		bool wanted = c->wanted;
		pthread_mutex_unlock(&c->lock);
		if (wanted || is_due(c)) {
			run_one(c);
			continue;
		}
		struct timespec at;
		clock_gettime(CLOCK_REALTIME, &at);
		int64_t ns = at.tv_nsec + (int64_t)LOOK_MS * 1000000;
		at.tv_sec += ns / 1000000000;
		at.tv_nsec = ns % 1000000000;
		pthread_mutex_lock(&c->lock);
		if (!c->ending && !c->wanted)
			(void)pthread_cond_timedwait(&c->wake, &c->lock, &at);
		pthread_mutex_unlock(&c->lock);
	}
	return NULL;
}

/* --- Who asks */

/* Whether the ledger is, as far as is known; who waits for it to be may ask. */
static bool is_here(const struct checkpoint_coordinator *c)
{
	uint64_t revision;
	return !is_replicated(c) || partition_map_find(c->server->map, JOURNAL_LEDGER, &revision).server == c->server->options.index;
}

void checkpoint_coordinator_ask(struct checkpoint_coordinator *c, struct rpc_call *call, struct message *request)
{
	weir_error err = {0};
	ProtobufCMessage *m = NULL;
	weir_status status = wire_unpack(&weir__v1__checkpoint_request__descriptor, request, &m, &err);
	const Weir__V1__CheckpointRequest *q = (const Weir__V1__CheckpointRequest *)m;
	if (!status && q->job && q->job->uuid.len)
		status = server_check_job(c->server, q->job->uuid.data, q->job->uuid.len, q->job->generation, &err);
	if (!status && !is_here(c)) {
		wire_free(m);
		forward_refuse_moved(c->server, call, RPC_CHECKPOINT);
		return;
	}
	if (status) {
		wire_free(m);
		rpc_call_reply(call, status, err.text, NULL);
		return;
	}
	Weir__V1__Status ok = WEIR__V1__STATUS__INIT, outcome = WEIR__V1__STATUS__INIT;
	Weir__V1__CheckpointReply reply = WEIR__V1__CHECKPOINT_REPLY__INIT;
	reply.status = &ok;
	pthread_mutex_lock(&c->lock);
	if (q->start && !c->running) {
		c->wanted = true;
		pthread_cond_broadcast(&c->wake);
	}
	const struct ended e = c->ended;
	reply.running = c->running || c->wanted;
	reply.sequence = c->running ? c->sequence : c->sequence + c->wanted;
	char name[WEIR_CHECKPOINT_NAME_BYTES_MAX];
	memcpy(name, c->running ? c->name : e.name, sizeof name);
	pthread_mutex_unlock(&c->lock);
	reply.name = name;
	if (e.any) {
		outcome.code = e.err.status;
		outcome.text = (char *)(uintptr_t)e.err.text;
		reply.outcome = &outcome;
		reply.ended_sequence = e.sequence;
		reply.bytes = e.bytes;
		reply.wall_ms = e.wall_ms;
	}
	wire_free(m);
	struct message *out = wire_pack(&reply.base);
	rpc_call_reply(call, out ? WEIR_OK : WEIR_E_MEMORY, out ? "" : "out of memory", out);
}

/* --- Life */

static void coordinator_free(struct checkpoint_coordinator *c)
{
	for (uint32_t i = 0; c->channels && i < c->servers; i++)
		if (c->channels[i])
			rpc_channel_close(c->channels[i]);
	if (c->loop)
		rpc_loop_destroy(c->loop);
	checkpoint_options_free(&c->options);
	pthread_cond_destroy(&c->wake);
	pthread_mutex_destroy(&c->lock);
	free(c->channels);
	free(c->addresses);
	free(c);
}

struct checkpoint_coordinator *checkpoint_coordinator_create(struct server *s, const struct checkpoint_options *options,
                                                             const char *const *servers, uint32_t count)
{
	struct checkpoint_coordinator *c = calloc(1, sizeof *c);
	if (!c)
		return NULL;
	c->server = s;
	c->servers = server_servers_max(s);
	pthread_mutex_init(&c->lock, NULL);
	pthread_cond_init(&c->wake, NULL);
	c->addresses = calloc(c->servers, sizeof *c->addresses);
	c->channels = calloc(c->servers, sizeof(struct rpc_channel *));
	bool made = c->addresses && c->channels && checkpoint_options_copy(&c->options, options) == WEIR_OK;
	for (uint32_t i = 0; made && i < count && i < c->servers; i++)
		snprintf(c->addresses[i], sizeof c->addresses[i], "%s", servers[i]);
	if (!made || pthread_create(&c->thread, NULL, coordinate, c) != 0) {
		coordinator_free(c);
		return NULL;
	}
	return c;
}

void checkpoint_coordinator_destroy(struct checkpoint_coordinator *c)
{
	if (!c)
		return;
	pthread_mutex_lock(&c->lock);
	c->ending = true;
	pthread_cond_broadcast(&c->wake);
	pthread_mutex_unlock(&c->lock);
	pthread_join(c->thread, NULL);
	coordinator_free(c);
}
