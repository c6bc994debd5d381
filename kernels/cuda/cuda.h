/* Internals of the CUDA backend. One file per subject, as in ../cpu: a kernel (one thread's work)
 * and the op that launches it.
 *
 * Order. An op's work goes to the stream chosen last. Each stream has a workspace, which the next
 * op on it may reuse at once.
 * Determinism. Every sum has an order fixed by the shapes alone: no atomic on a float, no order of
 * blocks. The compiler contracts nothing (--fmad=false): an intended fused multiply-add is written
 * fmaf, so that a source has the same bits everywhere.
 * Errors. Ops return nothing. The first failure is kept (cuda_failed), later work is not started,
 * and sync reports the failure. Only this folder sees the runtime and cuBLAS; tests/cuda_host has
 * both for the CPU, to test the same sources. */
#ifndef WEIR_CUDA_H
#define WEIR_CUDA_H

#include <cublasLt.h>
#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <type_traits>

#include "kernels/backend.h"
#include "kernels/unique.h"

#if defined(CUDA_HOST_EMULATED)
#define CUDA_BACKEND_NAME "cuda (emulated)"
#else
#define CUDA_BACKEND_NAME "cuda"
#endif

#define CUDA_THREADS         256u /* of a block, unless a kernel says otherwise */
#define CUDA_LANES           32u  /* of a warp */
#define CUDA_ALIGNMENT       256u /* of buffers and of parts of a workspace, bytes */
#define CUDA_CAPABILITY_MIN  75   /* compute capability 7.5, as 10 major + minor */
#define CUDA_CAPABILITY_BF16 80   /* and tf32 */
#define CUDA_CAPABILITY_MMA  80   /* for mma.h */
#define CUDA_NAME_BYTES      320u
#define CUDA_STAGE_BYTES     ((size_t)4 << 20) /* size of a pinned staging buffer */
#define CUDA_STAGES          4u
#define CUDA_BLAS_WORKSPACE  ((size_t)32 << 20) /* cuBLAS's size for Hopper, bytes */
#define CUDA_PLANS_MAX       256u               /* shapes of products with a remembered algorithm */
/* of the memory that is free when the backend is created */
#define CUDA_BUDGET_SHARE 0.9
/* that must be free, for cuBLAS and a small model */
#define CUDA_MEMORY_MIN    ((size_t)64 << 20)
#define CUDA_REDUCE_BLOCKS 1024u /* a long sum is cut into at most this many blocks */
/* elements that a thread adds before another block pays off */
#define CUDA_REDUCE_PER_THREAD 16u
#define CUDA_ANSWER_BYTES      64u
#define CUDA_GRAPHS            32u         /* runs of ops that are remembered */
#define CUDA_GRID_MAX          0x7fffffffu /* blocks of a launch */
#define CUDA_ROW_WIDTH_MAX     0x7fffffffu /* elements of a row that is coded on its own */
#define CUDA_SCATTER_CHUNK     256u        /* uses of a row that are added one after the other */
#define CUDA_COLUMN_PARTS      256u        /* a column sum is cut into at most this many parts */
/* rows that a thread adds before another part pays off */
#define CUDA_COLUMN_ROWS_PER_ROW 16u

struct cuda_block {
	void *at;
	size_t bytes;
	bool used;
};

/* Device memory kept for reuse. */
struct cuda_pool {
	struct cuda_block *blocks; /* (count of capacity) */
	size_t count, capacity;
	size_t budget, held; /* bytes; held from the device, used or not */
	size_t used, used_most;
};

/* A pinned buffer on its way to or from the device. */
struct cuda_stage {
	unsigned char *at; /* (CUDA_STAGE_BYTES) */
	cudaEvent_t done;  /* after this event it may be used again */
};

/* Pinned memory in use by the backend's user. */
struct cuda_pinned {
	unsigned char *at;
	size_t bytes;
	struct cuda_pinned *next;
};

/* The chosen device (device.cu). */
struct cuda_device {
	int number;
	char name[CUDA_NAME_BYTES]; /* "cuda:0 (NVIDIA H200)" */
	int capability;             /* 10 major + minor */
	bool exclusive;             /* in exclusive-process mode */
};

struct cuda_stream {
	cudaStream_t at;
	cudaEvent_t joined; /* the event that other streams waited for last */
	void *workspace;
	size_t workspace_bytes;
};

/* A run of ops (replay.cu). */
struct cuda_graph {
	unsigned char key[BACKEND_REPLAY_KEY_BYTES]; /* (key_bytes) */
	size_t key_bytes;
	uint64_t used;         /* turn of the last use; 0: never, the entry is free */
	cudaGraphExec_t whole; /* NULL: issued once so far */
	bool refused;          /* it cannot be a graph */
};

struct cuda_backend {
	struct backend base;
	struct cuda_device device;
	enum compute_precision precision;
	struct cuda_stream streams[BACKEND_STREAMS];
	enum backend_stream chosen;
	cudaStream_t stream; /* the chosen one */
	/* on STREAM_COMPUTE: a handle has one stream; changing it drops the workspace */
	cublasHandle_t blas;
	cublasLtHandle_t lt;
	struct cuda_plans *plans;
	void *blas_workspace;
	struct cuda_pool pool;
	struct cuda_pinned *pinned;
	struct cuda_stage stages[CUDA_STAGES];
	unsigned stage_turn;
	void *answer; /* (CUDA_ANSWER_BYTES), pinned: the result that an op reads back */
	struct unique_table table;
	struct cuda_graph graphs[CUDA_GRAPHS];
	uint64_t replay_turn, replays;
	weir_error not_replayed; /* the last failure to create a graph */
	weir_error fault;        /* the first failure, kept for good */
	weir_error shortness;    /* the last failed allocation, until it is reported */
};

static inline struct cuda_backend *cuda_of(struct backend *b)
{
	return (struct cuda_backend *)b;
}

/* --- The device (device.cu) */

/* Finds the requested device, and checks that it can be used. */
weir_status cuda_device_find(struct cuda_device *out, const struct backend_options *options, weir_error *err);
/* Makes it this thread's device. */
weir_status cuda_device_open(const struct cuda_device *d, weir_error *err);

/* --- Errors (errors.cu) */

/* The remedy for a kind of failure: "...; use device: cpu to go on without it". */
const char *cuda_remedy(cudaError_t code);
/* Keeps the first failure: the call, the op and the runtime's message. */
void cuda_failed(struct cuda_backend *c, const char *call, cudaError_t code);
void cuda_failed_blas(struct cuda_backend *c, const char *call, cublasStatus_t code);
void cuda_failed_limit(struct cuda_backend *c, const char *what);
static inline bool cuda_ok(const struct cuda_backend *c)
{
	return c->fault.status == WEIR_OK;
}
/* Evaluates `call` unless something has failed before, and keeps its failure. True: success. */
#define CUDA_TRY(c, call) cuda_try((c), #call, cuda_ok(c) ? (call) : cudaSuccess)
static inline bool cuda_try(struct cuda_backend *c, const char *call, cudaError_t code)
{
	if (code != cudaSuccess)
		cuda_failed(c, call, code);
	return cuda_ok(c);
}

/* --- Streams (streams.cu) */

bool cuda_streams_open(struct cuda_backend *c); /* false: cuda_ok is false too */
void cuda_streams_close(struct cuda_backend *c);
/* Work issued on the chosen stream from now on begins after all work issued on the other
 * streams. */
void cuda_join(struct cuda_backend *c);
void cuda_wait_for_all(struct cuda_backend *c); /* also after a failure */
weir_status cuda_sync(struct backend *b, weir_error *err);

/* --- Memory (memory.cu) */

/* 0: CUDA_BUDGET_SHARE of the free memory. False: cuda_ok is false too */
bool cuda_memory_open(struct cuda_backend *c, uint64_t budget_bytes);
void cuda_memory_close(struct cuda_backend *c);
/* not zeroed; NULL when out of memory */
void *cuda_pool_take(struct cuda_backend *c, size_t bytes);
void cuda_pool_give(struct cuda_backend *c, void *p);
/* One op's scratch memory of sum(sizes) bytes, cut into `count` aligned parts; the stream's next op
 * reuses it. False: out of memory, which is kept. */
bool cuda_workspace(struct cuda_backend *c, size_t count, const size_t *sizes, void **parts);
/* Copies `bytes` at `device`, at most CUDA_ANSWER_BYTES, to `answer` and waits for them; valid
 * until the next call. NULL after a failure. */
const void *cuda_read_back(struct cuda_backend *c, const void *device, size_t bytes);

/* --- Matrix products (product.cu) */

/* Row-major C (m, n) = act(alpha op(A) op(B) + beta C + bias). m, n and k are at least 1 and at
 * most INT32_MAX. */
struct cuda_product {
	cudaDataType type; /* of A and B; C, bias and all sums are fp32 */
	bool trans_a, trans_b;
	size_t m, n, k;
	float alpha, beta;
	const void *A, *B;
	float *C;
	size_t lda, ldb, ldc;
	const float *bias; /* (n), or NULL; with it, or with an activation, ldc is n */
	enum activation act;
};
void cuda_multiply(struct cuda_backend *c, const struct cuda_product *p);
bool cuda_products_open(struct cuda_backend *c); /* false: cuda_ok is false too */
void cuda_products_close(struct cuda_backend *c);

/* --- Building blocks */

enum column_kind {
	COLUMN_SUM,             /* sum of a */
	COLUMN_CENTRED_SQUARES, /* sum of (a - mean)^2 */
	COLUMN_SUM_AND_PRODUCT, /* sum of a; sum of a b */
	COLUMN_SUM_AND_NORMED,  /* sum of a; sum of a (b - row_mean) row_inv */
	COLUMN_RELU,            /* dx = a act'(.), where b is the y of bias_act_backward; sum of dx */
	COLUMN_SIGMOID,
	COLUMN_TANH,
	COLUMN_GELU,
};
/* Inputs: a, b (rows, n); mean (n), of the columns; row_mean (or NULL: 0), row_inv (rows). Output
 * on the way: dx (rows, n), may be a. */
struct column_input {
	const float *a = NULL, *b = NULL;
	const double *mean = NULL;
	const float *row_mean = NULL, *row_inv = NULL;
	size_t rows = 0, n = 0;
	float *dx = NULL;
};
size_t cuda_column_partial_bytes(enum column_kind kind, size_t rows, size_t n);
/* out (1 or 2, n) = sums over the rows, in double. (column_sums.cu) */
void cuda_column_sums(struct cuda_backend *c, enum column_kind kind, double *out, double *partial, const struct column_input *in);
/* The same, rounded. add: adds to out's value. */
void cuda_column_sums_rounded(struct cuda_backend *c, enum column_kind kind, float *out, bool add, double *partial,
                              const struct column_input *in);
/* *out = the sum of partial (n), in a fixed order. (reduce.cu) */
void cuda_sum_of(struct cuda_backend *c, double *out, const double *partial, size_t n);
/* *to += that sum. (reduce.cu) */
void cuda_add_sum(struct cuda_backend *c, double *to, const double *partial, size_t n);
/* Blocks of a sum over n elements. */
unsigned cuda_reduce_blocks(size_t n);

/* --- Ops. Each has the type that backend_ops gives it. */
#define CUDA_DECLARE(op) std::remove_pointer<decltype(backend_ops::op)>::type cuda_##op;
BACKEND_OPS(CUDA_DECLARE)
#undef CUDA_DECLARE

#endif
