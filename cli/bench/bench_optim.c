/* weir bench optim: the update rules on dense chunks, as elements per second and as memory traffic
 * compared with that of memcpy. A rule reads the gradient, and reads and writes the value and each
 * slot (4 + 8 * (1 + slots) bytes per element). memcpy reads and writes 8 bytes for every 4 that it
 * copies. The working set does not fit in a cache. */
#include <stdlib.h>
#include <string.h>

#include "cli/bench/bench.h"
#include "kernels/optimizer.h"

enum { OPTIM_CHUNKS = 256, OPTIM_CHUNKS_QUICK = 4 };

struct optim_bench {
	struct optimizer *optimizer;
	uint32_t slots;
	size_t chunks;
	float *rows;              /* (chunks, (1 + slots) * WEIR_CHUNK) */
	float *grads;             /* (chunks, WEIR_CHUNK) */
	struct row_state *states; /* (chunks) */
};

static double run_rule(void *arg, weir_error *err)
{
	(void)err;
	struct optim_bench *b = arg;
	struct optimizer_scalars scalars = {.lr = 1e-4f, .grad_scale = 1};
	size_t stride = (size_t)(1 + b->slots) * WEIR_CHUNK;
	double start = bench_now_s();
	for (size_t c = 0; c < b->chunks; c++) {
		float *value = b->rows + c * stride;
		optimizer_begin_row(b->optimizer, &b->states[c]);
		optimizer_apply(b->optimizer, &scalars, &b->states[c], value, value + WEIR_CHUNK, WEIR_CHUNK, 0,
		                b->grads + c * WEIR_CHUNK, WEIR_CHUNK);
	}
	return (double)(b->chunks * WEIR_CHUNK) / (bench_now_s() - start);
}

static weir_status prepare(struct optim_bench *b, weir_optimizer_kind kind, size_t chunks, const float *grads, weir_error *err)
{
	weir_optimizer spec = {
	    .kind = kind, .lr = 1e-3f, .momentum = 0.9f, .beta1 = 0.9f, .beta2 = 0.999f, .eps = 1e-8f, .ftrl_beta = 1, .window = 4};
	b->optimizer = optimizer_create(&spec, err);
	if (!b->optimizer)
		return err->status;
	b->slots = optimizer_slots(kind);
	b->chunks = chunks;
	b->rows = malloc(chunks * (1 + b->slots) * WEIR_CHUNK * sizeof(float));
	b->states = calloc(chunks, sizeof *b->states);
	b->grads = (float *)grads;
	if (!b->rows || !b->states)
		return weir_fail(err, WEIR_E_MEMORY, "no memory for %zu chunks", chunks);
	for (size_t c = 0; c < chunks; c++) {
		float *value = b->rows + c * (1 + b->slots) * WEIR_CHUNK;
		for (size_t i = 0; i < WEIR_CHUNK; i++)
			value[i] = 0.01f;
		optimizer_init_slots(&spec, value + WEIR_CHUNK, WEIR_CHUNK);
	}
	return WEIR_OK;
}

static void release(struct optim_bench *b)
{
	optimizer_destroy(b->optimizer);
	free(b->rows);
	free(b->states);
}

weir_status bench_optim(struct bench *bench, weir_error *err)
{
	static const struct {
		weir_optimizer_kind kind;
		const char *name;
	} rules[] = {
#define OPTIM_ROW(name, number, rule, slots, traits) {WEIR_OPT_##name, #rule},
	    WEIR_OPTIMIZER_MAP(OPTIM_ROW)
#undef OPTIM_ROW
	};
	enum { RULES = sizeof rules / sizeof *rules };
	struct optim_bench benches[RULES] = {0};
	struct raw_memcpy copy = {0};
	size_t chunks = bench->quick ? OPTIM_CHUNKS_QUICK : OPTIM_CHUNKS, elements = chunks * WEIR_CHUNK;
	float *grads = malloc(elements * sizeof *grads);
	weir_status status =
	    grads ? raw_memcpy_init(&copy, elements * sizeof(float), err) : weir_fail(err, WEIR_E_MEMORY, "no memory for gradients");
	for (size_t i = 0; status == WEIR_OK && i < elements; i++)
		grads[i] = (float)(i % 255) * 1e-4f - 0.0127f;
	uint32_t limit = status == WEIR_OK ? bench_add(bench, "B/s", raw_memcpy_run, &copy, BENCH_NO_LIMIT, 0, "memcpy of %zu MiB",
	                                               copy.bytes >> 20)
	                                   : 0;
	for (unsigned i = 0; i < RULES && status == WEIR_OK; i++) {
		status = prepare(&benches[i], rules[i].kind, chunks, grads, err);
		double bytes = 4.0 + 8.0 * (1 + benches[i].slots);
		bench_add(bench, "elements/s", run_rule, &benches[i], limit, bytes / 2, "%s", rules[i].name);
	}
	if (status == WEIR_OK) {
		bench_note(bench, "dense chunks of %u elements, %zu MiB of values, one thread; ratios compare memory traffic", WEIR_CHUNK,
		           elements >> 18);
		status = bench_run(bench, 5, err);
	}
	for (unsigned i = 0; i < RULES; i++)
		release(&benches[i]);
	raw_memcpy_destroy(&copy);
	free(grads);
	return status;
}
