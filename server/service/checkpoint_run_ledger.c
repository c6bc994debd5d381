/* A run's calls to the ledger, on the ledger's loop, and to the servers' coordinator. */
#include <stdlib.h>
#include <string.h>

#include "server/checkpoint/rewind.h"
#include "server/cluster/roles.h"
#include "server/coord/coord_records.h"
#include "server/log/journal.h"
#include "server/service/checkpoint_coordinator_internal.h"
#include "state.pb-c.h"

#define COMMIT_PATIENCE_MS 2000u /* until the ledger's decisions are committed */

/* --- Waiting for other threads */

struct errand {
	struct server *server;
	pthread_mutex_t lock;
	pthread_cond_t over;
	bool done;
};

static void errand_begin(struct errand *e, struct server *s)
{
	*e = (struct errand){.server = s};
	pthread_mutex_init(&e->lock, NULL);
	pthread_cond_init(&e->over, NULL);
	server_enter(s);
}

/* The waiting thread may continue, and e is gone then. */
static void errand_end(struct errand *e)
{
	struct server *s = e->server;
	pthread_mutex_lock(&e->lock);
	e->done = true;
	pthread_cond_signal(&e->over);
	pthread_mutex_unlock(&e->lock);
	server_leave(s);
}

static void errand_wait(struct errand *e)
{
	pthread_mutex_lock(&e->lock);
	while (!e->done)
		pthread_cond_wait(&e->over, &e->lock);
	pthread_mutex_unlock(&e->lock);
	pthread_cond_destroy(&e->over);
	pthread_mutex_destroy(&e->lock);
}

/* --- On the ledger's loop */

struct ledger_task {
	struct errand errand;
	void (*run)(struct ledger_task *task);
	/* Results. */
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
	t->run(t);
	errand_end(&t->errand);
}

static void on_ledger_loop(struct checkpoint_coordinator *c, struct ledger_task *t, void (*run)(struct ledger_task *))
{
	*t = (struct ledger_task){.run = run};
	errand_begin(&t->errand, c->server);
	rpc_loop_post(c->server->ledger_loop, task_on_loop, t);
	errand_wait(&t->errand);
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
	ledger_status(t->errand.server->ledger, &q, note_batches, t);
}

static void task_stand(struct ledger_task *t)
{
	t->stands = ledger_role_stands(t->errand.server, &t->stand);
}

/* Appends the ledger's decisions to its log first. The log index then shows whether all of them are
 * committed. */
static void task_hold(struct ledger_task *t)
{
	struct server *s = t->errand.server;
	ledger_rpc_hold(s);
	ledger_rpc_commit(s);
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
	ledger_rpc_release(t->errand.server);
}

bool checkpoint_ledger_is_here(struct checkpoint_coordinator *c, uint64_t *batches)
{
	struct ledger_task t;
	on_ledger_loop(c, &t, task_due);
	*batches = t.batches;
	return t.stands;
}

/* --- The ledger's state */

static weir_status flatten(struct checkpoint_run *run, const struct message *m, weir_error *err)
{
	struct cursor c = cursor_at(m);
	run->ledger = malloc(m->bytes + 1);
	if (!run->ledger)
		return weir_fail(err, WEIR_E_MEMORY, "out of memory for a checkpoint");
	run->ledger_bytes = m->bytes;
	return cursor_read(&c, run->ledger, m->bytes);
}

/* Reads the tables and the last closed step from the ledger's state. */
static weir_status read_state(struct checkpoint_run *run, weir_error *err)
{
	ProtobufCMessage *m;
	struct checkpoint_manifest *out = &run->manifest;
	weir_status status = wire_unpack_state(&weir__v1__ledger_state__descriptor, run->ledger, run->ledger_bytes, &m, err);
	if (status)
		return status;
	const Weir__V1__LedgerState *state = (const Weir__V1__LedgerState *)m;
	run->steps_closed = state->steps ? state->steps->closed : 0;
	out->tables = calloc(state->n_tables + 1, sizeof *out->tables);
	if (state->fingerprint.len)
		out->fingerprint = strndup((const char *)state->fingerprint.data, state->fingerprint.len);
	if (!out->tables || (state->fingerprint.len && !out->fingerprint))
		status = weir_fail(err, WEIR_E_MEMORY, "out of memory for a checkpoint");
	for (size_t i = 0; i < state->n_tables && !status; i++) {
		struct checkpoint_table *t = &out->tables[out->tables_count];
		status = wire_table_read(state->tables[i], &t->spec, &t->id, err);
		out->tables_count += !status;
	}
	wire_destroy(m);
	return status;
}

weir_status checkpoint_hold_ledger(struct checkpoint_run *run, weir_error *err)
{
	struct ledger_task t;
	on_ledger_loop(run->coordinator, &t, task_hold);
	run->stand = t.stand;
	run->manifest.step = run->coordinator->last_step = t.batches;
	weir_status status = t.status ? weir_fail(err, t.status, "%s", t.err.text) : flatten(run, t.state, err);
	message_release(t.state);
	return status ? status : read_state(run, err);
}

void checkpoint_release_ledger(struct checkpoint_run *run)
{
	struct ledger_task t;
	on_ledger_loop(run->coordinator, &t, task_release);
}

/* --- Confirming */

struct look {
	struct coord_records_look look;
	struct errand errand;
};

static void on_looked(struct coord_records_look *look)
{
	errand_end(&((struct look *)look->arg)->errand);
}

/* On return the map is as of now, or later. */
static weir_status look_at_records(struct server *s, weir_error *err)
{
	struct look l = {.look = {.run_on = rpc_loop_executor(s->ledger_loop), .done = on_looked, .arg = &l}};
	errand_begin(&l.errand, s);
	coord_records_look(roles_records(s), &l.look);
	errand_wait(&l.errand);
	return l.look.status ? weir_fail(err, l.look.status, "the coordinator of the servers does not answer") : WEIR_OK;
}

static weir_status moved(uint32_t partition, weir_error *err)
{
	return partition == JOURNAL_LEDGER ? weir_fail(err, WEIR_E_MOVED, "the ledger has moved meanwhile")
	                                   : weir_fail(err, WEIR_E_MOVED, "partition %u has moved meanwhile", partition);
}

static weir_status check_place(const struct checkpoint_run *run, uint32_t partition, struct checkpoint_begun begun,
                               weir_error *err)
{
	uint64_t revision;
	const struct partition_place at = partition_map_find(run->coordinator->server->map, partition, &revision);
	return at.server == begun.server && at.epoch == begun.epoch ? WEIR_OK : moved(partition, err);
}

/* Checks the ledger's place, as in the servers' coordinator now. */
static weir_status check_ledger(struct checkpoint_run *run, weir_error *err)
{
	struct server *s = run->coordinator->server;
	const struct checkpoint_begun here = {s->options.index, run->stand.epoch};
	weir_status status = look_at_records(s, err);
	if (!status && rewind_is_told(s))
		status = weir_fail(err, WEIR_E_GENERATION, "the job goes back to a checkpoint");
	return status ? status : check_place(run, JOURNAL_LEDGER, here, err);
}

weir_status checkpoint_confirm_ledger(struct checkpoint_run *run, weir_error *err)
{
	struct checkpoint_coordinator *c = run->coordinator;
	const int64_t deadline_ms = clock_ms(c->server->options.clock) + COMMIT_PATIENCE_MS;
	struct ledger_task t;
	if (!checkpoint_is_replicated(c))
		return WEIR_OK;
	for (on_ledger_loop(c, &t, task_stand); t.stands && t.stand.epoch == run->stand.epoch; on_ledger_loop(c, &t, task_stand)) {
		if (t.stand.committed >= run->stand.decided)
			return check_ledger(run, err);
		if (clock_ms(c->server->options.clock) >= deadline_ms)
			return weir_fail(err, WEIR_E_TIMEOUT, "what the ledger had decided was not committed within %u ms",
			                 COMMIT_PATIENCE_MS);
		checkpoint_pause();
	}
	return moved(JOURNAL_LEDGER, err);
}

weir_status checkpoint_confirm_all(struct checkpoint_run *run, weir_error *err)
{
	weir_status status = checkpoint_confirm_ledger(run, err);
	for (uint32_t p = 0; p < run->manifest.partitions_count && checkpoint_is_replicated(run->coordinator) && !status; p++)
		status = check_place(run, p, run->begun[p], err);
	return status;
}
