/* Shared by the runtime's files. */
#ifndef WEIR_TESTS_CUDA_STREAMS_H
#define WEIR_TESTS_CUDA_STREAMS_H

#include "tests/cuda_host/cuda_runtime.h"

/* Whether this call is set to fail. */
bool cuda_host_fails(const char *call);
#define MAY_FAIL(call)         \
	if (cuda_host_fails(call)) \
	return (cudaError_t)cuda_host.fail_code

/* --- Memory (runtime.cpp) */

bool cuda_host_in_memory(const void *p);
bool cuda_host_is_pinned(const void *p);
/* The runtime's address of memory that the program knows as p. */
void *cuda_host_inner(const void *p);
/* Makes device memory accessible to kernels and libraries, or closes it again. */
void cuda_host_open_memory(void);
void cuda_host_close_memory(void);

/* --- Streams (streams.cpp) */

void cuda_host_run_everything(void);
/* For calls that invalidate a capture: returns true, and invalidates it, if one is in progress. */
bool cuda_host_ends_capture(void);
#define REFUSED_WHILE_CAPTURING() \
	if (cuda_host_ends_capture()) \
	return cudaErrorStreamCaptureUnsupported

#endif
