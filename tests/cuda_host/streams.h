/* What the runtime's files share. */
#ifndef WEIR_TESTS_CUDA_STREAMS_H
#define WEIR_TESTS_CUDA_STREAMS_H

#include "tests/cuda_host/cuda_runtime.h"

/* Whether the machine is told to fail this call. */
bool cuda_host_fails(const char *call);
#define MAY_FAIL(call)         \
	if (cuda_host_fails(call)) \
	return (cudaError_t)cuda_host.fail_code

/* --- Memory (runtime.cpp) */

bool cuda_host_in_memory(const void *p);
bool cuda_host_is_pinned(const void *p);
/* Where the runtime has what a program knows as p. */
void *cuda_host_inner(const void *p);
/* Within reach of kernels and libraries, and out of it again. */
void cuda_host_open_memory(void);
void cuda_host_close_memory(void);

/* --- Streams (streams.cpp) */

void cuda_host_run_everything(void);
/* What a capture does not survive: true while there is one, which is no good any more. */
bool cuda_host_ends_capture(void);
#define REFUSED_WHILE_CAPTURING() \
	if (cuda_host_ends_capture()) \
	return cudaErrorStreamCaptureUnsupported

#endif
