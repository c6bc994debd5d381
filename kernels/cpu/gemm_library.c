/* The only user of oneDNN and of CBLAS: their sgemm on the calling thread alone.
 * kernels/CMakeLists.txt decides which of them is used. */
#include "kernels/cpu/cpu.h"

#if defined(WEIR_GEMM_DNNL)
#include <assert.h>
#include <dnnl.h>

#if DNNL_CPU_THREADING_RUNTIME == DNNL_RUNTIME_OMP
/* From the OpenMP runtime that oneDNN brings; the setting applies to the calling thread only. */
void omp_set_num_threads(int threads);
static void use_one_thread(void)
{
	omp_set_num_threads(1);
}
#else
static void use_one_thread(void) {}
#endif

static void library_gemm(const struct gemm_args *g, void *scratch)
{
	(void)scratch;
	use_one_thread();
	dnnl_status_t status =
	    dnnl_sgemm(g->trans_a ? 'T' : 'N', g->trans_b ? 'T' : 'N', (dnnl_dim_t)g->m, (dnnl_dim_t)g->n, (dnnl_dim_t)g->k, g->alpha,
	               g->A, (dnnl_dim_t)g->lda, g->B, (dnnl_dim_t)g->ldb, g->beta, g->C, (dnnl_dim_t)g->ldc);
	assert(status == dnnl_success); /* fails only for wrong strides, which were checked */
}

gemm_fn gemm_library(void)
{
	return library_gemm;
}
const char *gemm_library_name(void)
{
	return "oneDNN";
}

#elif defined(WEIR_GEMM_CBLAS)
#include <cblas.h>

/* OpenBLAS: its thread count applies to the process. */
void openblas_set_num_threads(int threads);

static void library_gemm(const struct gemm_args *g, void *scratch)
{
	(void)scratch;
	openblas_set_num_threads(1);
	cblas_sgemm(CblasRowMajor, g->trans_a ? CblasTrans : CblasNoTrans, g->trans_b ? CblasTrans : CblasNoTrans, (int)g->m,
	            (int)g->n, (int)g->k, g->alpha, g->A, (int)g->lda, g->B, (int)g->ldb, g->beta, g->C, (int)g->ldc);
}

gemm_fn gemm_library(void)
{
	return library_gemm;
}
const char *gemm_library_name(void)
{
	return "CBLAS";
}

#else
gemm_fn gemm_library(void)
{
	return NULL;
}
const char *gemm_library_name(void)
{
	return "own";
}
#endif
