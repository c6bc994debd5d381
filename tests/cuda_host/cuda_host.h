/* A CUDA device in this process, to test kernels without a GPU. The .cu sources are compiled as
 * C++. Their threads run one at a time on the CPU, each on its own stack, in an order that a seed
 * gives. The emulator finds:
 *
 *     a missing barrier           threads run far apart between barriers, in an order of the seed
 *     a diverged barrier          aborts with the kernel and the places where threads wait; also
 *                                 for the lanes of a warp
 *     uninitialised memory        device and shared memory begin as NaNs
 *     host access to the device   a segmentation fault outside kernels and copies
 *     a kernel on host memory     aborts if a kernel's pointer argument is no device memory
 *     a copy without a wait       queued work runs only when its stream is waited for
 *     an event without a wait     other streams meanwhile do none, some or all of their work
 *     a call illegal in a graph   waits, allocations and copies of ordinary memory end a capture
 *
 * It does not model timing, the memory order of real warps, or several host threads. */
#ifndef WEIR_TESTS_CUDA_HOST_H
#define WEIR_TESTS_CUDA_HOST_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/backend.h"

#ifdef __cplusplus
extern "C" {
#endif

#define CUDA_HOST_MEMORY ((size_t)1 << 30) /* per device */

/* The machine as the runtime sees it. Tests change it, and restore it with cuda_host_reset. */
struct cuda_host {
	uint64_t seed; /* orders threads and blocks, and streams from the first one's creation on */
	/* Number of devices. CUDA_VISIBLE_DEVICES selects those that the driver shows, by number or
	 * UUID. */
	int devices;
	int driver;     /* version; 0: not installed */
	int capability; /* 10 major + minor */
	/* Name of each device. With " MIG " in it, devices are instances, and a process sees one. */
	const char *name;
	int compute_mode;      /* cudaComputeMode */
	bool taken;            /* another process has it, in exclusive-process mode */
	size_t memory_bytes;   /* at most CUDA_HOST_MEMORY */
	size_t memory_taken;   /* taken by other processes */
	bool no_algorithm;     /* cuBLASLt finds no algorithm */
	unsigned heuristics;   /* number of searches for an algorithm */
	const char *fail_call; /* runtime call that fails, or NULL */
	int fail_code;         /* cudaError_t */
};
extern struct cuda_host cuda_host;
void cuda_host_reset(void);
/* The same as a setup function of cmocka. */
static inline int cuda_host_ordinary(void **state)
{
	(void)state;
	cuda_host_reset();
	return 0;
}
/* Bytes of device memory in use. */
size_t cuda_host_allocated(void);
/* Number of times the host waited for unfinished work since the process began. */
size_t cuda_host_waits(void);
/* Bytes copied to the host since the process began. */
size_t cuda_host_brought(void);

/* The UUID of a device, for example "GPU-00000000-0000-0000-0000-000000000007" for number 7. Static
 * memory, valid until the next call. */
const char *cuda_host_uuid(int device);

/* Number of graph launches so far. A program logs the unfinished ones at each wait to the file that
 * WEIR_CUDA_HOST_TRACE names. */
size_t cuda_host_graph_launches(void);

/* Creates the emulated backend, named "cuda (emulated)". */
struct backend *weir_backend_cuda_create(const struct backend_options *options, weir_error *err);
weir_status weir_backend_cuda_check(const struct backend_options *options, weir_error *err);
const struct backend_ops *weir_backend_cuda_ops(void);

#ifdef __cplusplus
}
#endif
#endif
