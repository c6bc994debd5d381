/* Shared by the emulator's files. */
#ifndef WEIR_TESTS_CUDA_GRID_H
#define WEIR_TESTS_CUDA_GRID_H

#include "tests/cuda_host/cuda_runtime.h"

/* Runs every block of a launch now. */
void cuda_host_run_grid(const char *kernel, dim3 grid, dim3 block, size_t shared_bytes, const std::function<void()> &thread);

#endif
