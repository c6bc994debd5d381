/* bench_kernels [threads | codecs]: speeds of the kernels, relative to memcpy and sgemm in the same
 * run. Optimizers, codecs and initial values run on one thread, as in a server's executor. sgemm
 * and the backend's ops run on `threads` (default: all). `codecs`: only the codecs, which takes a
 * gigabyte of memory. */
#include "tests/bench/kernels/bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/prng.h"
#include "kernels/codec.h"
#include "kernels/cpu/cpu.h"
#include "kernels/init.h"
#include "kernels/optimizer.h"

#define RUNS          5
#define RUN_SECONDS   0.03
#define LARGE         ((size_t)16 << 20) /* elements: 64 MiB */
#define TABLE_ROWS    ((size_t)1 << 20)
#define ROWS_PER_PUSH 4096

double bench_seconds(bench_fn fn, void *arg)
{
	double runs[RUNS];
	fn(arg);
	for (int r = 0; r < RUNS; r++) {
		int64_t start = clock_ns(clock_system()), now;
		unsigned calls = 0;
		do {
			fn(arg);
			calls++;
			now = clock_ns(clock_system());
		} while ((double)(now - start) < RUN_SECONDS * 1e9);
		double each = (double)(now - start) * 1e-9 / calls;
		int at = r;
		for (; at > 0 && runs[at - 1] > each; at--)
			runs[at] = runs[at - 1];
		runs[at] = each;
	}
	return runs[RUNS / 2];
}

void bench_print(const char *what, double amount, const char *unit, double ratio, const char *limit)
{
	printf("%-44s %10.2f %-14s", what, amount, unit);
	if (limit != NULL)
		printf(" %6.2f of %s", ratio, limit);
	printf("\n");
	fflush(stdout);
}

void *bench_alloc(size_t bytes)
{
	void *p = aligned_alloc(64, (bytes + 63) / 64 * 64);
	if (p == NULL) {
		fprintf(stderr, "bench_kernels: no memory for %zu bytes\n", bytes);
		exit(1);
	}
	return memset(p, 0, bytes);
}

float *bench_floats(size_t n, uint64_t seed)
{
	float *x = bench_alloc(n * sizeof *x);
	const weir_init_segment uniform = {.elements = n, .kind = WEIR_INIT_UNIFORM, .a = 1};
	init_dense(seed, 0, &uniform, 1, 0, x, n);
	return x;
}

/* --- Limits */

struct copy {
	void *to, *from;
	size_t bytes;
};

static void copy_once(void *arg)
{
	struct copy *c = arg;
	memcpy(c->to, c->from, c->bytes);
	__asm__ volatile("" ::"r"(c->to) : "memory");
}

struct gemm {
	struct backend *b;
	__typeof__(cpu_gemm) *op;
	size_t m, n, k;
	float *A, *B, *C;
};

static void gemm_once(void *arg)
{
	struct gemm *g = arg;
	g->op(g->b, false, false, g->m, g->n, g->k, 1, g->A, g->k, g->B, g->n, 0, g->C, g->n);
}

static double gemm_speed(struct backend *b, __typeof__(cpu_gemm) *op, size_t m, size_t n, size_t k)
{
	struct gemm g = {b, op, m, n, k, bench_floats(m * k, 1), bench_floats(k * n, 2), bench_floats(m * n, 3)};
	double seconds = bench_seconds(gemm_once, &g);
	free(g.A);
	free(g.B);
	free(g.C);
	return 2.0 * (double)m * (double)n * (double)k / seconds;
}

static double copy_speed(void)
{
	struct copy c = {.to = bench_alloc(LARGE * 4), .from = bench_alloc(LARGE * 4), .bytes = LARGE * 4};
	double speed = (double)c.bytes / bench_seconds(copy_once, &c);
	bench_print("memcpy 64 MiB, one thread", speed / 1e9, "GB/s", 0, NULL);
	free(c.to);
	free(c.from);
	return speed;
}

static struct limits_measured bench_limits(uint32_t threads)
{
	struct limits_measured limits = {.copy_bytes_per_s = copy_speed()};
	static const size_t shapes[][3] = {{2048, 2048, 2048}, {4096, 400, 624}, {4096, 400, 400}, {400, 624, 4096}, {4096, 1, 400}};
	struct backend *b = backend_cpu_create(threads, NULL);
	for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
		char what[64];
		double speed = gemm_speed(b, cpu_gemm, shapes[s][0], shapes[s][1], shapes[s][2]);
		double own = gemm_speed(b, cpu_gemm_own, shapes[s][0], shapes[s][1], shapes[s][2]);
		if (s == 0)
			limits.gemm_flops_per_s = speed > own ? speed : own;
		snprintf(what, sizeof what, "sgemm %s %zux%zux%zu", gemm_library_name(), shapes[s][0], shapes[s][1], shapes[s][2]);
		bench_print(what, speed / 1e9, "GF/s", speed / limits.gemm_flops_per_s, "best sgemm");
		snprintf(what, sizeof what, "sgemm own kernel %zux%zux%zu", shapes[s][0], shapes[s][1], shapes[s][2]);
		bench_print(what, own / 1e9, "GF/s", own / limits.gemm_flops_per_s, "best sgemm");
	}
	b->ops->destroy(b);
	return limits;
}

/* --- The scan for NaN, and initial values */

struct flat {
	float *x;
	size_t n;
	weir_init_segment segment;
	bool finite;
};

static void finite_once(void *arg)
{
	struct flat *f = arg;
	f->finite = codec_all_finite(f->x, f->n);
}

static void init_once(void *arg)
{
	struct flat *f = arg;
	init_dense(1, 1, &f->segment, 1, 0, f->x, f->n);
}

static void bench_flat(const struct limits_measured *limits)
{
	struct flat f = {.x = bench_floats(LARGE, 5), .n = LARGE};
	const double copied = limits->copy_bytes_per_s;
	double speed = (double)LARGE * 4 / bench_seconds(finite_once, &f);
	bench_print("search for NaN, from memory", speed / 1e9, "GB/s", speed / copied, "memcpy");
	f.n = WEIR_CHUNK;
	speed = (double)f.n * 4 / bench_seconds(finite_once, &f);
	bench_print("search for NaN, from cache", speed / 1e9, "GB/s", speed / copied, "memcpy");
	f.segment = (weir_init_segment){.elements = LARGE, .kind = WEIR_INIT_UNIFORM, .a = 1};
	bench_print("initial values, uniform", (double)f.n / bench_seconds(init_once, &f) / 1e6, "M elements/s", 0, NULL);
	f.segment.kind = WEIR_INIT_NORMAL;
	bench_print("initial values, normal", (double)f.n / bench_seconds(init_once, &f) / 1e6, "M elements/s", 0, NULL);
	free(f.x);
}

/* --- Optimizers */

struct dense {
	struct optimizer *o;
	struct row_state state;
	float *value, *slots, *grad;
	size_t n;
};

static const struct optimizer_scalars scalars = {.lr = 1e-3f, .grad_scale = 1};

static void dense_once(void *arg)
{
	struct dense *d = arg;
	optimizer_begin_row(d->o, &d->state);
	optimizer_apply(d->o, &scalars, &d->state, d->value, d->slots, d->n, 0, d->grad, d->n);
}

static weir_optimizer spec_of(weir_optimizer_kind kind)
{
	return (weir_optimizer){
	    .kind = kind, .lr = 1e-3f, .momentum = 0.9f, .beta1 = 0.9f, .beta2 = 0.999f, .eps = 1e-8f, .ftrl_beta = 1, .window = 4};
}

static void bench_dense(const struct limits_measured *limits)
{
	static const struct {
		const char *name;
		weir_optimizer_kind kind;
	} rules[] = {
#define RULE_ENTRY(id, number, rule, slots, traits) {#rule, WEIR_OPT_##id},
	    WEIR_OPTIMIZER_MAP(RULE_ENTRY)
#undef RULE_ENTRY
	};
	struct dense d = {
	    .value = bench_floats(LARGE, 6), .slots = bench_alloc(LARGE * 8), .grad = bench_floats(LARGE, 7), .n = LARGE};
	for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
		const weir_optimizer spec = spec_of(rules[i].kind);
		d.o = optimizer_create(&spec, NULL);
		d.state = (struct row_state){0};
		memset(d.slots, 0, LARGE * 8);
		char what[64];
		snprintf(what, sizeof what, "dense %s, from memory", rules[i].name);
		double speed = (double)LARGE / bench_seconds(dense_once, &d);
		/* Reads the gradient; reads and writes the value and the slots. */
		double bytes = 4 * (3 + 2 * optimizer_slots(spec.kind));
		bench_print(what, speed / 1e9, "G elements/s", speed * bytes / (2 * limits->copy_bytes_per_s), "memcpy's traffic");
		optimizer_destroy(d.o);
	}
	free(d.value);
	free(d.slots);
	free(d.grad);
}

struct sparse {
	struct optimizer *o;
	float *table, *grads;
	struct row_state *table_states;
	float *rows[ROWS_PER_PUSH];
	struct row_state *states[ROWS_PER_PUSH];
	size_t width, stride;
	struct prng rng;
};

static void sparse_once(void *arg)
{
	struct sparse *s = arg;
	for (size_t i = 0; i < ROWS_PER_PUSH; i++) {
		size_t row = prng_below(&s->rng, TABLE_ROWS);
		s->rows[i] = s->table + row * s->stride;
		s->states[i] = &s->table_states[row];
	}
	optimizer_apply_rows(s->o, &scalars, s->states, s->rows, s->width, s->grads, ROWS_PER_PUSH);
}

static void bench_sparse(void)
{
	static const weir_optimizer_kind kinds[] = {WEIR_OPT_SGD, WEIR_OPT_ADAGRAD, WEIR_OPT_ADAM};
	static const char *const names[] = {"sgd", "adagrad", "adam"};
	static const size_t widths[] = {1, 16, 17, 64};
	struct sparse s = {.table_states = bench_alloc(TABLE_ROWS * sizeof(struct row_state)),
	                   .grads = bench_floats(ROWS_PER_PUSH * 64, 8)};
	prng_seed(&s.rng, 1);
	for (size_t k = 0; k < 3; k++)
		for (size_t w = 0; w < 4; w++) {
			const weir_optimizer spec = spec_of(kinds[k]);
			s.width = widths[w];
			s.stride = s.width * (1 + optimizer_slots(kinds[k]));
			s.table = bench_alloc(TABLE_ROWS * s.stride * sizeof(float));
			s.o = optimizer_create(&spec, NULL);
			char what[64];
			snprintf(what, sizeof what, "sparse %s, width %zu, 1 M random rows", names[k], s.width);
			bench_print(what, ROWS_PER_PUSH / bench_seconds(sparse_once, &s) / 1e6, "M rows/s", 0, NULL);
			optimizer_destroy(s.o);
			free(s.table);
		}
	free(s.grads);
	free(s.table_states);
}

int main(int argc, char **argv)
{
	if (argc > 1 && strcmp(argv[1], "codecs") == 0) {
		bench_codecs(&(struct limits_measured){.copy_bytes_per_s = copy_speed()});
		return 0;
	}
	const uint32_t threads = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 0;
	printf("kernels: %s; sgemm: %s\n", vector_ops_best()->name, gemm_library_name());
	const struct limits_measured limits = bench_limits(threads);
	bench_codecs(&limits);
	bench_flat(&limits);
	bench_dense(&limits);
	bench_sparse();
	bench_ops(threads, &limits);
	return 0;
}
