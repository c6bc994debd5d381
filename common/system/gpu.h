/* NVIDIA's devices of this machine as the driver's management library, NVML, sees them: all of them, whoever uses them. The library is opened at run time, and
 * where it is missing there are no devices. Its functions are declared here as its reference manual has them: nothing is built against it. */
#ifndef WEIR_GPU_H
#define WEIR_GPU_H

#include <stdio.h>

#define GPU_LIBRARY "libnvidia-ml.so.1"

struct gpu;
struct gpu *gpu_open(const char *library); /* NULL: it is not there, or finds no device */
/* What each device tells of memory, use, temperature, power and energy; what it does not tell is left out. gpu NULL: nothing. */
void gpu_series(const struct gpu *gpu, FILE *out);
void gpu_close(struct gpu *gpu); /* NULL is fine */

#endif
