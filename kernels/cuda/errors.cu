/* Failures, kept until sync reports them: device, op, the runtime's message and the remedy. */
#include "kernels/cuda/cuda.h"

const char *cuda_remedy(cudaError_t code)
{
	switch (code) {
	case cudaErrorMemoryAllocation:
		return "make data.batch smaller, end other programs on the device, or use device: cpu";
	case cudaErrorNoKernelImageForDevice:
	case cudaErrorUnsupportedPtxVersion:
		return "build libweir_cuda.so for this device (WEIR_CUDA_ARCHITECTURES), or use device: cpu";
	case cudaErrorSystemNotReady:
	case cudaErrorSystemDriverMismatch:
	case cudaErrorCompatNotSupportedOnDevice:
		return "the driver and what runs beside it (nvidia-fabricmanager, CUDA's compatibility package) do not go together: see "
		       "what nvidia-smi says, or use device: cpu";
	case cudaErrorMpsConnectionFailed:
	case cudaErrorMpsRpcFailure:
	case cudaErrorMpsServerNotReady:
	case cudaErrorMpsMaxClientsReached:
	case cudaErrorMpsMaxConnectionsReached:
		return "see that nvidia-cuda-mps-control runs and has room for one more program, or use device: cpu";
	case cudaErrorECCUncorrectable:
	case cudaErrorDevicesUnavailable:
		return "see what nvidia-smi says of the device, or use device: cpu";
	case cudaErrorStreamCaptureUnsupported:
	case cudaErrorStreamCaptureInvalidated:
	case cudaErrorStreamCaptureIsolation:
		return "an op was called that cannot be part of a run of ops (backend.h, replay)";
	case cudaErrorIllegalAddress:
	case cudaErrorLaunchFailure: /* reported by a later call than the one that failed */
		return "CUDA_LAUNCH_BLOCKING=1 in the environment shows which kernel; use device: cpu to go on without it";
	default:
		return "see what nvidia-smi says of the device; use device: cpu to go on without it";
	}
}

void cuda_failed(struct cuda_backend *c, const char *call, cudaError_t code)
{
	if (cuda_ok(c))
		weir_fail(&c->fault, code == cudaErrorMemoryAllocation ? WEIR_E_MEMORY : WEIR_E_INTERNAL, "%s: %s: %s (%s); %s",
		          c->device.name, call, cudaGetErrorString(code), cudaGetErrorName(code), cuda_remedy(code));
}

void cuda_failed_blas(struct cuda_backend *c, const char *call, cublasStatus_t code)
{
	if (cuda_ok(c))
		weir_fail(&c->fault, code == CUBLAS_STATUS_ALLOC_FAILED ? WEIR_E_MEMORY : WEIR_E_INTERNAL, "%s: %s: %s (%s); %s",
		          c->device.name, call, cublasGetStatusString(code), cublasGetStatusName(code),
		          cuda_remedy(code == CUBLAS_STATUS_ALLOC_FAILED ? cudaErrorMemoryAllocation : cudaErrorUnknown));
}

void cuda_failed_limit(struct cuda_backend *c, const char *what)
{
	if (cuda_ok(c))
		weir_fail(&c->fault, WEIR_E_LIMIT, "%s: %s; make data.batch smaller or use device: cpu", c->device.name, what);
}
