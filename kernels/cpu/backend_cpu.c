/* The CPU backend: its creation and end, and the distribution of ranges over threads. */
#include <assert.h>
#include <sched.h>
#include <stdlib.h>

#include "kernels/cpu/cpu.h"

#define THREADS_MAX 256u

extern const struct cpu_variant cpu_variant_base;
#if defined(__x86_64__)
extern const struct cpu_variant cpu_variant_avx2, cpu_variant_avx512;
#endif

const struct cpu_variant *cpu_variant_at(unsigned i)
{
	const struct cpu_variant *all[] = {
		&cpu_variant_base,
#if defined(__x86_64__)
		&cpu_variant_avx2,
		&cpu_variant_avx512,
#endif
	};
	return !vector_ops_variant(i) ? NULL : all[i];
}

static uint32_t cores(void)
{
	cpu_set_t set;
	int count = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
	return count < 1 ? 1 : (uint32_t)count;
}

struct backend *backend_cpu_create_with(const struct cpu_variant *variant, uint32_t threads, weir_error *err)
{
	threads = threads == 0 ? cores() : threads;
	threads = threads > THREADS_MAX ? THREADS_MAX : threads;
	struct cpu_backend *c = calloc(1, sizeof *c);
	if (!c)
		goto failed;
	c->base.ops = &variant->ops;
	c->variant = variant;
	c->pool = pool_create(threads);
	c->scratch = cpu_aligned_bytes(CPU_LINE_BYTES, threads * CPU_SCRATCH_BYTES);
	if (!c->pool || !c->scratch)
		goto failed;
	return &c->base;
failed:
	if (c)
		cpu_destroy(&c->base);
	weir_fail(err, WEIR_E_MEMORY, "CPU backend: no memory for %u threads", threads);
	return NULL;
}

struct backend *backend_cpu_create(uint32_t threads, weir_error *err)
{
	unsigned best = 0;
	while (cpu_variant_at(best + 1))
		best++;
	return backend_cpu_create_with(cpu_variant_at(best), threads, err);
}

void cpu_destroy(struct backend *b)
{
	struct cpu_backend *c = cpu_of(b);
	pool_destroy(c->pool);
	free(c->scratch);
	unique_destroy(&c->table);
	free(c);
}

size_t cpu_unique(struct backend *b, const uint64_t *keys, size_t n, uint64_t *unique_keys, uint32_t *index)
{
	return unique_of(&cpu_of(b)->table, keys, n, unique_keys, index);
}

struct spread {
	cpu_range_fn fn;
	void *args;
	size_t count;
	uint32_t parts;
};

static void spread_part(void *arg, uint32_t part)
{
	const struct spread *s = arg;
	s->fn(s->args, s->count * part / s->parts, s->count * (part + 1) / s->parts);
}

void cpu_parallel(struct backend *b, size_t count, size_t grain, cpu_range_fn fn, void *args)
{
	struct pool *pool = cpu_of(b)->pool;
	const size_t useful = count / grain;
	const uint32_t parts = useful < pool_threads(pool) ? (uint32_t)useful : pool_threads(pool);
	if (parts <= 1) {
		if (count > 0)
			fn(args, 0, count);
		return;
	}
	struct spread s = {.fn = fn, .args = args, .count = count, .parts = parts};
	pool_run(pool, parts, spread_part, &s);
}
