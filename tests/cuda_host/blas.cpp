/* The parts of cuBLAS and cuBLASLt that the backend uses, as plain loops. If a caller lets cuBLASLt
 * add partial sums in place, their order comes from the seed, as with atomics. */
#include <math.h>

#include <algorithm>
#include <vector>

#include "tests/cuda_host/cublasLt.h"
#include "tests/cuda_host/cuda_host.h"

#define PARTS        4   /* partial sums of a long sum */
#define PART_LEAST   64  /* minimum number of terms per partial sum */
#define VECTOR_BYTES 16u /* bytes an algorithm reads at once from aligned addresses */

static bool fails(const char *call)
{
	return cuda_host.fail_call != NULL && strcmp(cuda_host.fail_call, call) == 0;
}

/* --- Numbers */

static float half_value(uint16_t h)
{
	const int exponent = h >> 10 & 31, fraction = h & 1023;
	const float magnitude = exponent == 31  ? (fraction ? NAN : INFINITY)
	                        : exponent == 0 ? ldexpf((float)fraction, -24)
	                                        : ldexpf((float)(fraction | 1024), exponent - 25);
	return h >> 15 ? -magnitude : magnitude;
}

/* Rounds to 11 bits, ties to even. */
static float tf32_value(float x)
{
	const unsigned bits = __float_as_uint(x);
	return isfinite(x) ? __uint_as_float((bits + 0xfffu + (bits >> 13 & 1u)) & ~0x1fffu) : x;
}

/* A matrix in column order. */
struct factor {
	const void *at;
	cudaDataType type;
	bool transposed;
	size_t ld;
};

static float element(const factor &f, bool tf32, size_t row, size_t column)
{
	const size_t i = f.transposed ? column + row * f.ld : row + column * f.ld;
	if (f.type == CUDA_R_16F)
		return half_value(((const uint16_t *)f.at)[i]);
	if (f.type == CUDA_R_16BF)
		return __uint_as_float((unsigned)((const uint16_t *)f.at)[i] << 16);
	const float x = ((const float *)f.at)[i];
	return tf32 ? tf32_value(x) : x;
}

struct product {
	size_t m, n, k;
	factor A, B;
	float alpha, beta;
	float *C;
	size_t ldc;
	bool tf32;
	const float *bias; /* (m) */
	bool relu;
	size_t parts;       /* number of partial sums */
	bool parts_by_seed; /* their order comes from the seed */
};

static void multiply(const product &p)
{
	std::vector<float> rows(p.m * p.k), columns(p.n * p.k);
	for (size_t i = 0; i < p.m; i++)
		for (size_t l = 0; l < p.k; l++)
			rows[i * p.k + l] = element(p.A, p.tf32, i, l);
	for (size_t j = 0; j < p.n; j++)
		for (size_t l = 0; l < p.k; l++)
			columns[j * p.k + l] = element(p.B, p.tf32, l, j);
	for (size_t j = 0; j < p.n; j++)
		for (size_t i = 0; i < p.m; i++) {
			float sum = 0;
			for (size_t part = 0; part < p.parts; part++) {
				const size_t at = p.parts_by_seed ? (part + cuda_host.seed) % p.parts : part;
				float of_part = 0;
				for (size_t l = p.k * at / p.parts; l < p.k * (at + 1) / p.parts; l++)
					of_part += rows[i * p.k + l] * columns[j * p.k + l];
				sum += of_part;
			}
			float *to = &p.C[i + j * p.ldc];
			float x = p.beta == 0 ? p.alpha * sum : p.alpha * sum + p.beta * *to;
			x += p.bias != NULL ? p.bias[i] : 0;
			*to = p.relu && x < 0 ? 0 : x; /* passes NaN on */
		}
}

/* --- cuBLAS */

struct cuda_host_blas {
	cudaStream_t stream;
};

cublasStatus_t cublasCreate(cublasHandle_t *handle)
{
	if (fails("cublasCreate"))
		return CUBLAS_STATUS_ALLOC_FAILED;
	*handle = new cuda_host_blas{NULL};
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasDestroy(cublasHandle_t handle)
{
	delete handle;
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetStream(cublasHandle_t handle, cudaStream_t stream)
{
	handle->stream = stream;
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetWorkspace(cublasHandle_t handle, void *workspace, size_t bytes)
{
	(void)handle;
	return workspace != NULL && bytes > 0 ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

const char *cublasGetStatusName(cublasStatus_t status)
{
	return status == CUBLAS_STATUS_SUCCESS            ? "CUBLAS_STATUS_SUCCESS"
	       : status == CUBLAS_STATUS_ALLOC_FAILED     ? "CUBLAS_STATUS_ALLOC_FAILED"
	       : status == CUBLAS_STATUS_EXECUTION_FAILED ? "CUBLAS_STATUS_EXECUTION_FAILED"
	       : status == CUBLAS_STATUS_NOT_SUPPORTED    ? "CUBLAS_STATUS_NOT_SUPPORTED"
	                                                  : "CUBLAS_STATUS_INVALID_VALUE";
}

const char *cublasGetStatusString(cublasStatus_t status)
{
	return status == CUBLAS_STATUS_SUCCESS            ? "success"
	       : status == CUBLAS_STATUS_ALLOC_FAILED     ? "the resource allocation failed"
	       : status == CUBLAS_STATUS_EXECUTION_FAILED ? "the GPU program failed to execute"
	       : status == CUBLAS_STATUS_NOT_SUPPORTED    ? "the functionality is not supported"
	                                                  : "an unsupported value or parameter was passed to the function";
}

cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b, int m, int n, int k,
                            const void *alpha, const void *A, cudaDataType type_a, int lda, const void *B, cudaDataType type_b,
                            int ldb, const void *beta, void *C, cudaDataType type_c, int ldc, cublasComputeType_t compute,
                            cublasGemmAlgo_t algorithm)
{
	(void)algorithm;
	const bool ta = op_a == CUBLAS_OP_T, tb = op_b == CUBLAS_OP_T;
	if (m < 0 || n < 0 || k < 0 || lda < (ta ? k : m) || ldb < (tb ? n : k) || ldc < m || type_a != type_b ||
	    type_c != CUDA_R_32F)
		return CUBLAS_STATUS_INVALID_VALUE;
	cuda_host_check_pointer("cublasGemmEx", 8, A);
	cuda_host_check_pointer("cublasGemmEx", 11, B);
	cuda_host_check_pointer("cublasGemmEx", 15, C);
	product p = {};
	p.m = (size_t)m, p.n = (size_t)n, p.k = (size_t)k;
	p.A = factor{A, type_a, ta, (size_t)lda};
	p.B = factor{B, type_b, tb, (size_t)ldb};
	/* Read at the call, as cuBLAS does. */
	p.alpha = *(const float *)alpha, p.beta = *(const float *)beta;
	p.C = (float *)C, p.ldc = (size_t)ldc;
	p.tf32 = compute == CUBLAS_COMPUTE_32F_FAST_TF32;
	p.parts = 1;
	cuda_host_queue(handle->stream, [=]() { multiply(p); });
	return CUBLAS_STATUS_SUCCESS;
}

/* --- cuBLASLt */

struct cuda_host_lt {
	int unused;
};
struct cuda_host_matmul {
	cublasComputeType_t compute;
	int32_t op[2] = {CUBLAS_OP_N, CUBLAS_OP_N};
	uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
	const void *bias = NULL;
};
struct cuda_host_layout {
	cudaDataType type;
	size_t rows, columns, ld;
};
struct cuda_host_preference {
	uint64_t workspace = 0;
	uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_MASK, alignment[4] = {256, 256, 256, 256};
};

/* The problem that an algorithm was chosen for, and its assumptions. */
struct chosen {
	uint64_t problem, workspace;
	uint32_t alignment[4], parts, reduction;
};
static_assert(sizeof(chosen) <= sizeof(cublasLtMatmulAlgo_t), "an algorithm has room for it");

cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle)
{
	if (fails("cublasLtCreate"))
		return CUBLAS_STATUS_ALLOC_FAILED;
	*handle = new cuda_host_lt{0};
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle)
{
	delete handle;
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *desc, cublasComputeType_t compute, cudaDataType scale)
{
	*desc = new cuda_host_matmul;
	(*desc)->compute = compute;
	return scale == CUDA_R_32F ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc)
{
	delete desc;
	return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t set(void *to, size_t room, const void *value, size_t bytes)
{
	if (value == NULL || bytes != room)
		return CUBLAS_STATUS_INVALID_VALUE;
	memcpy(to, value, bytes);
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t attribute,
                                              const void *value, size_t bytes)
{
	switch (attribute) {
	case CUBLASLT_MATMUL_DESC_TRANSA:
		return set(&desc->op[0], sizeof desc->op[0], value, bytes);
	case CUBLASLT_MATMUL_DESC_TRANSB:
		return set(&desc->op[1], sizeof desc->op[1], value, bytes);
	case CUBLASLT_MATMUL_DESC_EPILOGUE:
		return set(&desc->epilogue, sizeof desc->epilogue, value, bytes);
	case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
		return set(&desc->bias, sizeof desc->bias, value, bytes);
	}
	return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *layout, cudaDataType type, uint64_t rows, uint64_t columns,
                                          int64_t ld)
{
	*layout = new cuda_host_layout{type, rows, columns, (size_t)ld};
	return ld >= (int64_t)rows ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout)
{
	delete layout;
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *preference)
{
	*preference = new cuda_host_preference;
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference)
{
	delete preference;
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute, const void *value,
                                                    size_t bytes)
{
	if (attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES)
		return set(&preference->workspace, sizeof preference->workspace, value, bytes);
	if (attribute == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK)
		return set(&preference->reductions, sizeof preference->reductions, value, bytes);
	uint32_t *to = &preference->alignment[attribute - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES];
	return set(to, sizeof *to, value, bytes);
}

static bool is_transposed(const cuda_host_matmul *d, int which)
{
	return d->op[which] == CUBLAS_OP_T;
}

/* Hashes all properties that choose an algorithm, except alignments. */
static uint64_t problem_of(const cuda_host_matmul *d, const cuda_host_layout *a, const cuda_host_layout *b,
                           const cuda_host_layout *c)
{
	uint64_t h = 1469598103934665603u;
	const uint64_t all[] = {(uint64_t)d->compute,
	                        (uint64_t)d->op[0],
	                        (uint64_t)d->op[1],
	                        d->epilogue,
	                        a->type,
	                        a->rows,
	                        a->columns,
	                        a->ld,
	                        b->type,
	                        b->rows,
	                        b->columns,
	                        b->ld,
	                        c->type,
	                        c->rows,
	                        c->columns,
	                        c->ld};
	for (uint64_t x : all)
		h = (h ^ x) * 1099511628211u;
	return h;
}

static size_t depth(const cuda_host_matmul *d, const cuda_host_layout *a)
{
	return is_transposed(d, 0) ? a->rows : a->columns;
}

static bool fits(const cuda_host_matmul *d, const cuda_host_layout *a, const cuda_host_layout *b, const cuda_host_layout *c)
{
	const bool ta = is_transposed(d, 0), tb = is_transposed(d, 1);
	return (ta ? a->columns : a->rows) == c->rows && (tb ? b->rows : b->columns) == c->columns &&
	       depth(d, a) == (tb ? b->columns : b->rows) && a->type == b->type && c->type == CUDA_R_32F;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t A,
                                              cublasLtMatrixLayout_t B, cublasLtMatrixLayout_t C, cublasLtMatrixLayout_t D,
                                              cublasLtMatmulPreference_t preference, int wanted,
                                              cublasLtMatmulHeuristicResult_t *results, int *count)
{
	*count = 0;
	if (handle == NULL || wanted < 1 || !fits(desc, A, B, C) || C != D)
		return CUBLAS_STATUS_INVALID_VALUE;
	if (cuda_host.no_algorithm || (desc->epilogue & ~7u) != 0)
		return CUBLAS_STATUS_NOT_SUPPORTED;
	cuda_host.heuristics++;
	chosen c = {problem_of(desc, A, B, C), 0, {0, 0, 0, 0}, 1, CUBLASLT_REDUCTION_SCHEME_NONE};
	for (int i = 0; i < 4; i++)
		c.alignment[i] = std::min(preference->alignment[i], VECTOR_BYTES);
	const uint64_t workspace = PARTS * C->rows * C->columns * sizeof(float);
	if (depth(desc, A) >= PARTS * PART_LEAST && preference->reductions != 0 && preference->workspace >= workspace) {
		c.parts = PARTS;
		c.workspace = workspace;
		c.reduction = preference->reductions & CUBLASLT_REDUCTION_SCHEME_INPLACE ? CUBLASLT_REDUCTION_SCHEME_INPLACE
		                                                                         : CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
	}
	memset(results, 0, sizeof *results);
	memcpy(&results->algo, &c, sizeof c);
	results->workspaceSize = c.workspace;
	results->state = CUBLAS_STATUS_SUCCESS;
	*count = 1;
	return CUBLAS_STATUS_SUCCESS;
}

static void check_aligned(const char *what, const void *p, uint32_t alignment)
{
	if ((uintptr_t)p % alignment != 0)
		cuda_host_die("cublasLtMatmul: %s is at an address that is no multiple of %u, as its algorithm was told", what,
		              alignment);
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void *alpha, const void *A,
                              cublasLtMatrixLayout_t layout_a, const void *B, cublasLtMatrixLayout_t layout_b, const void *beta,
                              const void *C, cublasLtMatrixLayout_t layout_c, void *D, cublasLtMatrixLayout_t layout_d,
                              const cublasLtMatmulAlgo_t *algorithm, void *workspace, size_t workspace_bytes, cudaStream_t stream)
{
	chosen c;
	if (fails("cublasLtMatmul"))
		return CUBLAS_STATUS_EXECUTION_FAILED;
	memcpy(&c, algorithm, sizeof c);
	if (handle == NULL || C != D || layout_c != layout_d || c.problem != problem_of(desc, layout_a, layout_b, layout_c) ||
	    workspace_bytes < c.workspace || ((desc->epilogue & CUBLASLT_EPILOGUE_BIAS) && desc->bias == NULL))
		return CUBLAS_STATUS_INVALID_VALUE;
	const void *const pointers[] = {A, B, D, desc->bias, workspace};
	for (unsigned i = 0; i < 5; i++)
		cuda_host_check_pointer("cublasLtMatmul", i + 1, pointers[i]);
	check_aligned("A", A, c.alignment[0]);
	check_aligned("B", B, c.alignment[1]);
	check_aligned("C", D, std::max(c.alignment[2], c.alignment[3]));
	product p = {};
	p.m = layout_c->rows, p.n = layout_c->columns, p.k = depth(desc, layout_a);
	p.A = factor{A, layout_a->type, is_transposed(desc, 0), layout_a->ld};
	p.B = factor{B, layout_b->type, is_transposed(desc, 1), layout_b->ld};
	p.alpha = *(const float *)alpha, p.beta = *(const float *)beta;
	p.C = (float *)D, p.ldc = layout_c->ld;
	p.tf32 = desc->compute == CUBLAS_COMPUTE_32F_FAST_TF32;
	p.bias = desc->epilogue & CUBLASLT_EPILOGUE_BIAS ? (const float *)desc->bias : NULL;
	p.relu = (desc->epilogue & CUBLASLT_EPILOGUE_RELU) != 0;
	p.parts = c.parts;
	p.parts_by_seed = c.reduction == CUBLASLT_REDUCTION_SCHEME_INPLACE;
	cuda_host_queue(stream, [=]() { multiply(p); });
	return CUBLAS_STATUS_SUCCESS;
}
