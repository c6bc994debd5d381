/* Three synchronous workers without backup equal one process that takes each step's batches in
 * order of units, sums their gradients and applies the optimizer to the mean: bit for bit at fp32,
 * for dense tables and rows. The ledger decides a step's batches: those of all three workers,
 * except in the first and last steps. */
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/prng.h"
#include "kernels/optimizer.h"
#include "tests/cmocka_check.h"
#include "tests/unit/worker/client/cluster.h"

enum {
	WORKERS = 3,
	BATCHES = 12,
	ELEMENTS = WEIR_CHUNK + 1000,
	CHUNKS = 2,
	WIDTH = 4,
	ROWS = 40,
	KEYS = 16,
	PATIENCE_MS = 60000
};

static const weir_optimizer adam = {.kind = WEIR_OPT_ADAM, .lr = 0.01f, .beta1 = 0.9f, .beta2 = 0.999f, .eps = 1e-8f};

/* A batch's keys (KEYS, distinct); other workers have some of them too. */
static void batch_keys(uint32_t unit, uint32_t batch, uint64_t *keys)
{
	for (uint64_t i = 0; i < KEYS; i++)
		keys[i] = prng_permute(prng_mix(5, unit, batch), ROWS, i);
}

/* The gradient of an element with the value x. */
static float gradient(float x, uint32_t unit, uint32_t batch, uint64_t element)
{
	const float noise = (float)(prng_mix(unit, batch, element) >> 40) * 0x1p-24f - 0.5f;
	return x - (float)(element % 13) / 13 + 0.3f * noise;
}

/* --- The single process */

struct loop {
	float dense[ELEMENTS], slots[2 * ELEMENTS], rows[ROWS][3 * WIDTH]; /* rows: value, then slots */
	struct row_state chunk_states[CHUNKS], row_states[ROWS];
	float sum[ELEMENTS], row_sums[ROWS][WIDTH];
	bool touched[ROWS];
	uint32_t members; /* of the step so far */
};

static void add_batch(struct loop *l, uint32_t unit, uint32_t batch)
{
	uint64_t keys[KEYS];
	batch_keys(unit, batch, keys);
	for (uint64_t i = 0; i < ELEMENTS; i++) {
		const float g = gradient(l->dense[i], unit, batch, i);
		l->sum[i] = l->members ? l->sum[i] + g : g;
	}
	for (uint32_t k = 0; k < KEYS; k++) {
		const uint64_t row = keys[k];
		for (uint32_t i = 0; i < WIDTH; i++) {
			const float g = gradient(l->rows[row][i], unit, batch, row * WIDTH + i);
			l->row_sums[row][i] = l->touched[row] ? l->row_sums[row][i] + g : g;
		}
		l->touched[row] = true;
	}
	l->members++;
}

static void take_step(struct loop *l, const struct optimizer *o)
{
	const struct optimizer_scalars scalars = {.lr = adam.lr, .grad_scale = 1.0f / (float)l->members};
	l->members = 0;
	for (uint32_t c = 0; c < CHUNKS; c++) {
		const size_t first = (size_t)c * WEIR_CHUNK, n = weir_chunk_elements(ELEMENTS, c);
		optimizer_begin_row(o, &l->chunk_states[c]);
		optimizer_apply(o, &scalars, &l->chunk_states[c], l->dense + first, l->slots + 2 * first, n, 0, l->sum + first, n);
	}
	for (uint32_t r = 0; r < ROWS; r++) {
		if (!l->touched[r])
			continue;
		optimizer_begin_row(o, &l->row_states[r]);
		optimizer_apply(o, &scalars, &l->row_states[r], l->rows[r], l->rows[r] + WIDTH, WIDTH, 0, l->row_sums[r], WIDTH);
		l->touched[r] = false;
	}
}

/* --- A worker */

struct worker {
	weir_client *client;
	weir_unit unit;
	uint32_t dense, rows;
	uint64_t step[BATCHES]; /* the step that had the batch */
	pthread_t thread;
	float values[ELEMENTS], gradient[ELEMENTS];
};

static uint32_t register_table(weir_client *client, const char *name, weir_table_kind kind, uint64_t size)
{
	const weir_init_segment zero = {.elements = size, .kind = WEIR_INIT_ZERO};
	weir_table_spec spec = {.kind = kind,
	                        .width = kind == WEIR_EMBEDDING ? (uint32_t)size : 0,
	                        .elements = kind == WEIR_DENSE ? size : 0,
	                        .optimizer = adam,
	                        .mode = {.kind = WEIR_SYNC},
	                        .segments_count = 1,
	                        .segments = &zero};
	weir_error err = {0};
	uint32_t id;
	strcpy(spec.name, name);
	CHECK_OK(weir_table_register(client, &spec, &id, &err), err);
	return id;
}

static void worker_open(struct worker *w, struct cluster *c, const char *name)
{
	weir_error err = {0};
	w->client = cluster_trainer(c, name, WORKERS);
	w->dense = register_table(w->client, "dense", WEIR_DENSE, ELEMENTS);
	w->rows = register_table(w->client, "rows", WEIR_EMBEDDING, WIDTH);
	CHECK_OK(weir_unit_lease(w->client, &w->unit, PATIENCE_MS, &err), err);
	assert_int_equal(w->unit.state, WEIR_UNIT_LEASED);
	CHECK_OK(weir_unit_begin(w->client, &w->unit, BATCHES, &err), err);
}

static void pull(struct worker *w, const weir_batch *id, const uint64_t *keys, size_t count, float *rows)
{
	const weir_pull_item items[] = {{.table = w->dense, .values = w->values},
	                                {.table = w->rows, .keys = keys, .rows = count, .values = rows}};
	weir_ticket ticket;
	weir_error err = {0};
	CHECK_OK(weir_pull(w->client, id, items, 2, NULL, NULL, &ticket, &err), err);
	CHECK_OK(weir_wait(w->client, ticket, PATIENCE_MS, &err), err);
}

static void run_batch(struct worker *w, uint32_t batch)
{
	const uint32_t unit = w->unit.unit;
	const weir_batch id = {.pass = w->unit.pass, .unit = unit, .attempt = w->unit.attempt, .batch = batch};
	float rows[KEYS * WIDTH];
	uint64_t keys[KEYS];
	weir_ticket ticket;
	weir_error err = {0};
	batch_keys(unit, batch, keys);
	pull(w, &id, keys, KEYS, rows);
	pthread_mutex_lock(&w->client->lock);
	/* other workers' steps may have closed since */
	w->step[batch] = batch_find(w->client, &id, NULL, &err)->step;
	pthread_mutex_unlock(&w->client->lock);
	for (uint64_t i = 0; i < ELEMENTS; i++)
		w->gradient[i] = gradient(w->values[i], unit, batch, i);
	for (uint32_t i = 0; i < KEYS * WIDTH; i++)
		rows[i] = gradient(rows[i], unit, batch, keys[i / WIDTH] * WIDTH + i % WIDTH);
	const weir_push_item items[] = {{.table = w->dense, .values = w->gradient},
	                                {.table = w->rows, .keys = keys, .rows = KEYS, .values = rows}};
	CHECK_OK(weir_push(w->client, &id, items, 2, NULL, NULL, NULL, &ticket, &err), err);
	CHECK_OK(weir_wait(w->client, ticket, PATIENCE_MS, &err), err);
}

static void *work(void *arg)
{
	struct worker *w = arg;
	weir_error err = {0};
	for (uint32_t batch = 0; batch < BATCHES; batch++)
		run_batch(w, batch);
	CHECK_OK(weir_unit_commit(w->client, &w->unit, &err), err);
	return NULL;
}

static void expect_equal(struct worker *w, const struct loop *l)
{
	uint64_t keys[ROWS];
	float rows[ROWS * WIDTH];
	for (uint64_t i = 0; i < ROWS; i++)
		keys[i] = i;
	pull(w, NULL, keys, ROWS, rows);
	assert_memory_equal(w->values, l->dense, sizeof l->dense);
	for (uint32_t i = 0; i < ROWS; i++)
		assert_memory_equal(rows + (size_t)i * WIDTH, l->rows[i], WIDTH * sizeof *rows);
}

/* Replays all workers' steps in order; returns how many had all three. */
static uint32_t go_through(struct loop *l, const struct optimizer *o, const struct worker *workers, uint64_t steps)
{
	uint32_t whole = 0;
	for (uint64_t step = 1; step <= steps; step++) {
		for (uint32_t unit = 0; unit < WORKERS; unit++)
			for (uint32_t i = 0; i < WORKERS * BATCHES; i++)
				if (workers[i / BATCHES].unit.unit == unit && workers[i / BATCHES].step[i % BATCHES] == step)
					add_batch(l, unit, i % BATCHES);
		whole += l->members == WORKERS;
		take_step(l, o);
	}
	return whole;
}

static void three_workers_are_one_loop(void **state)
{
	(void)state;
	static const char *const names[WORKERS] = {"worker-0", "worker-1", "worker-2"};
	struct worker *workers = calloc(WORKERS, sizeof *workers);
	struct loop *loop = calloc(1, sizeof *loop);
	weir_error err = {0};
	struct cluster c;
	struct optimizer *o = optimizer_create(&adam, &err);
	assert_true(workers && loop && o);
	cluster_start(&c, &(struct cluster_options){0});
	for (uint32_t i = 0; i < WORKERS; i++) /* each has its unit before the first push */
		worker_open(&workers[i], &c, names[i]);
	for (uint32_t i = 0; i < WORKERS; i++)
		assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
	for (uint32_t i = 0; i < WORKERS; i++)
		pthread_join(workers[i].thread, NULL);
	struct audit a;
	do /* the last step closes after the last push */
		a = cluster_audit(&c);
	while (a.applied < a.expected);
	assert_int_equal(a.batches_dropped, 0);
	const uint32_t whole = go_through(loop, o, workers, a.steps_closed);
	assert_in_range(whole, 1, BATCHES);
	expect_equal(&workers[0], loop);
	print_message("%u of %llu steps of all %u workers: %u elements and %u rows with the bits of one loop\n", whole,
	              (unsigned long long)a.steps_closed, WORKERS, ELEMENTS, ROWS);
	for (uint32_t i = 0; i < WORKERS; i++)
		CHECK_OK(weir_close(workers[i].client, &err), err);
	cluster_stop(&c);
	optimizer_destroy(o);
	free(workers);
	free(loop);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(three_workers_are_one_loop),
	};
	return cmocka_run_group_tests_name("synchronous", tests, NULL, NULL);
}
