/* weir bench lane: what moving a byte costs, in time and in processors. Pushes that are applied and
 * pulls that are copied, 1 MiB each, over gRPC and over lanes, by TCP and by unix sockets, beside
 * what the kernel's techniques reach with the same frames and nothing else to do. */
#include <stdlib.h>

#include "cli/bench/bench_net.h"

enum { LANE_BYTES = 1 << 20, LANE_IN_FLIGHT = 8, WAYS = 4, TECHNIQUES = 5 };

static const struct {
	const char *name;
	struct scratch_options server;
	enum wire_technique raw; /* the technique that it uses */
} ways[WAYS] = {{"gRPC, TCP", {.partitions = 16, .no_lanes = true}, WIRE_TCP},
                {"lane, TCP", {.partitions = 16}, WIRE_TCP},
                {"gRPC, unix", {.partitions = 16, .no_lanes = true, .unix_socket = true}, WIRE_UNIX},
                {"lane, unix", {.partitions = 16, .unix_socket = true}, WIRE_UNIX}};
static const char *const techniques[TECHNIQUES] = {[WIRE_TCP] = "raw TCP, send",
                                                   [WIRE_TCP_SPLICE] = "raw TCP, vmsplice",
                                                   [WIRE_UNIX] = "raw unix socket, send",
                                                   [WIRE_UNIX_SPLICE] = "raw unix socket, vmsplice",
                                                   [WIRE_RING] = "raw shared memory"};

struct way {
	struct scratch_server server;
	struct bench_pushes pushes;
	struct bench_pulls pulls;
};

static double push_cpu(void *arg, weir_error *err)
{
	(void)err;
	return ((const struct bench_pushes *)arg)->cpu_ms_per_gb;
}

static double pull_cpu(void *arg, weir_error *err)
{
	(void)err;
	const struct bench_pulls *b = arg;
	return b->cpu_s / ((double)b->pulls * b->unit / 1e12);
}

static void add_with_cpu(struct bench *bench, double (*run)(void *, weir_error *), double (*cpu)(void *, weir_error *), void *arg,
                         uint32_t limit, const char *what, const char *way)
{
	bench_add(bench, "B/s", run, arg, limit, 0, "%s%s", what, way);
	bench_add(bench, "ms/GB", cpu, arg, BENCH_NO_LIMIT, 0, "its processor time, %s%s", what, way);
}

static weir_status open_way(struct way *w, unsigned i, size_t total, float *source, float *out, weir_error *err)
{
	weir_status status = scratch_server_start(&w->server, &ways[i].server, err);
	w->pushes = (struct bench_pushes){.server = &w->server, .source = source, .size = LANE_BYTES, .total = total};
	w->pulls = (struct bench_pulls){
	    .server = &w->server, .in_flight = LANE_IN_FLIGHT, .pulls = total / LANE_BYTES, .out = out, .unit = LANE_BYTES};
	if (status == WEIR_OK)
		status = bench_pushes_open(&w->pushes, err);
	return status == WEIR_OK ? bench_pulls_open(&w->pulls, LANE_BYTES, source, err) : status;
}

static weir_status measure(struct bench *bench, struct way w[WAYS], struct raw_memcpy *copy, weir_error *err)
{
	const size_t total = bench->quick ? (size_t)32 << 20 : (size_t)1 << 30;
	struct bench_wire wires[TECHNIQUES];
	uint32_t raw[TECHNIQUES];
	const uint32_t memory = bench_add(bench, "B/s", raw_memcpy_run, copy, BENCH_NO_LIMIT, 0, "memcpy of 64 MiB");
	for (unsigned i = 0; i < TECHNIQUES; i++) {
		wires[i] = (struct bench_wire){
		    .technique = (enum wire_technique)i, .bytes = total, .source = copy->from, .source_bytes = copy->bytes};
		raw[i] = bench->count;
		add_with_cpu(bench, bench_wire_run, bench_wire_cpu, &wires[i], memory, techniques[i], "");
	}
	for (unsigned i = 0; i < WAYS; i++) {
		if (open_way(&w[i], i, total, (float *)(void *)copy->from, (float *)(void *)copy->to, err) != WEIR_OK)
			return err->status;
		add_with_cpu(bench, bench_pushes_run, push_cpu, &w[i].pushes, raw[ways[i].raw], "push, ", ways[i].name);
		add_with_cpu(bench, bench_pulls_run, pull_cpu, &w[i].pulls, raw[ways[i].raw], "pull, ", ways[i].name);
	}
	return bench_run(bench, 5, err);
}

weir_status bench_lane(struct bench *bench, weir_error *err)
{
	struct raw_memcpy copy = {0};
	struct way w[WAYS] = {0};
	weir_status status = raw_memcpy_init(&copy, BENCH_SOURCE_BYTES, err);
	for (size_t i = 0; status == WEIR_OK && i < copy.bytes / sizeof(float); i++)
		((float *)(void *)copy.from)[i] = (float)(i % 251) * 1e-4f;
	if (status == WEIR_OK)
		status = measure(bench, w, &copy, err);
	for (unsigned i = 0; i < WAYS; i++)
		scratch_server_stop(&w[i].server);
	raw_memcpy_destroy(&copy);
	return status;
}
