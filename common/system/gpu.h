/* All NVIDIA devices of this machine, as the driver's management library NVML reports them,
 * whichever process uses them. gpu.c opens the library at run time; without it there are no
 * devices. gpu.c declares NVML's functions as in its reference manual, so the build does not need
 * NVML. */
#ifndef WEIR_GPU_H
#define WEIR_GPU_H

#include <stdio.h>

#include "common/base/limits.h"

#define GPU_LIBRARY "libnvidia-ml.so.1"

struct gpu;
struct gpu *gpu_open(const char *library); /* NULL: the library is missing, or finds no device */
/* Writes memory, use, temperature, power and energy of each device; omits what a device does not
 * report. gpu NULL: writes nothing. */
void gpu_series(const struct gpu *gpu, FILE *out);
/* Energy that each device has used since its driver was loaded; negative: it does not tell, or
 * there is no such device. */
void gpu_joules(const struct gpu *gpu, double out[WEIR_GPUS_MAX]);
void gpu_close(struct gpu *gpu); /* NULL is allowed */

#endif
