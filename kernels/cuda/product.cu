/* Matrix products by cuBLASLt, with bias and activation in the same pass over the result; by cuBLAS
 * and separate passes if cuBLASLt has no algorithm.
 *
 * Both libraries are column-major: a row-major C is the column-major C^T = op(B)^T op(A)^T in the
 * same memory, and a bias of C's columns is one of that matrix's rows, as in cuBLASLt.
 *
 * Determinism. The algorithm is the first choice of the library's heuristic, a function of shape,
 * types, alignment and device, and is kept with its descriptors. It is not chosen by timing: of two
 * that are about as fast, each run would choose another, which adds in another order. Partial sums
 * are added out of place, in the parts' order (CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE), all in a
 * workspace of ours. Nothing is allocated or waited for here, so products can be captured.
 *
 * The library's ReLU is a maximum that passes NaN, like ours (FMNMX.NAN in its code for sm_90). Its
 * GELU is an approximation of different accuracy, and is not used. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/launch.h"

#define ALIGNMENT_MOST 256u /* the most that an algorithm asks for, bytes */

/* Everything that determines the algorithm; only numbers, so that keys are compared as bytes. */
struct plan_key {
	int32_t type, trans_a, trans_b, epilogue, m, n, k, lda, ldb, ldc;
	uint32_t align_a, align_b, align_c, align_bias;
};

struct cuda_plan {
	struct plan_key key;
	cublasLtMatmulDesc_t op;
	cublasLtMatrixLayout_t a, b, c; /* of A, B and C as stored */
	cublasLtMatmulAlgo_t algorithm;
	bool usable; /* cuBLASLt has an algorithm */
};

struct cuda_plans {
	struct cuda_plan plans[CUDA_PLANS_MAX]; /* in order of creation, as a ring */
	unsigned count, oldest;
	/* the one after the last used: products repeat in the same order, batch after batch */
	unsigned likely;
};

static void close_plan(struct cuda_plan *p)
{
	if (p->op)
		cublasLtMatmulDescDestroy(p->op);
	for (cublasLtMatrixLayout_t layout : {p->a, p->b, p->c})
		if (layout)
			cublasLtMatrixLayoutDestroy(layout);
}

static cublasComputeType_t compute_type(const struct cuda_backend *c, const struct cuda_product *p)
{
	return p->type == CUDA_R_32F && c->precision == COMPUTE_TF32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
}

static uint32_t epilogue_of(const struct cuda_product *p)
{
	const bool relu = p->act == ACT_RELU;
	if (!p->bias)
		return relu ? CUBLASLT_EPILOGUE_RELU : CUBLASLT_EPILOGUE_DEFAULT;
	return relu ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_BIAS;
}

static uint32_t alignment_of(const void *p)
{
	const uintptr_t lowest = ADDRESS(p) & (~ADDRESS(p) + 1);
	return lowest == 0 || lowest > ALIGNMENT_MOST ? ALIGNMENT_MOST : (uint32_t)lowest;
}

static struct plan_key key_of(const struct cuda_product *p)
{
	return plan_key{(int32_t)p->type,   p->trans_a,         p->trans_b,         (int32_t)epilogue_of(p), (int32_t)p->m,
	                (int32_t)p->n,      (int32_t)p->k,      (int32_t)p->lda,    (int32_t)p->ldb,         (int32_t)p->ldc,
	                alignment_of(p->A), alignment_of(p->B), alignment_of(p->C), alignment_of(p->bias)};
}

/* Chains calls: does nothing after a failed one. */
template <typename T>
static cublasStatus_t set_op(cublasStatus_t before, struct cuda_plan *plan, cublasLtMatmulDescAttributes_t attribute, T value)
{
	return before == CUBLAS_STATUS_SUCCESS ? cublasLtMatmulDescSetAttribute(plan->op, attribute, &value, sizeof value) : before;
}

static cublasStatus_t lay(cublasStatus_t before, cublasLtMatrixLayout_t *out, cudaDataType type, size_t rows, size_t columns,
                          size_t ld)
{
	return before == CUBLAS_STATUS_SUCCESS ? cublasLtMatrixLayoutCreate(out, type, rows, columns, (int64_t)ld) : before;
}

/* The library's first factor is B^T, its second A^T. */
static cublasStatus_t describe(const struct cuda_backend *c, struct cuda_plan *plan, const struct cuda_product *p)
{
	const bool ta = p->trans_a, tb = p->trans_b;
	cublasStatus_t s = cublasLtMatmulDescCreate(&plan->op, compute_type(c, p), CUDA_R_32F);
	s = set_op<int32_t>(s, plan, CUBLASLT_MATMUL_DESC_TRANSA, tb ? CUBLAS_OP_T : CUBLAS_OP_N);
	s = set_op<int32_t>(s, plan, CUBLASLT_MATMUL_DESC_TRANSB, ta ? CUBLAS_OP_T : CUBLAS_OP_N);
	s = set_op<uint32_t>(s, plan, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue_of(p));
	s = set_op(s, plan, CUBLASLT_MATMUL_DESC_BIAS_POINTER, p->bias);
	s = lay(s, &plan->a, p->type, ta ? p->m : p->k, ta ? p->k : p->m, p->lda);
	s = lay(s, &plan->b, p->type, tb ? p->k : p->n, tb ? p->n : p->k, p->ldb);
	return lay(s, &plan->c, CUDA_R_32F, p->n, p->m, p->ldc);
}

template <typename T>
static cublasStatus_t set_preference(cublasStatus_t before, cublasLtMatmulPreference_t preference,
                                     cublasLtMatmulPreferenceAttributes_t attribute, T value)
{
	return before == CUBLAS_STATUS_SUCCESS ? cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof value)
	                                       : before;
}

static cublasStatus_t prefer(cublasLtMatmulPreference_t preference, const struct plan_key *key)
{
	cublasStatus_t s = CUBLAS_STATUS_SUCCESS;
	s = set_preference<uint64_t>(s, preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, CUDA_BLAS_WORKSPACE);
	s = set_preference<uint32_t>(s, preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
	                             CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);
	s = set_preference(s, preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, key->align_b);
	s = set_preference(s, preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, key->align_a);
	s = set_preference(s, preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, key->align_c);
	return set_preference(s, preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, key->align_c);
}

static cublasStatus_t choose(const struct cuda_backend *c, struct cuda_plan *plan)
{
	cublasLtMatmulPreference_t preference = NULL;
	cublasLtMatmulHeuristicResult_t found;
	int count = 0;
	cublasStatus_t status = cublasLtMatmulPreferenceCreate(&preference);
	if (status == CUBLAS_STATUS_SUCCESS)
		status = prefer(preference, &plan->key);
	if (status == CUBLAS_STATUS_SUCCESS)
		status =
		    cublasLtMatmulAlgoGetHeuristic(c->lt, plan->op, plan->b, plan->a, plan->c, plan->c, preference, 1, &found, &count);
	if (preference)
		cublasLtMatmulPreferenceDestroy(preference);
	if (status == CUBLAS_STATUS_NOT_SUPPORTED)
		return CUBLAS_STATUS_SUCCESS;
	plan->usable = status == CUBLAS_STATUS_SUCCESS && count > 0;
	if (plan->usable)
		plan->algorithm = found.algo;
	return status;
}

/* Replaces the oldest plan if all places are taken. */
static struct cuda_plan *make_plan(struct cuda_backend *c, const struct plan_key *key, const struct cuda_product *p)
{
	struct cuda_plans *all = c->plans;
	const bool full = all->count == CUDA_PLANS_MAX;
	const unsigned place = full ? all->oldest : all->count;
	struct cuda_plan *plan = &all->plans[place];
	if (full)
		close_plan(plan);
	*plan = cuda_plan();
	plan->key = *key;
	cublasStatus_t status = describe(c, plan, p);
	if (status == CUBLAS_STATUS_SUCCESS)
		status = choose(c, plan);
	if (status != CUBLAS_STATUS_SUCCESS) {
		cuda_failed_blas(c, "cublasLtMatmulAlgoGetHeuristic", status);
		plan->key = plan_key(); /* an empty key */
	}
	all->count += !full;
	all->oldest = full ? (place + 1) % CUDA_PLANS_MAX : 0;
	all->likely = place + 1;
	return plan;
}

static struct cuda_plan *plan_of(struct cuda_backend *c, const struct cuda_product *p)
{
	struct cuda_plans *all = c->plans;
	const struct plan_key key = key_of(p);
	for (unsigned i = 0; i < all->count; i++) {
		const unsigned at = (all->likely + i) % all->count;
		if (memcmp(&all->plans[at].key, &key, sizeof key) != 0)
			continue;
		all->likely = at + 1;
		return &all->plans[at];
	}
	return make_plan(c, &key, p);
}

static void run_plan(struct cuda_backend *c, struct cuda_plan *plan, const struct cuda_product *p)
{
	cublasStatus_t status = cublasLtMatmulDescSetAttribute(plan->op, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &p->bias, sizeof p->bias);
	if (status == CUBLAS_STATUS_SUCCESS)
		status = cublasLtMatmul(c->lt, plan->op, &p->alpha, p->B, plan->b, p->A, plan->a, &p->beta, p->C, plan->c, p->C, plan->c,
		                        &plan->algorithm, c->blas_workspace, CUDA_BLAS_WORKSPACE, c->stream);
	if (status != CUBLAS_STATUS_SUCCESS)
		cuda_failed_blas(c, "cublasLtMatmul", status);
}

static void run_plain(struct cuda_backend *c, const struct cuda_product *p)
{
	const cublasStatus_t status =
	    cublasGemmEx(c->blas, p->trans_b ? CUBLAS_OP_T : CUBLAS_OP_N, p->trans_a ? CUBLAS_OP_T : CUBLAS_OP_N, (int)p->n,
	                 (int)p->m, (int)p->k, &p->alpha, p->B, p->type, (int)p->ldb, p->A, p->type, (int)p->lda, &p->beta, p->C,
	                 CUDA_R_32F, (int)p->ldc, compute_type(c, p), CUBLAS_GEMM_DEFAULT);
	if (status != CUBLAS_STATUS_SUCCESS)
		cuda_failed_blas(c, "cublasGemmEx", status);
}

void cuda_multiply(struct cuda_backend *c, const struct cuda_product *p)
{
	assert(c->chosen == STREAM_COMPUTE); /* the only stream with the workspace */
	struct cuda_plan *plan = cuda_ok(c) ? plan_of(c, p) : NULL;
	if (!cuda_ok(c))
		return;
	if (plan->usable) {
		run_plan(c, plan, p);
		if (p->act != ACT_NONE && p->act != ACT_RELU)
			cuda_bias_act(&c->base, p->C, NULL, p->m, p->n, p->act);
		return;
	}
	run_plain(c, p);
	if (p->bias || p->act != ACT_NONE)
		cuda_bias_act(&c->base, p->C, p->bias, p->m, p->n, p->act);
}

bool cuda_products_open(struct cuda_backend *c)
{
	cublasStatus_t status = cublasCreate(&c->blas);
	if (status != CUBLAS_STATUS_SUCCESS) {
		cuda_failed_blas(c, "cublasCreate", status);
		return false;
	}
	status = cublasLtCreate(&c->lt);
	if (status != CUBLAS_STATUS_SUCCESS) {
		cuda_failed_blas(c, "cublasLtCreate", status);
		return false;
	}
	c->plans = (struct cuda_plans *)calloc(1, sizeof *c->plans);
	c->blas_workspace = cuda_pool_take(c, CUDA_BLAS_WORKSPACE);
	if (!c->plans || !c->blas_workspace) {
		if (!c->blas_workspace)
			c->fault = c->shortness;
		else
			weir_fail(&c->fault, WEIR_E_MEMORY, "CUDA backend: no memory");
		return false;
	}
	status = cublasSetStream(c->blas, c->stream);
	if (status == CUBLAS_STATUS_SUCCESS)
		status = cublasSetWorkspace(c->blas, c->blas_workspace, CUDA_BLAS_WORKSPACE);
	if (status != CUBLAS_STATUS_SUCCESS)
		cuda_failed_blas(c, "cublasSetWorkspace", status);
	return cuda_ok(c);
}

void cuda_products_close(struct cuda_backend *c)
{
	for (unsigned i = 0; c->plans && i < c->plans->count; i++)
		close_plan(&c->plans->plans[i]);
	free(c->plans);
	if (c->lt)
		cublasLtDestroy(c->lt);
	if (c->blas)
		cublasDestroy(c->blas);
}
