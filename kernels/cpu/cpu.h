/* Internals of the CPU backend. Ops are compiled once per instruction set (vector.h) and collected
 * in a backend_ops table; code that gains nothing from it (memory, unique, the split of gemm) is
 * compiled once. An op is a function on a range of rows or elements, and a wrapper that spreads
 * ranges over the pool. Sums over rows have an order fixed by the shape; only gemm's bits may
 * depend on the number of threads. */
#ifndef WEIR_CPU_H
#define WEIR_CPU_H

#include "kernels/backend.h"
#include "kernels/cpu/pool.h"
#include "kernels/unique.h"
#include "kernels/vector.h"

/* A smaller element-wise part is not worth a second thread. */
#define CPU_GRAIN         16384
#define CPU_LINE_BYTES    64
#define CPU_REDUCE_BLOCKS 64 /* a long sum is cut into this many blocks */
#define CPU_COLUMNS       64 /* columns of a column sum that are added together */
#define CPU_SCRATCH_BYTES ((size_t)5 << 18)

/* Sixteen floats at any float address: one AVX-512 register, two of AVX2, four of SSE2. */
typedef float vf16 __attribute__((vector_size(64), aligned(4), may_alias));
#define VF16_AT(p)     (*(const vf16 *)(p))
#define VF16_PUT(p, v) (*(vf16 *)(p) = (v))

struct gemm_args {
	bool trans_a, trans_b;
	size_t m, n, k;
	float alpha;
	const float *A;
	size_t lda;
	const float *B;
	size_t ldb;
	float beta;
	float *C;
	size_t ldc;
};
/* One thread's share of a gemm, itself a gemm. scratch: CPU_SCRATCH_BYTES, this thread's. */
typedef void (*gemm_fn)(const struct gemm_args *g, void *scratch);

struct cpu_backend {
	struct backend base;
	struct pool *pool;
	const struct cpu_variant *variant;
	struct unique_table table;
	void *scratch; /* (threads, CPU_SCRATCH_BYTES), used only by our own gemm and attention */
};

struct cpu_variant {
	const char *name;
	struct backend_ops ops;
	gemm_fn own_gemm;
};

static inline struct cpu_backend *cpu_of(struct backend *b)
{
	return (struct cpu_backend *)b;
}

/* The i-th variant that this CPU can run, slowest first; NULL after the last one. */
const struct cpu_variant *cpu_variant_at(unsigned i);
struct backend *backend_cpu_create_with(const struct cpu_variant *variant, uint32_t threads, weir_error *err);

/* Runs fn on [0, count), cut into contiguous ranges of at least `grain` items, one per thread. */
typedef void (*cpu_range_fn)(void *args, size_t begin, size_t end);
void cpu_parallel(struct backend *b, size_t count, size_t grain, cpu_range_fn fn, void *args);
/* Items per range if an item is `elements` numbers of work. */
static inline size_t cpu_grain(size_t elements)
{
	return 1 + CPU_GRAIN / (elements + 1);
}

/* Elements of a block of a long sum; at least 1. */
static inline size_t cpu_reduce_block(size_t n)
{
	const size_t block = (n + CPU_REDUCE_BLOCKS - 1) / CPU_REDUCE_BLOCKS;
	return block > 0 ? block : 1;
}

/* Ops that are the same in every variant. */
void cpu_destroy(struct backend *b);
weir_status cpu_sync(struct backend *b, weir_error *err);
void *cpu_aligned_bytes(size_t alignment, size_t bytes); /* not zeroed; freed by free */
void cpu_info(const struct backend *b, struct backend_info *out);
void *cpu_buffer_alloc(struct backend *b, size_t bytes);
void cpu_buffer_free(struct backend *b, void *p);
void cpu_to_device(struct backend *b, void *device, const void *host, size_t bytes);
void cpu_to_host(struct backend *b, void *host, const void *device, size_t bytes);
enum backend_stream cpu_choose_stream(struct backend *b, enum backend_stream s);
void cpu_set_mark(struct backend *b, struct backend_mark *m);
void cpu_follow_mark(struct backend *b, const struct backend_mark *m);
void cpu_replay(struct backend *b, const void *key, size_t bytes, void (*issue)(void *arg), void *arg);
void cpu_forget_replays(struct backend *b);
weir_status cpu_await_mark(struct backend *b, const struct backend_mark *m, weir_error *err);
size_t cpu_unique(struct backend *b, const uint64_t *keys, size_t n, uint64_t *unique_keys, uint32_t *index);
void cpu_gemm(struct backend *b, bool trans_a, bool trans_b, size_t m, size_t n, size_t k, float alpha, const float *A,
              size_t lda, const float *B, size_t ldb, float beta, float *C, size_t ldc);
#define CPU_COMPRESSION_OPS(X) \
	X(encode)                  \
	X(encode_rows)             \
	X(decode)                  \
	X(topk_accumulate)         \
	X(topk_threshold)          \
	X(topk_encode)             \
	X(topk_decode)
/* Each has the type that backend_ops gives it. */
#define CPU_DECLARE_SAME(op) __typeof__(*((struct backend_ops *)0)->op) cpu_##op;
CPU_COMPRESSION_OPS(CPU_DECLARE_SAME)
#undef CPU_DECLARE_SAME
void cpu_linear(struct backend *b, float *y, const struct linear *l, const float *bias, enum activation act);
void cpu_linear_backward(struct backend *b, float *dW, float *dx, size_t columns, float beta, const float *dz,
                         const struct linear *l);
/* cpu_gemm through our own kernel, even if a library was found. */
void cpu_gemm_own(struct backend *b, bool trans_a, bool trans_b, size_t m, size_t n, size_t k, float alpha, const float *A,
                  size_t lda, const float *B, size_t ldb, float beta, float *C, size_t ldc);
/* A library's sgemm, single-threaded; NULL if none was found at build time. */
gemm_fn gemm_library(void);
const char *gemm_library_name(void); /* "oneDNN", "CBLAS"; "own" */

#endif
