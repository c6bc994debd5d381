/* bench_topk [--check]: top-k of 64 Mi elements on one core, and int8 of all of them, in every
 * variant, relative to limits measured in the same run. --check: the exit status tells whether the
 * best variant meets the targets. Each measurement alternates with its limit, RUNS times. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "common/base/prng.h"
#include "kernels/codec.h"
#include "kernels/topk.h"
#include "kernels/vector.h"
#include "tests/bench/kernels/bench_select.h"
#include "tests/bench/median.h"

#define ELEMENTS  ((size_t)64 << 20)
#define HUGE_PAGE ((size_t)2 << 20)
#define RUNS      5
#define ONE_IN    100 /* one element of 100 is sent */
/* Per element: gradient and residual read, residual written; codes come on top. */
#define PASS_BYTES    12.0
#define TILE_ROOM     (2 * CODEC_TILE) /* bytes, for any number of elements sent */
#define TOPK_TARGET   0.6
#define INT8_TARGET   0.5
#define APPLY_TARGET  5e9
#define SELECT_TARGET 5

struct bench {
	float *grad, *residual, *pristine; /* pristine: the initial residual */
	uint8_t *records;
	size_t *starts; /* of the records */
	size_t tiles;
	float threshold;
};

/* CPU time of this thread, so that other processes cost memory bandwidth but no time. */
static double now_s(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* In huge pages, as the server's rows. */
static void *allocate(size_t bytes)
{
	const size_t size = (bytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
	void *p = aligned_alloc(HUGE_PAGE, size);
	if (p == NULL) {
		fprintf(stderr, "bench_topk: no memory for %zu bytes\n", bytes);
		exit(1);
	}
	madvise(p, size, MADV_HUGEPAGE); /* optional: only speed depends on it */
	return memset(p, 0, bytes);
}

/* Copies normal numbers from a pool at another offset for each tile: generating all would take
 * long. */
static void fill(float *x, size_t n, uint64_t seed)
{
	enum { POOL = 1 << 20 };
	static float pool[POOL + CODEC_TILE];
	struct prng r;
	prng_seed(&r, seed);
	for (size_t i = 0; i < POOL + CODEC_TILE; i++)
		pool[i] = prng_normal(&r);
	for (size_t at = 0; at < n; at += CODEC_TILE)
		memcpy(x + at, pool + prng_below(&r, POOL), (n - at < CODEC_TILE ? n - at : CODEC_TILE) * sizeof *x);
}

/* --- Encoding against a copy */

/* STREAM's copy (McCalpin 1995): a tile at a time with ordinary stores, or all at once, where the C
 * library may bypass the caches. Returns bytes read and written per second. */
static double copy_speed(const float *from, float *to, size_t piece)
{
	const double start = now_s();
	for (size_t at = 0; at < ELEMENTS; at += piece)
		memcpy(to + at, from + at, piece * sizeof *to);
	__asm__ volatile("" ::"r"(to) : "memory");
	return 2.0 * sizeof *to * (double)ELEMENTS / (now_s() - start);
}

/* Returns the number of bytes sent. */
typedef size_t (*encode_fn)(struct bench *b, const struct vector_ops *ops, weir_values values, uint64_t *selected);

static size_t encode_topk(struct bench *b, const struct vector_ops *ops, weir_values values, uint64_t *selected)
{
	size_t bytes = 0;
	*selected = 0;
	for (size_t t = 0; t < b->tiles; t++) {
		uint32_t reach;
		b->starts[t] = bytes;
		bytes += topk_encode_with(ops, b->grad + t * CODEC_TILE, b->residual + t * CODEC_TILE, NULL, CODEC_TILE, b->threshold,
		                          values, b->records + bytes, &reach);
		*selected += reach;
	}
	return bytes;
}

static size_t encode_int8(struct bench *b, const struct vector_ops *ops, weir_values values, uint64_t *selected)
{
	static const struct coding coding = {.codec = WEIR_CODEC_INT8};
	const size_t row = codec_bytes(coding.codec, CODEC_TILE);
	(void)values;
	for (size_t t = 0; t < b->tiles; t++)
		codec_encode_with(ops, &coding, b->grad + t * CODEC_TILE, b->residual + t * CODEC_TILE, CODEC_TILE, b->records + t * row);
	*selected = ELEMENTS;
	return b->tiles * row;
}

static double bench_encode(struct bench *b, encode_fn encode_all, const struct vector_ops *ops, weir_values values,
                           const char *name)
{
	double encode[RUNS], copy[RUNS], plain[RUNS];
	uint64_t selected = 0;
	size_t bytes = 0;
	for (int r = 0; r < RUNS; r++) {
		plain[r] = copy_speed(b->pristine, b->residual, CODEC_TILE);
		copy[r] = copy_speed(b->pristine, b->residual, ELEMENTS);
		const double start = now_s();
		bytes = encode_all(b, ops, values, &selected);
		encode[r] = (PASS_BYTES * (double)ELEMENTS + (double)bytes) / (now_s() - start);
	}
	const double speed = median(encode, RUNS), stored = median(plain, RUNS), whole = median(copy, RUNS);
	const double limit = stored > whole ? stored : whole;
	printf("encode %s, %-6s %7.2f GB/s, %6.2f G elements/s, %4.2f of a copy (%.2f as a whole, %.2f by tiles); ", name, ops->name,
	       speed / 1e9, speed / (PASS_BYTES + (double)bytes / (double)ELEMENTS) / 1e9, speed / limit, whole / 1e9, stored / 1e9);
	printf("%.2f %% sent, %.2f bits each\n", 100 * (double)selected / (double)ELEMENTS, 8 * (double)bytes / (double)selected);
	fflush(stdout);
	return speed / limit;
}

/* --- Decoding and SGD */

static double bench_apply(struct bench *b, weir_optimizer_kind kind, const char *rule, weir_values values, const char *name)
{
	const weir_optimizer spec = {.kind = kind, .lr = 1e-3f, .beta1 = 0.9f, .beta2 = 0.999f, .eps = 1e-8f, .momentum = 0.9f};
	const struct optimizer_scalars scalars = {.lr = 1e-3f, .grad_scale = 1};
	struct optimizer *o = optimizer_create(&spec, NULL);
	struct row_state state = {0};
	float *slots = allocate(ELEMENTS * optimizer_slots(kind) * sizeof *slots + 64);
	double apply[RUNS];
	uint64_t selected;
	memcpy(b->residual, b->pristine, ELEMENTS * sizeof *b->residual);
	encode_topk(b, vector_ops_best(), values, &selected);
	for (int r = 0; r < RUNS; r++) {
		const double start = now_s();
		optimizer_begin_row(o, &state);
		for (size_t t = 0; t < b->tiles; t++) {
			uint16_t offsets[TOPK_TILE_COUNT_MAX];
			float sent[TOPK_TILE_COUNT_MAX];
			const size_t count = topk_decode(b->records + b->starts[t], CODEC_TILE, values, offsets, sent);
			optimizer_apply_sparse(o, &scalars, &state, b->pristine, slots, ELEMENTS, t * CODEC_TILE, offsets, sent, count);
		}
		apply[r] = (double)ELEMENTS / (now_s() - start);
	}
	const double speed = median(apply, RUNS);
	printf("decode and %s of 1 %%, %s %7.2f G elements/s of the table, %.1f M of the record\n", rule, name, speed / 1e9,
	       speed * (double)selected / (double)ELEMENTS / 1e6);
	fflush(stdout);
	optimizer_destroy(o);
	free(slots);
	return speed;
}

/* --- The exact threshold */

typedef float (*select_fn)(float *x, size_t n, size_t k);

static double bench_library(const float *from, float *scratch, select_fn select, size_t k, float *result)
{
	double runs[RUNS];
	for (int r = 0; r < RUNS; r++) {
		for (size_t i = 0; i < ELEMENTS; i++)
			scratch[i] = fabsf(from[i]);
		const double start = now_s();
		*result = select(scratch, ELEMENTS, k);
		runs[r] = now_s() - start;
	}
	return median(runs, RUNS);
}

static double bench_threshold(const float *x, float *scratch)
{
	const size_t k = ELEMENTS / ONE_IN;
	float want = 0, got = 0, library = 0;
	const double quick = bench_library(x, scratch, quick_select, k, &want);
	double limit = quick, ratio = 0;
	printf("k-th of 64 Mi by quickselect: %.1f ms\n", quick * 1e3);
#if defined(HAS_NTH_ELEMENT)
	const double nth = bench_library(x, scratch, nth_element_select, k, &library);
	printf("k-th of 64 Mi by std::nth_element: %.1f ms\n", nth * 1e3);
	limit = nth < quick ? nth : quick;
#else
	library = want;
#endif
	for (unsigned v = 0; vector_ops_variant(v) != NULL; v++) {
		double runs[RUNS];
		weir_error err = {0};
		for (int r = 0; r < RUNS; r++) {
			const double start = now_s();
			if (topk_threshold_with(vector_ops_variant(v), x, ELEMENTS, k, &got, &err) != WEIR_OK)
				exit(1);
			runs[r] = now_s() - start;
		}
		const double mine = median(runs, RUNS);
		ratio = limit / mine;
		printf("k-th of 64 Mi exactly, %-6s %.1f ms, %.1f times as fast\n", vector_ops_variant(v)->name, mine * 1e3, ratio);
		if (got != want || got != library) {
			printf("not the same magnitude: %a, %a, %a\n", (double)got, (double)want, (double)library);
			exit(1);
		}
	}
	fflush(stdout);
	return ratio;
}

static bool holds(const char *what, double got, double target)
{
	printf("%s: %s (%.3g, target %.3g)\n", got >= target ? "holds" : "DOES NOT HOLD", what, got, target);
	return got >= target;
}

int main(int argc, char **argv)
{
	struct bench b = {.tiles = ELEMENTS / CODEC_TILE};
	double encode = INFINITY, int8 = 0, apply = INFINITY;
	weir_error err = {0};
	static const char *const names[] = {"fp32", "bf16", "int8", "log4", "int2"};
	static const char *const codings[] = {"1 %, fp32", "1 %, bf16", "1 %, int8", "1 %, log4", "1 %, int2"};
	b.grad = allocate(ELEMENTS * sizeof(float));
	b.residual = allocate(ELEMENTS * sizeof(float));
	b.pristine = allocate(ELEMENTS * sizeof(float));
	b.records = allocate(b.tiles * TILE_ROOM);
	b.starts = allocate(b.tiles * sizeof *b.starts);
	fill(b.grad, ELEMENTS, 1);
	fill(b.pristine, ELEMENTS, 2);
	memcpy(b.residual, b.pristine, ELEMENTS * sizeof(float));
	topk_accumulate(b.grad, b.residual, NULL, ELEMENTS);
	if (topk_threshold(b.residual, ELEMENTS, ELEMENTS / ONE_IN, &b.threshold, &err) != WEIR_OK)
		return 1;
	for (unsigned v = 0; vector_ops_variant(v) != NULL; v++) {
		const struct vector_ops *ops = vector_ops_variant(v);
		for (int values = 0; values < WEIR_VALUES; values++) {
			const double ratio = bench_encode(&b, encode_topk, ops, (weir_values)values, codings[values]);
			encode = ops == vector_ops_best() ? fmin(encode, ratio) : encode;
		}
		/* The last variant is the best. */
		int8 = bench_encode(&b, encode_int8, ops, WEIR_VALUES_INT8, "all, int8");
	}
	for (int values = 0; values < WEIR_VALUES; values++)
		apply = fmin(apply, bench_apply(&b, WEIR_OPT_SGD, "SGD", (weir_values)values, names[values]));
	bench_apply(&b, WEIR_OPT_MOMENTUM, "momentum", WEIR_VALUES_LOG4, "log4");
	bench_apply(&b, WEIR_OPT_ADAM, "Adam", WEIR_VALUES_LOG4, "log4");
	const double select = bench_threshold(b.grad, b.residual);
	bool all = holds("encoding 1 % at least 60 % of a copy's bytes", encode, TOPK_TARGET);
	all = holds("encoding int8 with feedback at least 50 %", int8, INT8_TARGET) && all;
	all = holds("5 G elements/s decoded and applied", apply, APPLY_TARGET) && all;
	all = holds("the exact threshold 5 times as fast as a library's selection", select, SELECT_TARGET) && all;
	free(b.grad);
	free(b.residual);
	free(b.pristine);
	free(b.records);
	free(b.starts);
	return argc > 1 && strcmp(argv[1], "--check") == 0 && !all;
}
