/* The throughput of gRPC alone, measured in the same rounds as our protocol over gRPC. */
#include "cli/bench/bench_net.h"

weir_status bench_bare_start(struct bench_bare *b, void *memory, size_t memory_bytes, size_t total, weir_error *err)
{
	*b = (struct bench_bare){.memory = memory, .memory_bytes = memory_bytes, .total = total};
	return bench_sink_start(&b->sink, bare_serve, err);
}

void bench_bare_stop(struct bench_bare *b)
{
	bare_client_close(b->client);
	bench_sink_stop(&b->sink);
	*b = (struct bench_bare){0};
}

static double run_bare(void *arg, weir_error *err)
{
	const struct bare_subject *s = arg;
	struct bench_bare *b = s->bare;
	if (!b->client && bare_client_open(&b->client, b->sink.address, err) != WEIR_OK)
		return -1;
	double start = bench_now_s();
	if (bare_client_run(b->client, &s->order, b->memory, b->memory_bytes, err) != WEIR_OK)
		return -1;
	return (double)(s->order.messages * s->order.message_bytes) / (bench_now_s() - start);
}

uint32_t bench_bare_add(struct bench *bench, struct bench_bare *b, enum bare_work work, size_t size, uint32_t limit)
{
	static const char *const names[] = {[BARE_DISCARD] = "discarded", [BARE_REDUCE] = "added up", [BARE_COPY] = "copied"};
	size_t message = size < WEIR_MESSAGE_BYTES_TARGET ? size : WEIR_MESSAGE_BYTES_TARGET;
	struct bare_subject *s = &b->subjects[b->count++];
	*s = (struct bare_subject){
	    .bare = b, .order = {.work = work, .message_bytes = message, .messages = b->total / message, .table_bytes = size}};
	return bench_add(bench, "B/s", run_bare, s, limit, 0, "bare gRPC, %s, %s", bench_size_name(size), names[work]);
}

const char *bench_size_name(size_t bytes)
{
	static const struct {
		size_t bytes;
		const char *name;
	} known[] = {{64 << 10, "64 KiB"}, {256 << 10, "256 KiB"}, {1 << 20, "1 MiB"}, {4 << 20, "4 MiB"}, {16 << 20, "16 MiB"}};
	for (unsigned i = 0; i < sizeof known / sizeof *known; i++)
		if (known[i].bytes == bytes)
			return known[i].name;
	return "?";
}
