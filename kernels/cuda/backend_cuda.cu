/* The CUDA backend: its life and its table of ops. */
#include <stdio.h>
#include <stdlib.h>

#include "cuda.h"

#define DRIVER_FOR_RUNTIME "580" /* the first driver that CUDA 13 runs on */

extern "C" WEIR_API struct backend *weir_backend_cuda_create(uint32_t device, weir_error *err);
extern "C" WEIR_API const struct backend_ops *weir_backend_cuda_ops(void);

static void cuda_destroy(struct backend *b)
{
	struct cuda_backend *c = cuda_of(b);
	if (c->stream != NULL)
		cudaStreamSynchronize(c->stream); /* what fails now nobody waits for */
	if (c->blas != NULL)
		cublasDestroy(c->blas);
	cuda_memory_close(c);
	if (c->stream != NULL)
		cudaStreamDestroy(c->stream);
	unique_free(&c->table);
	free(c);
}

static weir_status cuda_sync(struct backend *b, weir_error *err)
{
	struct cuda_backend *c = cuda_of(b);
	CUDA_TRY(c, cudaStreamSynchronize(c->stream));
	if (!cuda_ok(c))
		return weir_fail(err, c->fault.status, "%s", c->fault.text);
	if (c->shortness.status != WEIR_OK) {
		const weir_error told = c->shortness;
		c->shortness.status = WEIR_OK;
		return weir_fail(err, told.status, "%s", told.text);
	}
	return WEIR_OK;
}

size_t cuda_unique(struct backend *b, const uint64_t *keys, size_t n, uint64_t *unique_keys, uint32_t *index)
{
	return unique_of(&cuda_of(b)->table, keys, n, unique_keys, index);
}

#define CUDA_ENTRY(op) .op = cuda_##op,
static const struct backend_ops cuda_ops = {
    .name = CUDA_BACKEND_NAME, .host_memory = false, .destroy = cuda_destroy, .sync = cuda_sync, BACKEND_OPS(CUDA_ENTRY)};
#undef CUDA_ENTRY

const struct backend_ops *weir_backend_cuda_ops(void)
{
	return &cuda_ops;
}

/* --- Is there a device? */

static weir_status no_driver(cudaError_t code, weir_error *err)
{
	int driver = 0, runtime = 0;
	cudaDriverGetVersion(&driver);
	cudaRuntimeGetVersion(&runtime);
	if (driver == 0)
		return weir_fail(
		    err, WEIR_E_UNSUPPORTED,
		    "no CUDA device: there is no NVIDIA driver here (cudaGetDeviceCount: %s); install driver %s or later, or use "
		    "device: cpu",
		    cudaGetErrorString(code), DRIVER_FOR_RUNTIME);
	return weir_fail(
	    err, WEIR_E_UNSUPPORTED,
	    "no CUDA device: cudaGetDeviceCount: %s (the driver is for CUDA %d.%d, this program for %d.%d); install driver %s or "
	    "later, or use device: cpu",
	    cudaGetErrorString(code), driver / 1000, driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10, DRIVER_FOR_RUNTIME);
}

static weir_status check_count(uint32_t device, weir_error *err)
{
	int count = 0;
	const cudaError_t code = cudaGetDeviceCount(&count);
	if (code == cudaErrorNoDevice || (code == cudaSuccess && count == 0))
		return weir_fail(
		    err, WEIR_E_UNSUPPORTED,
		    "no CUDA device: the driver shows none (cudaGetDeviceCount: %s); see what nvidia-smi and CUDA_VISIBLE_DEVICES "
		    "say, or use device: cpu",
		    cudaGetErrorString(cudaErrorNoDevice));
	if (code != cudaSuccess)
		return no_driver(code, err);
	if (device < (uint32_t)count)
		return WEIR_OK;
	struct cudaDeviceProp last;
	const char *name = cudaGetDeviceProperties(&last, count - 1) == cudaSuccess ? last.name : "?";
	return weir_fail(
	    err, WEIR_E_UNSUPPORTED,
	    "no device cuda:%u: this machine shows %d, the last of them cuda:%d (%s); choose one of them, or use device: cpu", device,
	    count, count - 1, name);
}

/* Names the device as the runtime does (a MIG instance is a device of its own, and is named as one). */
static weir_status check_device(struct cuda_backend *c, weir_error *err)
{
	struct cudaDeviceProp properties;
	const cudaError_t code = cudaGetDeviceProperties(&properties, c->device);
	if (code != cudaSuccess)
		return weir_fail(err, WEIR_E_UNSUPPORTED,
		                 "cuda:%d: cudaGetDeviceProperties: %s; see what nvidia-smi says, or use device: cpu", c->device,
		                 cudaGetErrorString(code));
	snprintf(c->name, sizeof c->name, "cuda:%d (%s)", c->device, properties.name);
	if (10 * properties.major + properties.minor < CUDA_CAPABILITY_MIN)
		return weir_fail(err, WEIR_E_UNSUPPORTED,
		                 "%s has compute capability %d.%d; %d.%d is needed: choose another device, or use device: cpu", c->name,
		                 properties.major, properties.minor, CUDA_CAPABILITY_MIN / 10, CUDA_CAPABILITY_MIN % 10);
	return WEIR_OK;
}

static void open_blas(struct cuda_backend *c)
{
	cublasStatus_t status = cublasCreate(&c->blas);
	if (status == CUBLAS_STATUS_SUCCESS)
		status = cublasSetStream(c->blas, c->stream);
	/* memory of ours, so that cuBLAS allocates none later */
	if (status == CUBLAS_STATUS_SUCCESS && (c->blas_workspace = cuda_pool_take(c, CUDA_BLAS_WORKSPACE)) == NULL && cuda_ok(c))
		c->fault = c->shortness;
	if (status == CUBLAS_STATUS_SUCCESS && cuda_ok(c))
		status = cublasSetWorkspace(c->blas, c->blas_workspace, CUDA_BLAS_WORKSPACE);
	if (status != CUBLAS_STATUS_SUCCESS)
		cuda_failed_blas(c, "cublasCreate", status);
}

struct backend *weir_backend_cuda_create(uint32_t device, weir_error *err)
{
	if (check_count(device, err) != WEIR_OK)
		return NULL;
	struct cuda_backend *c = (struct cuda_backend *)calloc(1, sizeof *c);
	if (c == NULL) {
		weir_fail(err, WEIR_E_MEMORY, "CUDA backend: no memory");
		return NULL;
	}
	c->base.ops = &cuda_ops;
	c->device = (int)device;
	c->math = CUDA_MATH_DEFAULT;
	if (check_device(c, err) != WEIR_OK) {
		free(c);
		return NULL;
	}
	CUDA_TRY(c, cudaSetDevice(c->device));
	CUDA_TRY(c, cudaStreamCreateWithFlags(&c->stream, cudaStreamNonBlocking));
	if (cuda_ok(c) && cuda_memory_open(c))
		open_blas(c);
	if (!cuda_ok(c)) {
		weir_fail(err, WEIR_E_UNSUPPORTED, "%s", c->fault.text);
		cuda_destroy(&c->base);
		return NULL;
	}
	return &c->base;
}
