/* The runtime: device memory that only queued work can touch, and a machine that fails on command.
 * Streams are in streams.cpp. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <map>
#include <string>
#include <vector>

#include "tests/cuda_host/cuda_host.h"
#include "tests/cuda_host/streams.h"

#define RUNTIME_VERSION  13000
#define MEMORY_ALIGNMENT ((size_t)256)
#define MULTIPROCESSORS  4
#define POISON           0xff

struct cuda_host cuda_host;

static const struct cuda_host an_ordinary_machine = {.seed = 1,
                                                     .devices = 1,
                                                     .driver = RUNTIME_VERSION,
                                                     .capability = 90,
                                                     .name = "emulated device",
                                                     .compute_mode = cudaComputeModeDefault,
                                                     .taken = false,
                                                     .memory_bytes = (size_t)256 << 20,
                                                     .memory_taken = 0,
                                                     .no_algorithm = false,
                                                     .heuristics = 0,
                                                     .fail_call = NULL,
                                                     .fail_code = 0};

void cuda_host_reset(void)
{
	cuda_host = an_ordinary_machine;
}
__attribute__((constructor)) static void reset_at_start(void)
{
	cuda_host_reset();
}

bool cuda_host_fails(const char *call)
{
	return cuda_host.fail_call != NULL && strcmp(cuda_host.fail_call, call) == 0;
}

/* --- Device memory
 *
 * It is mapped twice. The addresses that the program sees are accessible only while kernels and
 * libraries run. Copies and the runtime itself use the other mapping. */

static struct {
	unsigned char *base;  /* the program's mapping */
	unsigned char *inner; /* the runtime's mapping */
	size_t reach;         /* bytes from the start that were ever allocated */
	unsigned open;
	std::map<size_t, size_t> given; /* offset to bytes */
	size_t allocated;
} memory;

static void map_memory(void)
{
	if (memory.base != NULL)
		return;
	const int file = memfd_create("emulated device", MFD_CLOEXEC);
	assert(file >= 0);
	const int sized = ftruncate(file, (off_t)CUDA_HOST_MEMORY);
	assert(sized == 0);
	void *base = mmap(NULL, CUDA_HOST_MEMORY, PROT_NONE, MAP_SHARED | MAP_NORESERVE, file, 0);
	void *inner = mmap(NULL, CUDA_HOST_MEMORY, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
	assert(base != MAP_FAILED && inner != MAP_FAILED);
	memory.base = (unsigned char *)base;
	memory.inner = (unsigned char *)inner;
	close(file);
}

void cuda_host_open_memory(void)
{
	if (memory.open++ == 0 && memory.reach > 0)
		mprotect(memory.base, memory.reach, PROT_READ | PROT_WRITE);
}

void cuda_host_close_memory(void)
{
	if (--memory.open == 0 && memory.reach > 0)
		mprotect(memory.base, memory.reach, PROT_NONE);
}

bool cuda_host_in_memory(const void *p)
{
	const unsigned char *at = (const unsigned char *)p;
	return memory.base != NULL && at >= memory.base && at < memory.base + CUDA_HOST_MEMORY;
}

void *cuda_host_inner(const void *p)
{
	return cuda_host_in_memory(p) ? memory.inner + ((const unsigned char *)p - memory.base) : (unsigned char *)(uintptr_t)p;
}

void cuda_host_check_pointer(const char *kernel, unsigned argument, const void *p)
{
	if (p != NULL && !cuda_host_in_memory(p))
		cuda_host_die("argument %u of %s is not in device memory", argument, kernel);
}

size_t cuda_host_allocated(void)
{
	return memory.allocated;
}

/* The first gap that is large enough. */
static bool find_gap(size_t bytes, size_t *at)
{
	*at = 0;
	for (const auto &block : memory.given) {
		if (block.first - *at >= bytes)
			return true;
		*at = block.first + block.second;
	}
	return *at + bytes <= CUDA_HOST_MEMORY;
}

cudaError_t cudaMalloc(void **p, size_t bytes)
{
	MAY_FAIL("cudaMalloc");
	REFUSED_WHILE_CAPTURING();
	const size_t size = (bytes + MEMORY_ALIGNMENT - 1) / MEMORY_ALIGNMENT * MEMORY_ALIGNMENT;
	size_t at;
	map_memory();
	if (memory.allocated + cuda_host.memory_taken + size > cuda_host.memory_bytes || !find_gap(size, &at))
		return cudaErrorMemoryAllocation;
	memory.given[at] = size;
	memory.allocated += size;
	if (at + size > memory.reach)
		memory.reach = (at + size + 4095) / 4096 * 4096;
	memset(memory.inner + at, POISON, size);
	*p = memory.base + at;
	return cudaSuccess;
}

cudaError_t cudaFree(void *p)
{
	REFUSED_WHILE_CAPTURING();
	cuda_host_run_everything(); /* cudaFree waits, as on a device */
	if (p == NULL)
		return cudaSuccess;
	const auto block = memory.given.find((size_t)((unsigned char *)p - memory.base));
	if (block == memory.given.end())
		return cudaErrorInvalidValue;
	memory.allocated -= block->second;
	memory.given.erase(block);
	return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t *available, size_t *total)
{
	*total = cuda_host.memory_bytes;
	*available = cuda_host.memory_bytes - cuda_host.memory_taken - memory.allocated;
	return cudaSuccess;
}

/* --- Pinned memory: required for queued copies */

static std::map<const unsigned char *, size_t> pinned;

cudaError_t cudaHostAlloc(void **p, size_t bytes, unsigned flags)
{
	(void)flags;
	MAY_FAIL("cudaHostAlloc");
	REFUSED_WHILE_CAPTURING();
	*p = malloc(bytes);
	assert(*p != NULL);
	memset(*p, POISON, bytes);
	pinned[(const unsigned char *)*p] = bytes;
	return cudaSuccess;
}

cudaError_t cudaFreeHost(void *p)
{
	REFUSED_WHILE_CAPTURING();
	cuda_host_run_everything();
	pinned.erase((const unsigned char *)p);
	free(p);
	return cudaSuccess;
}

bool cuda_host_is_pinned(const void *p)
{
	const unsigned char *at = (const unsigned char *)p;
	auto block = pinned.upper_bound(at);
	if (block == pinned.begin())
		return false;
	--block;
	return at < block->first + block->second;
}

/* --- Devices and errors */

const char *cuda_host_uuid(int device)
{
	static char text[48];
	snprintf(text, sizeof text, "%s-00000000-0000-0000-0000-%012x", strstr(cuda_host.name, " MIG ") ? "MIG" : "GPU", device);
	return text;
}

/* By number, by UUID or its beginning, or by an instance's older name: MIG-GPU-<its device's
 * UUID>/<number>/0. */
static bool is_named(int device, const char *name, size_t length)
{
	char number[16], older[16];
	const std::string text(name, length);
	snprintf(number, sizeof number, "%d", device);
	snprintf(older, sizeof older, "/%d/0", device);
	if (text.compare(0, 8, "MIG-GPU-") == 0)
		return text.find(older) != std::string::npos;
	return length > 0 && (text == number || strncmp(cuda_host_uuid(device), name, length) == 0);
}

/* The devices that the driver shows, in its order, up to the first invalid name in
 * CUDA_VISIBLE_DEVICES. The real driver reads the variable once; this one reads it each time. */
static std::vector<int> shown()
{
	std::vector<int> all;
	const char *names = getenv("CUDA_VISIBLE_DEVICES");
	for (int i = 0; names == NULL && i < cuda_host.devices; i++)
		all.push_back(i);
	for (bool more = names != NULL; more;) {
		const size_t length = strcspn(names, ",");
		int i = 0;
		while (i < cuda_host.devices && !is_named(i, names, length))
			i++;
		more = i < cuda_host.devices && names[length] == ',';
		if (i < cuda_host.devices)
			all.push_back(i);
		names += length + 1;
	}
	if (strstr(cuda_host.name, " MIG ") != NULL && all.size() > 1)
		all.resize(1);
	return all;
}

cudaError_t cudaGetDeviceCount(int *count)
{
	MAY_FAIL("cudaGetDeviceCount");
	if (cuda_host.driver < RUNTIME_VERSION)
		return cudaErrorInsufficientDriver;
	*count = (int)shown().size();
	return *count > 0 ? cudaSuccess : cudaErrorNoDevice;
}

static bool is_shown(int device)
{
	return device >= 0 && device < (int)shown().size();
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *p, int device)
{
	MAY_FAIL("cudaGetDeviceProperties");
	if (!is_shown(device))
		return cudaErrorInvalidDevice;
	*p = cudaDeviceProp();
	snprintf(p->name, sizeof p->name, "%s", cuda_host.name);
	p->uuid.bytes[15] = (char)shown()[(size_t)device];
	p->major = cuda_host.capability / 10;
	p->minor = cuda_host.capability % 10;
	p->totalGlobalMem = cuda_host.memory_bytes;
	p->multiProcessorCount = MULTIPROCESSORS;
	return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device)
{
	if (!is_shown(device))
		return cudaErrorInvalidDevice;
	if (attribute != cudaDevAttrComputeMode)
		return cudaErrorInvalidValue;
	*value = cuda_host.compute_mode;
	return cudaSuccess;
}

cudaError_t cudaSetDevice(int device)
{
	MAY_FAIL("cudaSetDevice");
	if (!is_shown(device))
		return cudaErrorInvalidDevice;
	if (cuda_host.compute_mode == cudaComputeModeProhibited ||
	    (cuda_host.compute_mode == cudaComputeModeExclusiveProcess && cuda_host.taken))
		return cudaErrorDevicesUnavailable;
	return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int *version)
{
	*version = cuda_host.driver;
	return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *version)
{
	*version = RUNTIME_VERSION;
	return cudaSuccess;
}

cudaError_t cudaGetLastError(void)
{
	return cudaSuccess; /* calls return their own errors */
}

#define CODES(X)                                                                                      \
	X(cudaSuccess, "no error")                                                                        \
	X(cudaErrorInvalidValue, "invalid argument")                                                      \
	X(cudaErrorMemoryAllocation, "out of memory")                                                     \
	X(cudaErrorInvalidConfiguration, "invalid configuration argument")                                \
	X(cudaErrorInsufficientDriver, "CUDA driver version is insufficient for CUDA runtime version")    \
	X(cudaErrorDevicesUnavailable, "CUDA-capable device(s) is/are busy or unavailable")               \
	X(cudaErrorNoDevice, "no CUDA-capable device is detected")                                        \
	X(cudaErrorInvalidDevice, "invalid device ordinal")                                               \
	X(cudaErrorNoKernelImageForDevice, "no kernel image is available for execution on the device")    \
	X(cudaErrorECCUncorrectable, "uncorrectable ECC error encountered")                               \
	X(cudaErrorDeviceAlreadyInUse, "exclusive-thread device already in use by a different thread")    \
	X(cudaErrorUnsupportedPtxVersion, "the provided PTX was compiled with an unsupported toolchain.") \
	X(cudaErrorIllegalAddress, "an illegal memory access was encountered")                            \
	X(cudaErrorLaunchOutOfResources, "too many resources requested for launch")                       \
	X(cudaErrorLaunchFailure, "unspecified launch failure")                                           \
	X(cudaErrorSystemNotReady, "system not yet initialized")                                          \
	X(cudaErrorMpsMaxClientsReached, "MPS client limit has been reached")                             \
	X(cudaErrorStreamCaptureUnsupported, "operation not permitted when stream is capturing")          \
	X(cudaErrorStreamCaptureInvalidated, "operation failed due to a previous error during capture")   \
	X(cudaErrorStreamCaptureUnmatched, "capture was not initiated in this stream")                    \
	X(cudaErrorStreamCaptureIsolation, "dependency created on uncaptured work in another stream")     \
	X(cudaErrorUnknown, "unknown error")

const char *cudaGetErrorString(cudaError_t code)
{
#define CODE_TEXT(name, text) \
	if (code == name)         \
		return text;
	CODES(CODE_TEXT)
#undef CODE_TEXT
	return "unrecognized error code";
}

const char *cudaGetErrorName(cudaError_t code)
{
#define CODE_NAME(name, text) \
	if (code == name)         \
		return #name;
	CODES(CODE_NAME)
#undef CODE_NAME
	return "unrecognized error code";
}
