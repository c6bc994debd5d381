/* What the backend uses of cuBLAS and CUB, by plain loops. */
#include <algorithm>
#include <vector>

#include "cublas_v2.h"
#include "cuda_host.h"
#include "sort.h"

struct cuda_host_blas {
	cudaStream_t stream;
};

cublasStatus_t cublasCreate(cublasHandle_t *handle)
{
	if (cuda_host.fail_call != NULL && strcmp(cuda_host.fail_call, "cublasCreate") == 0)
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
	return status == CUBLAS_STATUS_SUCCESS        ? "CUBLAS_STATUS_SUCCESS"
	       : status == CUBLAS_STATUS_ALLOC_FAILED ? "CUBLAS_STATUS_ALLOC_FAILED"
	                                              : "CUBLAS_STATUS_INVALID_VALUE";
}

const char *cublasGetStatusString(cublasStatus_t status)
{
	return status == CUBLAS_STATUS_SUCCESS        ? "success"
	       : status == CUBLAS_STATUS_ALLOC_FAILED ? "the resource allocation failed"
	                                              : "an unsupported value or parameter was passed to the function";
}

cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b, int m, int n, int k,
                            const void *alpha, const void *A, cudaDataType type_a, int lda, const void *B, cudaDataType type_b,
                            int ldb, const void *beta, void *C, cudaDataType type_c, int ldc, cublasComputeType_t compute,
                            cublasGemmAlgo_t algorithm)
{
	(void)type_a, (void)type_b, (void)type_c, (void)compute, (void)algorithm;
	const bool ta = op_a == CUBLAS_OP_T, tb = op_b == CUBLAS_OP_T;
	if (m < 0 || n < 0 || k < 0 || lda < (ta ? k : m) || ldb < (tb ? n : k) || ldc < m)
		return CUBLAS_STATUS_INVALID_VALUE;
	cuda_host_check_pointer("cublasGemmEx", 8, A);
	cuda_host_check_pointer("cublasGemmEx", 11, B);
	cuda_host_check_pointer("cublasGemmEx", 15, C);
	const float by = *(const float *)alpha, keep = *(const float *)beta; /* read when called, like the original */
	const size_t sa = (size_t)lda, sb = (size_t)ldb, sc = (size_t)ldc, depth = (size_t)k;
	cuda_host_queue(handle->stream, [=]() {
		const float *a = (const float *)A, *b = (const float *)B;
		float *c = (float *)C;
		for (size_t j = 0; j < (size_t)n; j++)
			for (size_t i = 0; i < (size_t)m; i++) {
				float sum = 0;
				for (size_t p = 0; p < depth; p++)
					sum += (ta ? a[p + i * sa] : a[i + p * sa]) * (tb ? b[j + p * sb] : b[p + j * sb]);
				float *to = &c[i + j * sc];
				*to = keep == 0 ? by * sum : by * sum + keep * *to;
			}
	});
	return CUBLAS_STATUS_SUCCESS;
}

size_t cuda_sort_bytes(size_t n, unsigned bits, cudaError_t *code)
{
	(void)n, (void)bits;
	*code = cudaSuccess;
	return 1;
}

cudaError_t cuda_sort(void *temporary, size_t temporary_bytes, const uint32_t *keys, uint32_t *sorted_keys,
                      const uint32_t *values, uint32_t *sorted_values, size_t n, unsigned bits, cudaStream_t stream)
{
	if (temporary == NULL || temporary_bytes == 0)
		return cudaErrorInvalidValue;
	const void *const pointers[] = {keys, sorted_keys, values, sorted_values};
	for (unsigned i = 0; i < 4; i++)
		cuda_host_check_pointer("sort", i + 2, pointers[i]);
	cuda_host_queue(stream, [=]() {
		const uint32_t mask = bits >= 32 ? UINT32_MAX : (1u << bits) - 1;
		std::vector<size_t> order(n);
		for (size_t i = 0; i < n; i++)
			order[i] = i;
		std::stable_sort(order.begin(), order.end(), [=](size_t a, size_t b) { return (keys[a] & mask) < (keys[b] & mask); });
		for (size_t i = 0; i < n; i++) {
			sorted_keys[i] = keys[order[i]];
			sorted_values[i] = values[order[i]];
		}
	});
	return cudaSuccess;
}
