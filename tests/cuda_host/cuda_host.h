/* A CUDA device in this process, for tests of kernels where there is none: the .cu sources compiled as C++, their threads run one at a time
 * on the CPU, each with a stack of its own, in an order that a seed gives. What shows:
 *     a missing barrier         threads run far apart between barriers, in another order with each seed
 *     a barrier that diverged   aborts, with the kernel and the places where its threads wait; the same for the lanes of a warp
 *     memory nobody wrote       device and shared memory begin as NaNs
 *     the host at device memory it can be touched by kernels and copies alone: elsewhere it is a segmentation fault
 *     a kernel at host memory   a pointer that is given to a kernel and is not device memory aborts
 *     a copy not waited for     work is queued, and done when its stream is waited for, not before
 *     an event not waited for   meanwhile the other streams do nothing, some or all of their work, as the seed has it
 *     what a graph cannot have  waiting, allocating and copies of ordinary memory end a capture, as on a device
 * What does not: timing, the memory order of real warps, more than one thread of the host (calls are from one at a time). */
#ifndef WEIR_TESTS_CUDA_HOST_H
#define WEIR_TESTS_CUDA_HOST_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/backend.h"

#ifdef __cplusplus
extern "C" {
#endif

#define CUDA_HOST_MEMORY ((size_t)1 << 30) /* of the device */

/* The machine as the runtime sees it. Tests change it, and set it back with cuda_host_reset. */
struct cuda_host {
	uint64_t seed;         /* of the order of threads, blocks and, when the first is made, of streams */
	int devices;           /* how many there are; CUDA_VISIBLE_DEVICES says which of them, by number or UUID, the driver shows */
	int driver;            /* version; 0: none is installed */
	int capability;        /* 10 major + minor */
	const char *name;      /* of each device; with " MIG " in it, they are instances, of which a process is shown one */
	int compute_mode;      /* cudaComputeMode */
	bool taken;            /* by another process: in exclusive-process mode */
	size_t memory_bytes;   /* at most CUDA_HOST_MEMORY */
	size_t memory_taken;   /* of that, by other processes */
	bool no_algorithm;     /* cuBLASLt has none */
	unsigned heuristics;   /* how often it was asked for one */
	const char *fail_call; /* a call of the runtime that fails, or NULL */
	int fail_code;         /* cudaError_t */
};
extern struct cuda_host cuda_host;
void cuda_host_reset(void);
/* Bytes of device memory that nobody has freed. */
size_t cuda_host_allocated(void);
/* How often the host has waited for work that was not done yet, since the process began. */
size_t cuda_host_waits(void);
/* Bytes that copies have brought to the host, since the process began. */
size_t cuda_host_brought(void);

/* The UUID of a device: "GPU-00000000-0000-0000-0000-000000000007" of number 7. Static memory, until the next call. */
const char *cuda_host_uuid(int device);

/* Launches of graphs so far. A whole program shows how many of them are under way at each wait in the
 * file that WEIR_CUDA_HOST_TRACE names. */
size_t cuda_host_graph_launches(void);

/* The entries of the emulated backend, of the name "cuda (emulated)". */
struct backend *weir_backend_cuda_create(const struct backend_options *options, weir_error *err);
weir_status weir_backend_cuda_check(const struct backend_options *options, weir_error *err);
const struct backend_ops *weir_backend_cuda_ops(void);

#ifdef __cplusplus
}
#endif
#endif
