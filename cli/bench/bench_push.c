/* weir bench push: goodput of gradients from one worker to one server process over loopback TCP,
 * compared with raw TCP, bare gRPC and memcpy.
 *
 * Applied (default): libweir pushes dense fp32 tables of each size to a weir-server, which checks
 * identities, logs and applies SGD. With --no-apply: the same frames to a process that reads them,
 * answers and keeps nothing, with and without the CRC check; then the cost of CRC, log and apply
 * alone. With --tls: only the applied pushes, in plain text and over TLS. */
#include <stdlib.h>
#include <string.h>

#include "cli/bench/bench_net.h"
#include "common/base/crc32c.h"
#include "kernels/optimizer.h"
#include "server/log/log.h"

enum { PUSH_SIZES = 5, PUSH_WINDOW_BYTES = 16 << 20, PUSH_WINDOW_MAX = 64, PUSH_COST_BYTES = 1 << 20, PUSH_LOG_ENTRIES = 20000 };
static const size_t sizes[PUSH_SIZES] = {64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20};

/* --- Through libweir, applied */

static weir_status push_all(struct bench_pushes *b, struct bench_flight *f, weir_error *err)
{
	weir_status status = WEIR_OK;
	for (size_t sent = 0; sent < b->total && status == WEIR_OK; sent += b->size) {
		weir_batch batch;
		weir_ticket ticket;
		weir_push_item item = {.table = b->table, .values = b->source + sent % BENCH_SOURCE_BYTES / sizeof(float)};
		status = scratch_server_batch(b->server, &batch, err);
		if (status == WEIR_OK)
			status = bench_flight_take(f, err);
		if (status != WEIR_OK)
			break;
		status = weir_push(b->server->client, &batch, &item, 1, NULL, bench_flight_done, f, &ticket, err);
		if (status != WEIR_OK)
			bench_flight_give(f);
	}
	return status;
}

double bench_pushes_run(void *arg, weir_error *err)
{
	struct bench_pushes *b = arg;
	struct bench_flight f;
	weir_error drained = {0};
	size_t window = PUSH_WINDOW_BYTES / b->size;
	bench_flight_init(&f, (uint32_t)(window < 2 ? 2 : window < PUSH_WINDOW_MAX ? window : PUSH_WINDOW_MAX));
	double cpu = bench_cpu_s(b->server), start = bench_now_s();
	weir_status status = push_all(b, &f, err);
	if (bench_flight_drain(&f, &drained) != WEIR_OK && status == WEIR_OK) {
		*err = drained;
		status = drained.status;
	}
	double elapsed = bench_now_s() - start;
	b->cpu_ms_per_gb = (bench_cpu_s(b->server) - cpu) / ((double)b->total / 1e12);
	bench_flight_destroy(&f);
	return status == WEIR_OK ? (double)b->total / elapsed : -1;
}

weir_status bench_pushes_open(struct bench_pushes *b, weir_error *err)
{
	weir_init_segment segment = {.elements = b->size / sizeof(float), .kind = WEIR_INIT_ZERO};
	weir_table_spec spec = {
	    .kind = WEIR_DENSE, .elements = b->size / sizeof(float), .segments_count = 1, .segments = &segment, .seed = 1};
	spec.optimizer = (weir_optimizer){.kind = WEIR_OPT_SGD, .lr = 1e-3f};
	snprintf(spec.name, sizeof spec.name, "push-%zu", b->size);
	return weir_table_register(b->server->client, &spec, &b->table, err);
}

static weir_status measure_applied(struct bench *bench, size_t total, float *source, struct raw_memcpy *copy, weir_error *err)
{
	struct scratch_server server = {0};
	struct bench_bare bare;
	struct bench_pushes pushes[PUSH_SIZES];
	/* must fork before threads start */
	weir_status status = bench_bare_start(&bare, source, BENCH_SOURCE_BYTES, total, err);
	if (status == WEIR_OK)
		status = scratch_server_start(&server, &BENCH_SERVER, err);
	uint32_t memory = bench_add(bench, "B/s", raw_memcpy_run, copy, BENCH_NO_LIMIT, 0, "memcpy of 64 MiB");
	uint32_t tcp = bench_add(bench, "B/s", raw_loopback_run, &total, memory, 0, "raw loopback TCP");
	for (unsigned i = 0; i < PUSH_SIZES && status == WEIR_OK; i++) {
		pushes[i] = (struct bench_pushes){.server = &server, .source = source, .size = sizes[i], .total = total};
		status = bench_pushes_open(&pushes[i], err);
		uint32_t floor = bench_bare_add(bench, &bare, BARE_REDUCE, sizes[i], tcp);
		uint32_t push =
		    bench_add(bench, "B/s", bench_pushes_run, &pushes[i], tcp, 0, "push %s, applied", bench_size_name(sizes[i]));
		bench_set_floor(bench, push, floor);
	}
	if (status == WEIR_OK)
		status = bench_run(bench, 5, err);
	scratch_server_stop(&server);
	bench_bare_stop(&bare);
	return status;
}

/* Measures the same pushes to two servers, in plain text and over TLS. */
static weir_status measure_tls(struct bench *bench, size_t total, float *source, weir_error *err)
{
	struct scratch_server servers[2] = {0};
	struct bench_pushes pushes[2][PUSH_SIZES];
	weir_status status = scratch_server_start(&servers[0], &BENCH_SERVER, err);
	if (status == WEIR_OK)
		status = scratch_server_start(&servers[1], &(struct scratch_options){.tls = true, .partitions = 16}, err);
	for (unsigned i = 0; i < PUSH_SIZES && status == WEIR_OK; i++) {
		uint32_t plain = BENCH_NO_LIMIT;
		for (unsigned k = 0; k < 2 && status == WEIR_OK; k++) {
			pushes[k][i] = (struct bench_pushes){.server = &servers[k], .source = source, .size = sizes[i], .total = total};
			status = bench_pushes_open(&pushes[k][i], err);
			plain = bench_add(bench, "B/s", bench_pushes_run, &pushes[k][i], plain, 0, "push %s, applied%s",
			                  bench_size_name(sizes[i]), k ? ", by TLS" : "");
		}
	}
	if (status == WEIR_OK)
		status = bench_run(bench, 5, err);
	scratch_server_stop(&servers[0]);
	scratch_server_stop(&servers[1]);
	return status;
}

/* --- Frames to a process that discards */

struct discard_bench {
	struct bench_pusher *pusher;
	size_t size, total;
};

static double run_discard(void *arg, weir_error *err)
{
	struct discard_bench *b = arg;
	/* A larger push travels in records of a message's size, as libweir splits it. */
	return bench_pusher_run(b->pusher, b->size < WEIR_MESSAGE_BYTES_TARGET ? b->size : WEIR_MESSAGE_BYTES_TARGET, b->total, err);
}

static weir_status measure_discarded(struct bench *bench, size_t total, float *source, struct raw_memcpy *copy, weir_error *err)
{
	struct bench_bare bare;
	struct bench_sink sinks[2] = {0};
	struct bench_pusher *pushers[2] = {NULL, NULL};
	struct discard_bench discards[2][PUSH_SIZES];
	static const char *const names[2] = {"", ", CRC unchecked"};
	uint32_t floors[PUSH_SIZES];
	/* all forks must precede threads */
	weir_status status = bench_bare_start(&bare, source, BENCH_SOURCE_BYTES, total, err);
	if (status == WEIR_OK)
		status = bench_sink_start(&sinks[0], bench_discard_checked, err);
	if (status == WEIR_OK)
		status = bench_sink_start(&sinks[1], bench_discard_unchecked, err);
	uint32_t memory = bench_add(bench, "B/s", raw_memcpy_run, copy, BENCH_NO_LIMIT, 0, "memcpy of 64 MiB");
	uint32_t tcp = bench_add(bench, "B/s", raw_loopback_run, &total, memory, 0, "raw loopback TCP");
	for (unsigned i = 0; i < PUSH_SIZES; i++)
		floors[i] = bench_bare_add(bench, &bare, BARE_DISCARD, sizes[i], tcp);
	for (unsigned k = 0; k < 2 && status == WEIR_OK; k++) {
		status = bench_pusher_open(&pushers[k], sinks[k].address, err);
		for (unsigned i = 0; i < PUSH_SIZES; i++) {
			discards[k][i] = (struct discard_bench){.pusher = pushers[k], .size = sizes[i], .total = total};
			uint32_t push = bench_add(bench, "B/s", run_discard, &discards[k][i], tcp, 0, "push %s, discarded%s",
			                          bench_size_name(sizes[i]), names[k]);
			bench_set_floor(bench, push, floors[i]);
		}
	}
	if (status == WEIR_OK)
		status = bench_run(bench, 5, err);
	for (unsigned k = 0; k < 2; k++) {
		bench_pusher_close(pushers[k]);
		bench_sink_stop(&sinks[k]);
	}
	bench_bare_stop(&bare);
	return status;
}

/* --- The single steps, each alone, on one thread */

struct cost_bench {
	uint8_t *bytes; /* (BENCH_SOURCE_BYTES) */
	struct optimizer *optimizer;
	float *values; /* (BENCH_SOURCE_BYTES / 4) */
};

static double run_crc(void *arg, weir_error *err)
{
	(void)err;
	struct cost_bench *b = arg;
	volatile uint32_t crc = 0;
	double start = bench_now_s();
	for (size_t at = 0; at < BENCH_SOURCE_BYTES; at += PUSH_COST_BYTES)
		crc = crc32c(crc, b->bytes + at, PUSH_COST_BYTES);
	return BENCH_SOURCE_BYTES / (bench_now_s() - start);
}

/* The log keeps a reference to the received message: its cost is per entry, whatever the size. */
static double run_log(void *arg, weir_error *err)
{
	(void)arg;
	struct log *log = log_memory_create();
	struct message *m = message_copy("", 1);
	weir_status status = log && m ? WEIR_OK : weir_fail(err, WEIR_E_MEMORY, "no memory for a log");
	double start = bench_now_s();
	for (uint64_t i = 1; i <= PUSH_LOG_ENTRIES && status == WEIR_OK; i++) {
		struct log_entry e = {.index = i, .committed = i, .message = m};
		status = log->ops->append(log, &e, err);
		log->ops->release_below(log, i);
	}
	double elapsed = bench_now_s() - start;
	message_release(m);
	if (log)
		log->ops->destroy(log);
	return status == WEIR_OK ? (double)PUSH_LOG_ENTRIES / elapsed : -1;
}

static double run_apply(void *arg, weir_error *err)
{
	(void)err;
	struct cost_bench *b = arg;
	struct optimizer_scalars scalars = {.lr = 1e-3f, .grad_scale = 1};
	double start = bench_now_s();
	for (size_t at = 0; at < BENCH_SOURCE_BYTES / sizeof(float); at += WEIR_CHUNK) {
		struct row_state state = {0};
		optimizer_begin_row(b->optimizer, &state);
		optimizer_apply(b->optimizer, &scalars, &state, b->values + at, NULL, WEIR_CHUNK, 0, (const float *)b->bytes + at,
		                WEIR_CHUNK);
	}
	return BENCH_SOURCE_BYTES / (bench_now_s() - start);
}

static weir_status measure_costs(struct bench *bench, float *source, struct raw_memcpy *copy, weir_error *err)
{
	weir_optimizer sgd = {.kind = WEIR_OPT_SGD, .lr = 1e-3f};
	struct cost_bench b = {
	    .bytes = (uint8_t *)source, .values = calloc(1, BENCH_SOURCE_BYTES), .optimizer = optimizer_create(&sgd, err)};
	weir_status status = b.values && b.optimizer ? WEIR_OK : weir_fail(err, WEIR_E_MEMORY, "no memory to measure costs");
	if (status == WEIR_OK) {
		bench_note(bench, "\nwhat each step costs alone, one thread, per byte pushed:");
		uint32_t memory = bench_add(bench, "B/s", raw_memcpy_run, copy, BENCH_NO_LIMIT, 0, "memcpy of 64 MiB");
		bench_add(bench, "B/s", run_crc, &b, memory, 0, "crc32c of 1 MiB");
		bench_add(bench, "entries/s", run_log, &b, BENCH_NO_LIMIT, 0, "append to the log in memory");
		bench_add(bench, "B/s", run_apply, &b, memory, 0, "apply (sgd), 256 KiB chunks");
		status = bench_run(bench, 5, err);
	}
	optimizer_destroy(b.optimizer);
	free(b.values);
	return status;
}

weir_status bench_push(struct bench *bench, weir_error *err)
{
	struct raw_memcpy copy = {0};
	size_t total = bench->quick ? (size_t)32 << 20 : (size_t)2 << 30;
	float *source = aligned_alloc(4096, BENCH_SOURCE_BYTES);
	weir_status status =
	    source ? raw_memcpy_init(&copy, BENCH_SOURCE_BYTES, err) : weir_fail(err, WEIR_E_MEMORY, "no memory for gradients");
	for (size_t i = 0; status == WEIR_OK && i < BENCH_SOURCE_BYTES / sizeof(float); i++)
		source[i] = (float)(i % 251) * 1e-4f;
	if (status == WEIR_OK && bench->tls)
		status = measure_tls(bench, total / 4, source, err);
	else if (status == WEIR_OK)
		status = bench->no_apply ? measure_discarded(bench, total, source, &copy, err)
		                         : measure_applied(bench, total, source, &copy, err);
	if (status == WEIR_OK && !bench->tls)
		status = measure_costs(bench, source, &copy, err);
	raw_memcpy_destroy(&copy);
	free(source);
	return status;
}
