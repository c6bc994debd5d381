/* weir bench pull: weights from one weir-server process into the caller's memory over loopback TCP,
 * compared with raw TCP, bare gRPC and memcpy. It measures dense tables of each size, single rows
 * of 256 bytes with 32 in flight, and batches of 4,096 rows of dim 16; also per second of processor
 * time of both processes together. */
#include <stdlib.h>
#include <string.h>

#include "cli/bench/bench_net.h"
#include "common/base/prng.h"

enum {
	PULL_SIZES = 5,
	PULL_SIZE_MAX = 16 << 20,
	PULL_WINDOW_BYTES = 16 << 20,
	PULL_WINDOW_MAX = 16,
	PULL_SMALL_WIDTH = 64, /* 256 bytes */
	PULL_SMALL_IN_FLIGHT = 32,
	PULL_BATCH_ROWS = 4096,
	PULL_BATCH_DIM = 16,
	PULL_BATCH_IN_FLIGHT = 4
};
static const size_t sizes[PULL_SIZES] = {64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20};

static weir_status pull_all(struct bench_pulls *b, struct bench_flight *f, weir_error *err)
{
	weir_status status = WEIR_OK;
	for (uint64_t i = 0; i < b->pulls && status == WEIR_OK; i++) {
		weir_ticket ticket;
		weir_pull_item item = {.table = b->table, .values = b->out + i % b->in_flight * b->elements};
		if (b->rows > 0) {
			item.keys = b->keys + i * b->rows % BENCH_KEYS;
			item.rows = b->rows;
		}
		status = bench_flight_take(f, err);
		if (status != WEIR_OK)
			break;
		status = weir_pull(b->server->client, NULL, &item, 1, bench_flight_done, f, &ticket, err);
		if (status != WEIR_OK)
			bench_flight_give(f);
	}
	return status;
}

double bench_pulls_run(void *arg, weir_error *err)
{
	struct bench_pulls *b = arg;
	struct bench_flight f;
	weir_error drained = {0};
	bench_flight_init(&f, b->in_flight);
	double cpu = bench_cpu_s(b->server), start = bench_now_s();
	weir_status status = pull_all(b, &f, err);
	if (bench_flight_drain(&f, &drained) != WEIR_OK && status == WEIR_OK) {
		*err = drained;
		status = drained.status;
	}
	double elapsed = bench_now_s() - start;
	b->cpu_s = bench_cpu_s(b->server) - cpu;
	b->count_per_cpu_s = b->cpu_s > 0 ? (double)b->pulls * b->unit / b->cpu_s : 0;
	bench_flight_destroy(&f);
	return status == WEIR_OK ? (double)b->pulls * b->unit / elapsed : -1;
}

/* Returns the preceding measurement per core: this subject follows its wall-clock twin in the
 * list. */
static double run_per_core(void *arg, weir_error *err)
{
	(void)err;
	return ((struct bench_pulls *)arg)->count_per_cpu_s;
}

/* --- Filled tables */

weir_status bench_pulls_open(struct bench_pulls *b, size_t bytes, float *values, weir_error *err)
{
	b->elements = bytes / sizeof(float);
	weir_init_segment segment = {.elements = b->elements, .kind = WEIR_INIT_ZERO};
	weir_table_spec spec = {.kind = WEIR_DENSE, .elements = b->elements, .segments_count = 1, .segments = &segment, .seed = 1};
	spec.optimizer = (weir_optimizer){.kind = WEIR_OPT_SGD, .lr = 1e-3f};
	snprintf(spec.name, sizeof spec.name, "pull-%zu", bytes);
	weir_status status = weir_table_register(b->server->client, &spec, &b->table, err);
	return status == WEIR_OK ? weir_assign(b->server->client, b->table, NULL, 0, values, err) : status;
}

static weir_status make_rows(struct bench_pulls *b, uint32_t width, float *values, weir_error *err)
{
	weir_init_segment segment = {.elements = width, .kind = WEIR_INIT_NORMAL, .a = 0.01f};
	weir_table_spec spec = {.kind = WEIR_EMBEDDING, .width = width, .segments_count = 1, .segments = &segment, .seed = 1};
	spec.optimizer = (weir_optimizer){.kind = WEIR_OPT_ADAGRAD, .lr = 1e-3f, .eps = 1e-8f};
	snprintf(spec.name, sizeof spec.name, "pull-rows-%u", width);
	weir_status status = weir_table_register(b->server->client, &spec, &b->table, err);
	for (size_t i = 0; i < BENCH_KEYS && status == WEIR_OK; i += PULL_BATCH_ROWS)
		status = weir_assign(b->server->client, b->table, b->keys + i, PULL_BATCH_ROWS, values, err);
	return status;
}

static void add_dense(struct bench *bench, struct bench_bare *bare, struct bench_pulls *b, unsigned i, uint64_t total,
                      uint32_t limit)
{
	size_t window = PULL_WINDOW_BYTES / sizes[i];
	b->in_flight = (uint32_t)(window < PULL_WINDOW_MAX ? window : PULL_WINDOW_MAX);
	b->pulls = total / sizes[i];
	b->unit = (double)sizes[i];
	uint32_t floor = bench_bare_add(bench, bare, BARE_COPY, sizes[i], limit);
	uint32_t pull = bench_add(bench, "B/s", bench_pulls_run, b, limit, 0, "pull %s", bench_size_name(sizes[i]));
	bench_set_floor(bench, pull, floor);
}

static weir_status add_all(struct bench *bench, struct bench_bare *bare, struct bench_pulls pulls[PULL_SIZES + 2], size_t *total,
                           struct raw_memcpy *copy, weir_error *err)
{
	weir_status status = WEIR_OK;
	float *values = (float *)copy->from;
	uint32_t memory = bench_add(bench, "B/s", raw_memcpy_run, copy, BENCH_NO_LIMIT, 0, "memcpy of 64 MiB");
	uint32_t tcp = bench_add(bench, "B/s", raw_loopback_run, total, memory, 0, "raw loopback TCP");
	for (unsigned i = 0; i < PULL_SIZES && status == WEIR_OK; i++) {
		status = bench_pulls_open(&pulls[i], sizes[i], values, err);
		add_dense(bench, bare, &pulls[i], i, *total, tcp);
	}
	struct bench_pulls *small = &pulls[PULL_SIZES], *batch = &pulls[PULL_SIZES + 1];
	*small = (struct bench_pulls){.server = pulls->server,
	                              .keys = pulls->keys,
	                              .out = pulls->out,
	                              .in_flight = PULL_SMALL_IN_FLIGHT,
	                              .pulls = bench->quick ? 2000 : 200000,
	                              .rows = 1,
	                              .elements = PULL_SMALL_WIDTH,
	                              .unit = 1};
	*batch = (struct bench_pulls){.server = pulls->server,
	                              .keys = pulls->keys,
	                              .out = pulls->out,
	                              .in_flight = PULL_BATCH_IN_FLIGHT,
	                              .pulls = bench->quick ? 50 : 2000,
	                              .rows = PULL_BATCH_ROWS,
	                              .elements = PULL_BATCH_ROWS * PULL_BATCH_DIM,
	                              .unit = PULL_BATCH_ROWS};
	if (status == WEIR_OK)
		status = make_rows(small, PULL_SMALL_WIDTH, values, err);
	if (status == WEIR_OK)
		status = make_rows(batch, PULL_BATCH_DIM, values, err);
	bench_add(bench, "pulls/s", bench_pulls_run, small, tcp, PULL_SMALL_WIDTH * sizeof(float), "pull 256 B, %d in flight",
	          PULL_SMALL_IN_FLIGHT);
	bench_add(bench, "rows/s", bench_pulls_run, batch, tcp, PULL_BATCH_DIM * sizeof(float), "pull %d rows of dim %d",
	          PULL_BATCH_ROWS, PULL_BATCH_DIM);
	bench_add(bench, "rows/s", run_per_core, batch, BENCH_NO_LIMIT, 0, "the same per core used");
	return status;
}

weir_status bench_pull(struct bench *bench, weir_error *err)
{
	struct scratch_server server = {0};
	struct bench_bare bare;
	struct raw_memcpy copy = {0};
	struct bench_pulls pulls[PULL_SIZES + 2];
	size_t total = bench->quick ? (size_t)32 << 20 : (size_t)2 << 30;
	struct prng r;
	uint64_t *keys = malloc(BENCH_KEYS * sizeof *keys);
	float *out = aligned_alloc(4096, PULL_WINDOW_BYTES > PULL_SIZE_MAX ? PULL_WINDOW_BYTES : PULL_SIZE_MAX);
	weir_status status =
	    keys && out ? raw_memcpy_init(&copy, 64 << 20, err) : weir_fail(err, WEIR_E_MEMORY, "no memory for the benchmark");
	if (status == WEIR_OK) {
		memset(copy.from, 0, copy.bytes);
		prng_seed(&r, 1);
		for (size_t i = 0; i < BENCH_KEYS; i++)
			keys[i] = prng_u64(&r);
		/* must fork before threads start */
		status = bench_bare_start(&bare, out, PULL_WINDOW_BYTES, total, err);
		if (status == WEIR_OK)
			status = scratch_server_start(&server, &BENCH_SERVER, err);
		for (unsigned i = 0; i < PULL_SIZES; i++)
			pulls[i] = (struct bench_pulls){.server = &server, .keys = keys, .out = out};
		if (status == WEIR_OK)
			status = add_all(bench, &bare, pulls, &total, &copy, err);
		if (status == WEIR_OK)
			status = bench_run(bench, 5, err);
		scratch_server_stop(&server);
		bench_bare_stop(&bare);
	}
	raw_memcpy_destroy(&copy);
	free(out);
	free(keys);
	return status;
}
