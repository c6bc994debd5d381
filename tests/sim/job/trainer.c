/* A trainer's process: uses libweir as a worker does. An error that it cannot recover from ends the
 * process, and it starts again. */
#include <stdlib.h>
#include <string.h>

#include "server/partition/partition.h"
#include "tests/integer_batches.h"
#include "tests/sim/job/job.h"
#include "worker/client/client.h"

enum { WAIT_MS = 60000 };

struct trainer {
	struct actor *actor;
	weir_client *client;
	uint32_t rows, dense;
	/* Buffers of the client. They live as long as the process, because a failed operation may still
	 * be in flight. */
	float pulled_rows[KEYS * WIDTH], pulled_dense[DENSE], pushed_rows[KEYS * WIDTH], pushed_dense[DENSE];
	uint64_t keys[KEYS];
	/* Lower bounds of values since this incarnation began: an acknowledged push is never undone for
	 * its worker. */
	float least_rows[KEY_SPACE], least_dense;
	/* A value that this unit read below its bound. It is an error only if the unit commits: after
	 * losing the unit, the worker may have counted another attempt's pushes. */
	char amiss[160];
};

static void print_log(void *arg, weir_log_level level, const char *line)
{
	(void)arg, (void)level;
	world_note("says: %s", line);
}

static weir_status add_table(struct trainer *t, const char *name, uint32_t width, uint32_t elements, uint32_t *id,
                             weir_error *err)
{
	const weir_init_segment zero = {.elements = width + elements, .kind = WEIR_INIT_ZERO};
	weir_table_spec spec = {.kind = width ? WEIR_EMBEDDING : WEIR_DENSE,
	                        .width = width,
	                        .elements = elements,
	                        .optimizer = {.kind = WEIR_OPT_SGD, .lr = 1},
	                        .pull = width ? (weir_pull_coding){0} : t->actor->job->pull,
	                        .mode = width ? (weir_mode){WEIR_ASYNC} : t->actor->job->mode,
	                        .segments_count = 1,
	                        .segments = &zero};
	strcpy(spec.name, name);
	return weir_table_register(t->client, &spec, id, err);
}

/* Where acknowledged means committed, any replica that answers a pull has applied this worker's
 * pushes, and everything that the worker had read before them. */
static bool remembers(const struct trainer *t)
{
	return t->actor->job->replicas > 1 && t->actor->job->ack != PARTITION_ACK_PRIMARY;
}

static void check_value(struct trainer *t, const char *what, uint64_t key, float value, float least)
{
	if (value < least && !t->amiss[0])
		snprintf(t->amiss, sizeof t->amiss, "reads %s %u as %g, after what it has pushed it is %g at least", what, (unsigned)key,
		         (double)value, (double)least);
}

static void check_pulled(struct trainer *t, const uint64_t *keys)
{
	if (!remembers(t))
		return;
	for (uint32_t i = 0; i < KEYS; i++)
		check_value(t, "row", keys[i], t->pulled_rows[i * WIDTH], t->least_rows[keys[i]]);
	check_value(t, "chunk", 0, t->pulled_dense[0], t->least_dense);
}

static weir_status pull_items(struct trainer *t, const weir_batch *id, const weir_pull_item *items, size_t count, weir_error *err)
{
	weir_ticket ticket;
	weir_status status = weir_pull(t->client, id, items, count, NULL, NULL, &ticket, err);
	return status ? status : weir_wait(t->client, ticket, WAIT_MS, err);
}

static weir_status pull(struct trainer *t, const weir_unit *u, const weir_batch *id, const uint64_t *keys, weir_error *err)
{
	const weir_pull_item items[] = {{.table = t->rows, .keys = keys, .rows = KEYS, .values = t->pulled_rows},
	                                {.table = t->dense, .values = t->pulled_dense}};
	weir_batch round = *id;
	round.batch = integer_round_end(u, id->batch, BATCHES);
	weir_status status = WEIR_OK;
	if (u->local_steps && id->batch % u->local_steps == 0)
		status = pull_items(t, &round, items + 1, 1, err);
	if (!status)
		status = pull_items(t, id, items, u->local_steps ? 1 : 2, err);
	if (!status)
		check_pulled(t, keys);
	return status;
}

/* The batch is included in later pulls. A later attempt does not push parts again that are already
 * applied, so nothing is guaranteed for them. */
static void note_pushed(struct trainer *t, const weir_batch *id, const uint64_t *keys, float value, float dense)
{
	if (id->attempt > 1)
		return;
	for (uint32_t i = 0; i < KEYS; i++)
		t->least_rows[keys[i]] = t->pulled_rows[i * WIDTH] + value;
	if (t->actor->job->mode.kind != WEIR_SYNC && t->least_dense < t->pulled_dense[0] + dense)
		t->least_dense = t->pulled_dense[0] + dense;
}

static void forget_pushed(struct trainer *t)
{
	memset(t->least_rows, 0, sizeof t->least_rows);
	t->least_dense = 0;
}

/* The amount this batch pushes to the dense table. 0: another batch of the round pushes it. */
static float dense_value(const weir_unit *u, uint32_t batch)
{
	float sum = 0;
	if (integer_round_end(u, batch, BATCHES) != batch)
		return 0;
	for (uint32_t b = u->local_steps ? batch / u->local_steps * u->local_steps : batch; b <= batch; b++)
		sum += integer_batch_value(u->data_unit, b);
	return sum;
}

static weir_status push(struct trainer *t, const weir_batch *id, const uint64_t *keys, float value, float dense, weir_error *err)
{
	weir_ticket ticket;
	for (uint32_t i = 0; i < KEYS * WIDTH; i++)
		t->pushed_rows[i] = -value;
	for (uint32_t i = 0; i < DENSE; i++)
		t->pushed_dense[i] = -dense;
	const weir_push_item items[] = {{.table = t->rows, .keys = keys, .rows = KEYS, .values = t->pushed_rows},
	                                {.table = t->dense, .values = t->pushed_dense}};
	/* Place within the unit, as no schedule is used. */
	const weir_push_options options = {.place = 1 + id->batch, .weight = 1 + id->batch};
	weir_status status = weir_push(t->client, id, items, dense != 0 ? 2 : 1, &options, NULL, NULL, &ticket, err);
	return status ? status : weir_wait(t->client, ticket, WAIT_MS, err);
}

/* Sometimes hangs for a while, as a device or a disk may; the library keeps working. */
static void compute(struct job *job)
{
	const uint64_t r = prng_mix(world_seed(), 0x7374616cu, ++job->computed);
	thread_sleep(world_between(0, job->compute_ns));
	if (!job->stall_every || r % job->stall_every || world_now() >= job->heal_ns)
		return;
	job->stalls++;
	const int64_t ns = (int64_t)(r / job->stall_every % (4 * PROGRESS_TIMEOUT_MS)) * SIM_MS;
	world_note("stands still for %.1f s", (double)ns / 1e9);
	thread_sleep(ns);
}

static weir_status run_batch(struct trainer *t, const weir_unit *u, uint32_t batch, weir_error *err)
{
	const weir_batch id = {.pass = u->pass, .unit = u->unit, .batch = batch, .attempt = u->attempt};
	uint64_t *keys = t->keys;
	integer_batch_keys(u->data_unit, batch, KEY_SPACE, KEYS, keys);
	const float value = integer_batch_value(u->data_unit, batch), dense = dense_value(u, batch);
	weir_status status = pull(t, u, &id, keys, err);
	compute(t->actor->job);
	if (!status && world_chance(0.5))
		status = pull(t, u, &id, keys, err); /* sees pushes of others since the first pull */
	if (!status)
		status = push(t, &id, keys, value, dense, err);
	if (!status)
		note_pushed(t, &id, keys, value, dense);
	t->actor->job->pushes += status == WEIR_OK;
	return status;
}

/* Executes one unit. WEIR_E_CLOSED: no units are left. */
static weir_status run_unit(struct trainer *t, weir_error *err)
{
	weir_unit u = {0};
	weir_status status = weir_unit_lease(t->client, &u, WAIT_MS, err);
	if (status)
		return status;
	if (u.state == WEIR_UNIT_FINISHED)
		return WEIR_E_CLOSED;
	world_note("has unit %u of pass %u from batch %u to %u, attempt %u", u.unit, u.pass, u.watermark, u.end, u.attempt);
	t->amiss[0] = 0;
	const uint32_t end = u.end ? u.end : BATCHES;
	status = weir_unit_begin(t->client, &u, end, err);
	for (uint32_t batch = u.watermark; !status && batch < end; batch++)
		status = run_batch(t, &u, batch, err);
	if (!status)
		status = weir_unit_commit(t->client, &u, err);
	world_note("unit %u of pass %u: %s", u.unit, u.pass, status ? err->text : "committed");
	if (!status && t->amiss[0])
		job_fail(t->actor->job, "%s %s", t->actor->name, t->amiss);
	return status;
}

static weir_status train(struct trainer *t, weir_error *err)
{
	weir_status status = WEIR_OK;
	while (!status) {
		status = run_unit(t, err);
		if (status != WEIR_E_STALE)
			continue;
		forget_pushed(t);
		status = weir_rejoin(t->client, err);
	}
	return status == WEIR_E_CLOSED ? WEIR_OK : status;
}

static weir_status join(struct trainer *t, struct rpc *rpc, weir_error *err)
{
	const weir_options options = {.ledger = t->actor->job->ledger,
	                              .name = t->actor->name,
	                              .role = WEIR_TRAINER,
	                              .dataset_fingerprint = 77,
	                              .dataset_units = UNITS,
	                              .dataset_unit_batches = BATCHES,
	                              .log = print_log};
	weir_status status = client_open(&t->client, &options, rpc, err);
	if (!status)
		status = add_table(t, "rows", WIDTH, 0, &t->rows, err);
	if (!status)
		status = add_table(t, "dense", 0, DENSE, &t->dense, err);
	return status;
}

void trainer_main(void *actor)
{
	struct trainer *t = calloc(1, sizeof *t);
	struct rpc *rpc = rpc_sim_create(NULL);
	weir_error err = {0};
	t->actor = actor;
	weir_status status = join(t, rpc, &err);
	if (!status)
		status = train(t, &err);
	if (status)
		actor_exit(actor, err.text);
	t->actor->finished = true;
	world_note("has finished");
	/* A ledger that cannot be reached notices by the lease's end. */
	(void)weir_close(t->client, &err);
	rpc_destroy(rpc);
	free(t);
}
