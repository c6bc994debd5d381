/* A worker with generated data, to measure servers whose table exceeds their memory. The model is a
 * DLRM of 26 categories with embeddings of width 16 under Adagrad. Keys follow Zipf's law over one
 * table of any number of rows. Batches, tables and model are the real worker's.
 *
 *   zipf_trainer LEDGER ROWS load                      assigns rows 1 to ROWS
 *   zipf_trainer LEDGER ROWS train SECONDS [EXPONENT]  trains; pulls run two batches ahead, pushes
 *                                                      two behind
 *
 * Prints one JSON object: samples and distinct rows per second in the second half of the time, and
 * over all of it lookups and distinct keys per batch. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/base/prng.h"
#include "common/job/job.h"
#include "kernels/backend.h"
#include "worker/data/dataset.h"
#include "worker/data/format/rows.h"
#include "worker/model/model.h"
#include "worker/train/batch/minibatch.h"
#include "worker/train/batch/tables.h"

#define FIELDS       26u
#define NUMBERS      13u
#define SAMPLES      2048u
#define DRAWS        (SAMPLES * FIELDS)
#define WIDTH        16u
#define UNIT_BATCHES 128u
#define UNITS        (1u << 14)
#define RING         5u /* batches in flight */
#define AHEAD        2u /* batches pulled ahead */
#define LOAD_ROWS    16384u
#define ZIPF_DEFAULT 1.15
#define FIRST_SEED   2u

static const char JOB[] = "job: zipf\n"
                          "data: {format: criteo, train: none}\n"
                          "model: {kind: dlrm, dim: 16, bottom: [64, 16], hidden: [400, 400, 400]}\n"
                          "tables:\n"
                          "  embedding: {optimizer: {kind: adagrad, lr: 0.01}}\n"
                          "  dense: {optimizer: {kind: adagrad, lr: 0.01}}\n";

struct slot {
	struct batch batch;
	struct minibatch data;
	weir_batch id;
	weir_ticket pulled, pushed; /* 0: none */
};

struct trainer {
	weir_client *client;
	struct backend *backend;
	struct job *job;
	struct model *model;
	struct tables tables;
	struct prng prng;
	uint64_t rows;
	double zipf; /* the exponent, except 1 */
	struct slot ring[RING];
	uint64_t samples, keys;
};

static void check(weir_status status, const weir_error *e, const char *what)
{
	if (status == WEIR_OK)
		return;
	fprintf(stderr, "zipf_trainer: %s: %s: %s\n", what, weir_status_name(status), e->text);
	exit(1);
}

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Spreads neighbouring ranks over distant keys. */
static uint64_t key_of(uint64_t rank)
{
	uint64_t x = rank * 0x9e3779b97f4a7c15u;
	return x ^ x >> 32;
}

/* Inverts the continuous law; returns a rank from 1 to rows. */
static uint64_t zipf_rank(struct trainer *t)
{
	const double top = pow((double)t->rows + 1, 1 - t->zipf);
	const uint64_t rank = (uint64_t)pow(1 + prng_unit(&t->prng) * (top - 1), 1 / (1 - t->zipf));
	return rank < 1 ? 1 : rank > t->rows ? t->rows : rank;
}

static void batch_make(struct batch *b)
{
	if (!batch_reserve(b, SAMPLES, (struct row_shape){1, FIELDS, NUMBERS}, DRAWS, (struct batch_columns){0}))
		check(WEIR_E_MEMORY, &(weir_error){.text = "out of memory"}, "batch");
	b->rows = SAMPLES;
	for (uint32_t i = 0; i <= DRAWS; i++)
		b->offsets[i] = i;
}

static void batch_draw(struct trainer *t, struct batch *b)
{
	for (uint32_t i = 0; i < DRAWS; i++)
		b->keys[i] = key_of(zipf_rank(t));
	for (uint32_t i = 0; i < SAMPLES * NUMBERS; i++)
		b->dense[i] = (float)prng_unit(&t->prng);
	for (uint32_t i = 0; i < SAMPLES; i++)
		b->labels[i] = (float)(b->keys[(size_t)i * FIELDS] >> 13 & 1);
}

static void await(struct trainer *t, weir_ticket *ticket, const char *what)
{
	weir_error e = {0};
	if (*ticket)
		check(weir_wait(t->client, *ticket, -1, &e), &e, what);
	*ticket = 0;
}

static void start(struct trainer *t, struct slot *s)
{
	weir_error e = {0};
	weir_pull_item items[MODEL_TABLES];
	batch_draw(t, &s->batch);
	check(minibatch_load(&s->data, &s->batch, &e), &e, "batch");
	const size_t count = tables_pull_items(&t->tables, &s->data, PULL_ALL, true, items);
	check(weir_pull(t->client, &s->id, items, count, NULL, NULL, &s->pulled, &e), &e, "pull");
}

static void finish(struct trainer *t, struct slot *s)
{
	weir_error e = {0};
	weir_push_item items[MODEL_TABLES];
	const uint64_t seed = 0;
	await(t, &s->pulled, "pull");
	model_train(t->model, &s->data.input, &seed, &s->data.output);
	const size_t count = tables_push_items(&t->tables, &s->data, NULL, 0, items);
	check(weir_push(t->client, &s->id, items, count, NULL, NULL, NULL, &s->pushed, &e), &e, "push");
	weir_progress(t->client, &(weir_report){.rows = SAMPLES, .batches = 1});
	t->samples += SAMPLES;
	t->keys += s->data.input.unique;
}

static void load(struct trainer *t)
{
	static float values[LOAD_ROWS * WIDTH];
	static uint64_t keys[LOAD_ROWS];
	weir_error e = {0};
	const double begun = now();
	for (uint64_t at = 0; at < t->rows; at += LOAD_ROWS) {
		const size_t n = t->rows - at < LOAD_ROWS ? (size_t)(t->rows - at) : LOAD_ROWS;
		/* The most frequent keys come last, so that they stay in memory. */
		for (size_t i = 0; i < n; i++)
			keys[i] = key_of(t->rows - at - i);
		for (size_t i = 0; i < n * WIDTH; i++)
			values[i] = (float)prng_unit(&t->prng) * 0.02f - 0.01f;
		check(weir_assign(t->client, t->tables.ids[MODEL_EMBEDDING], keys, n, values, &e), &e, "assign");
	}
	printf("{\"rows\": %llu, \"seconds\": %.2f}\n", (unsigned long long)t->rows, now() - begun);
}

static void train_unit(struct trainer *t)
{
	weir_error e = {0};
	weir_unit unit;
	check(weir_unit_lease(t->client, &unit, -1, &e), &e, "lease");
	check(weir_unit_begin(t->client, &unit, UNIT_BATCHES, &e), &e, "begin");
	/* Keys follow from the unit, so that a run does not repeat another run's keys. */
	prng_seed(&t->prng, FIRST_SEED + unit.unit);
	for (uint32_t b = unit.watermark; b < UNIT_BATCHES + AHEAD; b++) {
		if (b < UNIT_BATCHES) {
			struct slot *next = &t->ring[b % RING];
			await(t, &next->pushed, "push");
			next->id = (weir_batch){.pass = unit.pass, .unit = unit.unit, .batch = b, .attempt = unit.attempt};
			start(t, next);
		}
		if (b >= unit.watermark + AHEAD)
			finish(t, &t->ring[(b - AHEAD) % RING]);
	}
	for (uint32_t i = 0; i < RING; i++)
		await(t, &t->ring[i].pushed, "push");
	check(weir_unit_commit(t->client, &unit, &e), &e, "commit");
}

static void train(struct trainer *t, double seconds)
{
	weir_error e = {0};
	for (uint32_t i = 0; i < RING; i++) {
		batch_make(&t->ring[i].batch);
		check(minibatch_init(&t->ring[i].data, t->backend, t->model, MINIBATCH_ALL, &e), &e, "minibatch");
	}
	const double begun = now();
	double half = 0;
	uint64_t samples = 0, keys = 0;
	while (now() - begun < seconds) {
		train_unit(t);
		if (half == 0 && now() - begun >= seconds / 2) {
			half = now();
			samples = t->samples;
			keys = t->keys;
		}
	}
	const double elapsed = now() - half;
	printf("{\"seconds\": %.2f, \"samples_per_s\": %.0f, \"rows_per_s\": %.0f, \"lookups\": %llu, \"keys\": %llu}\n", elapsed,
	       (double)(t->samples - samples) / elapsed, (double)(t->keys - keys) / elapsed, (unsigned long long)t->samples * FIELDS,
	       (unsigned long long)t->keys);
	for (uint32_t i = 0; i < RING; i++) {
		minibatch_destroy(&t->ring[i].data);
		batch_destroy(&t->ring[i].batch);
	}
}

int main(int argc, char **argv)
{
	weir_error e = {0};
	const bool loads = argc == 4 && strcmp(argv[3], "load") == 0;
	const bool trains = (argc == 5 || argc == 6) && strcmp(argv[3], "train") == 0;
	struct trainer t = {.zipf = argc == 6 ? strtod(argv[5], NULL) : ZIPF_DEFAULT};
	if ((!loads && !trains) || t.zipf <= 0 || t.zipf == 1) {
		fprintf(stderr, "usage: %s LEDGER ROWS load | train SECONDS [EXPONENT]\n", argv[0]);
		return 2;
	}
	prng_seed(&t.prng, 1);
	t.rows = strtoull(argv[2], NULL, 10);
	check(job_parse(JOB, "zipf.yaml", NULL, 0, &t.job, &e), &e, "job");
	if (!(t.backend = backend_cpu_create(0, &e)))
		check(e.status, &e, "backend");
	check(model_create(&t.model, t.backend, t.job, &(struct model_data){.fields = FIELDS, .dense_dim = NUMBERS}, &e), &e,
	      "model");
	weir_options options = {.ledger = argv[1], .name = "zipf", .dataset_fingerprint = 1, .dataset_units = UNITS};
	check(weir_open(&t.client, &options, &e), &e, "open");
	const struct training_length length = {.workers = 1};
	check(tables_register(&t.tables, t.model, &length, t.client, &e), &e, "tables");
	if (loads)
		load(&t);
	else
		train(&t, strtod(argv[4], NULL));
	check(weir_close(t.client, &e), &e, "close");
	model_destroy(t.model);
	t.backend->ops->destroy(t.backend);
	job_destroy(t.job);
	return 0;
}
