/* Matrix products by cuBLAS, which counts by columns: a row-major C is the column-major C^T = op(B)^T op(A)^T, of the same memory. */
#include <assert.h>
#include <stdint.h>

#include "launch.h"

/* C (m, n) *= beta; C is not read when beta is 0. */
static __global__ void scale_matrix_kernel(float *C, float beta, size_t n, size_t ldc, size_t total)
{
	const size_t i = thread_number();
	if (i >= total)
		return;
	const size_t r = quotient(i, n), at = r * ldc + (i - r * n);
	C[at] = beta == 0 ? 0 : beta * C[at];
}

static cublasComputeType_t compute_type(enum compute_precision precision)
{
	switch (precision) {
	case COMPUTE_TF32:
		return CUBLAS_COMPUTE_32F_FAST_TF32;
	case COMPUTE_BF16:
		return CUBLAS_COMPUTE_32F_FAST_16BF;
	case COMPUTE_FP16:
		return CUBLAS_COMPUTE_32F_FAST_16F;
	case COMPUTE_FP32:
		break;
	}
	return CUBLAS_COMPUTE_32F;
}

void cuda_gemm(struct backend *b, bool trans_a, bool trans_b, size_t m, size_t n, size_t k, float alpha, const float *A,
               size_t lda, const float *B, size_t ldb, float beta, float *C, size_t ldc)
{
	struct cuda_backend *c = cuda_of(b);
	assert(c->chosen == STREAM_COMPUTE);
	if (m == 0 || n == 0 || !cuda_ok(c))
		return;
	if (k == 0 || alpha == 0) {
		LAUNCH(c, scale_matrix_kernel, blocks_for(c, m * n), CUDA_THREADS, C, beta, n, ldc, m * n);
		return;
	}
	if (m > INT32_MAX || n > INT32_MAX || k > INT32_MAX || lda > INT32_MAX || ldb > INT32_MAX || ldc > INT32_MAX) {
		cuda_failed_limit(c, "a matrix larger than cuBLAS can have");
		return;
	}
	const cublasStatus_t status = cublasGemmEx(c->blas, trans_b ? CUBLAS_OP_T : CUBLAS_OP_N, trans_a ? CUBLAS_OP_T : CUBLAS_OP_N,
	                                           (int)n, (int)m, (int)k, &alpha, B, CUDA_R_32F, (int)ldb, A, CUDA_R_32F, (int)lda,
	                                           &beta, C, CUDA_R_32F, (int)ldc, compute_type(c->precision), CUBLAS_GEMM_DEFAULT);
	if (status != CUBLAS_STATUS_SUCCESS)
		cuda_failed_blas(c, "cublasGemmEx", status);
}
