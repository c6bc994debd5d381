/* The parts of CUDA's runtime and device language that the backend uses, for the CPU (cuda_host.h).
 * Replaces the toolkit's header of this name. */
#ifndef WEIR_TESTS_CUDA_RUNTIME_H
#define WEIR_TESTS_CUDA_RUNTIME_H

#include <float.h>
#include <functional>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <type_traits>

#define CUDA_HOST_EMULATED 1

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)

/* --- The device language */

/* fmaf as one instruction where the processor has it, with the bits of the C library's. */
#if defined(__x86_64__)
extern bool cuda_host_has_fma;
#define CUDA_HOST_FMADD(x, y, z) __asm__("vfmadd213ss %2, %1, %0" : "+x"(x) : "x"(y), "x"(z)) /* x = x y + z */
#else
static const bool cuda_host_has_fma = false;
#define CUDA_HOST_FMADD(x, y, z)
#endif
static inline float cuda_host_fmaf(float x, float y, float z)
{
	if (!cuda_host_has_fma)
		return fmaf(x, y, z);
	CUDA_HOST_FMADD(x, y, z);
	return x;
}
#define fmaf(x, y, z) cuda_host_fmaf(x, y, z)

struct uint3 {
	unsigned x, y, z;
};
struct dim3 {
	unsigned x, y, z;
	constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};

/* The indices of the current thread. */
extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;

/* The block's shared memory for one declaration, filled with NaNs at the block's start. `place`
 * identifies the declaration. */
void *cuda_host_shared(const void *place, size_t bytes, size_t alignment);
/* The dynamic shared memory that the launch asked for. */
void *cuda_host_shared_dynamic(void);
#define CUDA_HOST_SHARED(type, name, dims) \
	typedef type name##_shared dims;       \
	static const char name##_place = 0;    \
	name##_shared &name = *(name##_shared *)cuda_host_shared(&name##_place, sizeof(name##_shared), alignof(name##_shared))

enum cuda_host_votes { CUDA_HOST_NO_VOTE, CUDA_HOST_COUNT };
/* Waits for all threads of the block; returns the number of threads with a true `vote`. */
unsigned cuda_host_barrier(bool vote, const char *file, int line);
/* Waits for the lanes in mask. Returns the values of all lanes, valid until the lane's next
 * call. */
const uint64_t *cuda_host_exchange(unsigned mask, uint64_t value, const char *file, int line);
unsigned cuda_host_lane(void);
/* Memory of the lane, for what it shows to others in an exchange of the whole warp: theirs until the
 * next such exchange. */
enum { CUDA_HOST_SHOWN_BYTES = 64 };
void *cuda_host_shown(void);
[[noreturn]] void cuda_host_die(const char *format, ...) __attribute__((format(printf, 1, 2)));

#define CUDA_HOST_HERE const char *file = __builtin_FILE(), int line = __builtin_LINE()

static inline void __syncthreads(CUDA_HOST_HERE)
{
	cuda_host_barrier(false, file, line);
}
static inline int __syncthreads_or(int vote, CUDA_HOST_HERE)
{
	return cuda_host_barrier(vote != 0, file, line) != 0;
}
static inline int __syncthreads_and(int vote, CUDA_HOST_HERE)
{
	return cuda_host_barrier(vote == 0, file, line) == 0;
}
static inline int __syncthreads_count(int vote, CUDA_HOST_HERE)
{
	return (int)cuda_host_barrier(vote != 0, file, line);
}
static inline void __syncwarp(unsigned mask = 0xffffffffu, CUDA_HOST_HERE)
{
	cuda_host_exchange(mask, 0, file, line);
}

/* The value of lane `source`, which must take part. */
template <typename T> static inline T cuda_host_shuffle(unsigned mask, T v, unsigned source, const char *file, int line)
{
	static_assert(sizeof(T) <= sizeof(uint64_t), "a lane's value");
	uint64_t bits = 0;
	memcpy(&bits, &v, sizeof v);
	const uint64_t *all = cuda_host_exchange(mask, bits, file, line);
	if (!(mask >> source & 1))
		cuda_host_die("%s:%d: a shuffle reads lane %u, which is not in its mask %#x", file, line, source, mask);
	memcpy(&v, &all[source], sizeof v);
	return v;
}
template <typename T> static inline T __shfl_sync(unsigned mask, T v, int source, int width = 32, CUDA_HOST_HERE)
{
	const unsigned lane = cuda_host_lane(), w = (unsigned)width;
	return cuda_host_shuffle(mask, v, lane / w * w + (unsigned)source % w, file, line);
}
template <typename T> static inline T __shfl_down_sync(unsigned mask, T v, unsigned delta, int width = 32, CUDA_HOST_HERE)
{
	const unsigned lane = cuda_host_lane(), w = (unsigned)width;
	return cuda_host_shuffle(mask, v, lane % w + delta < w ? lane + delta : lane, file, line);
}
template <typename T> static inline T __shfl_up_sync(unsigned mask, T v, unsigned delta, int width = 32, CUDA_HOST_HERE)
{
	const unsigned lane = cuda_host_lane(), w = (unsigned)width;
	return cuda_host_shuffle(mask, v, lane % w >= delta ? lane - delta : lane, file, line);
}
template <typename T> static inline T __shfl_xor_sync(unsigned mask, T v, int lanes, int width = 32, CUDA_HOST_HERE)
{
	const unsigned lane = cuda_host_lane(), w = (unsigned)width, other = lane ^ (unsigned)lanes;
	return cuda_host_shuffle(mask, v, other / w == lane / w ? other : lane, file, line);
}
static inline unsigned __ballot_sync(unsigned mask, int vote, CUDA_HOST_HERE)
{
	const uint64_t *all = cuda_host_exchange(mask, vote != 0, file, line);
	unsigned set = 0;
	for (unsigned lane = 0; lane < 32; lane++)
		if (mask >> lane & 1 && all[lane] != 0)
			set |= 1u << lane;
	return set;
}
static inline int __any_sync(unsigned mask, int vote, CUDA_HOST_HERE)
{
	return __ballot_sync(mask, vote, file, line) != 0;
}
static inline int __all_sync(unsigned mask, int vote, CUDA_HOST_HERE)
{
	return __ballot_sync(mask, vote, file, line) == mask;
}

/* PTX's ldmatrix of four matrices, and mma.m16n8k16, whose factors `value` widens.
 * kernels/cuda/mma.h describes each lane's elements. */
static inline void cuda_host_load_matrices(uint32_t *m, const void *row, bool transposed, CUDA_HOST_HERE)
{
	if ((uintptr_t)row % 16 != 0)
		cuda_host_die("%s:%d: a matrix's row at %p is not aligned", file, line, row);
	const uint64_t *rows = cuda_host_exchange(0xffffffffu, (uint64_t)(uintptr_t)row, file, line);
	const unsigned g = cuda_host_lane() / 4, t = cuda_host_lane() % 4;
	for (unsigned i = 0; i < 4; i++)
		for (unsigned j = 0; j < 2; j++) {
			const unsigned r = transposed ? 2 * t + j : g, column = transposed ? g : 2 * t + j;
			const uint32_t half = ((const uint16_t *)(uintptr_t)rows[8 * i + r])[column];
			m[i] = j == 0 ? half : m[i] | half << 16;
		}
}
struct cuda_host_fragment {
	float a[4][2], b[2][2]; /* a lane's elements of A and B (kernels/cuda/mma.h) */
};
static_assert(sizeof(cuda_host_fragment) <= CUDA_HOST_SHOWN_BYTES, "a lane shows its fragment");

/* c (4) += the products of the lane's rows and columns. Without the sanitizers' checks, which would
 * take most of the time of a test; all sizes are constants. */
__attribute__((no_sanitize("address", "undefined"))) static inline void cuda_host_products(float *c, const uint64_t *fragments,
                                                                                           unsigned g, unsigned t)
{
	float rows[2][16], columns[2][16]; /* of A and B */
	for (unsigned i = 0; i < 2; i++)
		for (unsigned lane = 0; lane < 4; lane++)
			for (unsigned half = 0; half < 2; half++) {
				const float *a = ((const cuda_host_fragment *)(uintptr_t)fragments[4 * g + lane])->a[2 * half + i];
				const float *b = ((const cuda_host_fragment *)(uintptr_t)fragments[8 * t + 4 * i + lane])->b[half];
				memcpy(&rows[i][8 * half + 2 * lane], a, 2 * sizeof *a);
				memcpy(&columns[i][8 * half + 2 * lane], b, 2 * sizeof *b);
			}
	for (unsigned i = 0; i < 4; i++) {
		float sum = c[i];
		for (unsigned k = 0; k < 16; k++) {
			float x = rows[i / 2][k];
			if (cuda_host_has_fma)
				CUDA_HOST_FMADD(x, columns[i % 2][k], sum);
			else
				x = (fmaf)(x, columns[i % 2][k], sum);
			sum = x;
		}
		c[i] = sum;
	}
}
template <typename F>
static inline void cuda_host_mma(float *c, const uint32_t *a, uint32_t b0, uint32_t b1, F value, CUDA_HOST_HERE)
{
	cuda_host_fragment *mine = (cuda_host_fragment *)cuda_host_shown();
	for (unsigned j = 0; j < 2; j++) {
		for (unsigned i = 0; i < 4; i++)
			mine->a[i][j] = value((uint16_t)(a[i] >> 16 * j));
		mine->b[0][j] = value((uint16_t)(b0 >> 16 * j));
		mine->b[1][j] = value((uint16_t)(b1 >> 16 * j));
	}
	const uint64_t *all = cuda_host_exchange(0xffffffffu, (uint64_t)(uintptr_t)mine, file, line);
	cuda_host_products(c, all, cuda_host_lane() / 4, cuda_host_lane() % 4);
}

static inline int __popc(unsigned x)
{
	return __builtin_popcount(x);
}
static inline int __popcll(unsigned long long x)
{
	return __builtin_popcountll(x);
}
static inline int __clz(int x)
{
	return x == 0 ? 32 : __builtin_clz((unsigned)x);
}
static inline int __ffs(int x)
{
	return __builtin_ffs(x);
}
static inline unsigned __float_as_uint(float x)
{
	unsigned bits;
	memcpy(&bits, &x, sizeof bits);
	return bits;
}
static inline float __uint_as_float(unsigned bits)
{
	float x;
	memcpy(&x, &bits, sizeof x);
	return x;
}

static inline unsigned min(unsigned a, unsigned b)
{
	return a < b ? a : b;
}
static inline unsigned max(unsigned a, unsigned b)
{
	return a > b ? a : b;
}

/* One thread runs at a time and stops only at barriers, so plain arithmetic is atomic. Integers
 * only: a sum of floats would depend on the order. */
template <typename T> static inline T atomicAdd(T *at, T v)
{
	static_assert(std::is_integral<T>::value, "a sum of floats depends on its order");
	const T old = *at;
	*at = (T)(old + v);
	return old;
}
template <typename T> static inline T atomicMax(T *at, T v)
{
	const T old = *at;
	*at = old > v ? old : v;
	return old;
}
template <typename T> static inline T atomicMin(T *at, T v)
{
	const T old = *at;
	*at = old < v ? old : v;
	return old;
}
template <typename T> static inline T atomicOr(T *at, T v)
{
	const T old = *at;
	*at = old | v;
	return old;
}
template <typename T> static inline T atomicExch(T *at, T v)
{
	const T old = *at;
	*at = v;
	return old;
}
template <typename T> static inline T atomicCAS(T *at, T expected, T v)
{
	const T old = *at;
	if (old == expected)
		*at = v;
	return old;
}

/* --- The runtime */

enum cudaError_t {
	cudaSuccess = 0,
	cudaErrorInvalidValue = 1,
	cudaErrorMemoryAllocation = 2,
	cudaErrorInvalidConfiguration = 9,
	cudaErrorInsufficientDriver = 35,
	cudaErrorDevicesUnavailable = 46,
	cudaErrorNoDevice = 100,
	cudaErrorInvalidDevice = 101,
	cudaErrorNoKernelImageForDevice = 209,
	cudaErrorECCUncorrectable = 214,
	cudaErrorDeviceAlreadyInUse = 216,
	cudaErrorUnsupportedPtxVersion = 222,
	cudaErrorIllegalAddress = 700,
	cudaErrorLaunchOutOfResources = 701,
	cudaErrorLaunchFailure = 719,
	cudaErrorSystemNotReady = 802,
	cudaErrorSystemDriverMismatch = 803,
	cudaErrorCompatNotSupportedOnDevice = 804,
	cudaErrorMpsConnectionFailed = 805,
	cudaErrorMpsRpcFailure = 806,
	cudaErrorMpsServerNotReady = 807,
	cudaErrorMpsMaxClientsReached = 808,
	cudaErrorMpsMaxConnectionsReached = 809,
	cudaErrorStreamCaptureUnsupported = 900,
	cudaErrorStreamCaptureInvalidated = 901,
	cudaErrorStreamCaptureUnmatched = 903,
	cudaErrorStreamCaptureIsolation = 905,
	cudaErrorUnknown = 999,
};
enum cudaMemcpyKind { cudaMemcpyHostToDevice = 1, cudaMemcpyDeviceToHost = 2, cudaMemcpyDeviceToDevice = 3 };
enum { cudaStreamNonBlocking = 1, cudaHostAllocDefault = 0, cudaEventDisableTiming = 2 };

enum cudaComputeMode { cudaComputeModeDefault = 0, cudaComputeModeProhibited = 2, cudaComputeModeExclusiveProcess = 3 };
enum cudaDeviceAttr { cudaDevAttrComputeMode = 20 };

struct cudaUUID_t {
	char bytes[16];
};
struct cudaDeviceProp {
	char name[256];
	cudaUUID_t uuid;
	int major, minor;
	size_t totalGlobalMem;
	int multiProcessorCount;
};
typedef struct cuda_host_stream *cudaStream_t;
typedef struct cuda_host_event *cudaEvent_t;
typedef struct cuda_host_graph *cudaGraph_t;
typedef struct cuda_host_graph_exec *cudaGraphExec_t;
enum cudaStreamCaptureMode { cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal, cudaStreamCaptureModeRelaxed };

cudaError_t cudaGetDeviceCount(int *count);
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *p, int device);
cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaDriverGetVersion(int *version);
cudaError_t cudaRuntimeGetVersion(int *version);
cudaError_t cudaGetLastError(void);
const char *cudaGetErrorString(cudaError_t code);
const char *cudaGetErrorName(cudaError_t code);
cudaError_t cudaMemGetInfo(size_t *available, size_t *total);
cudaError_t cudaMalloc(void **p, size_t bytes);
cudaError_t cudaFree(void *p);
cudaError_t cudaHostAlloc(void **p, size_t bytes, unsigned flags);
cudaError_t cudaFreeHost(void *p);
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream);
cudaError_t cudaMemsetAsync(void *p, int value, size_t bytes, cudaStream_t stream);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags);
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode);
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph);
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long flags);
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream);
cudaError_t cudaGraphDestroy(cudaGraph_t graph);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec);

/* --- Launches */

/* Queues a launch; each thread calls `thread`. */
cudaError_t cuda_host_queue_launch(const char *kernel, dim3 grid, dim3 block, size_t shared_bytes, cudaStream_t stream,
                                   std::function<void()> thread);
/* Queues a library's work on a stream. */
void cuda_host_queue(cudaStream_t stream, std::function<void()> work);
/* Aborts unless p is NULL or points to device memory. */
void cuda_host_check_pointer(const char *kernel, unsigned argument, const void *p);

template <typename T> static inline void cuda_host_check_argument(const char *kernel, unsigned argument, const T &value)
{
	if constexpr (std::is_pointer<T>::value)
		cuda_host_check_pointer(kernel, argument, (const void *)value);
	else
		(void)kernel, (void)argument, (void)value;
}

template <typename... P>
cudaError_t cuda_host_launch(const char *name, dim3 grid, dim3 block, size_t shared_bytes, cudaStream_t stream,
                             void (*kernel)(P...), P... args)
{
	unsigned number = 0;
	(cuda_host_check_argument(name, ++number, args), ...);
	return cuda_host_queue_launch(name, grid, block, shared_bytes, stream, [=]() { kernel(args...); });
}

#endif
