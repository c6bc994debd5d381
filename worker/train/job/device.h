/* The worker's compute device, from the job's keys device, train.precision and
 * train.device_memory. */
#ifndef WEIR_DEVICE_H
#define WEIR_DEVICE_H

#include "common/job/job.h"
#include "kernels/backend.h"

/* Of several MIG instances the driver shows a process only one: the first that CUDA_VISIBLE_DEVICES
 * names at the first query. This function makes it the job's (device: cuda:MIG-...), or rotates the
 * variable's list to begin with its turn-th entry (auto, cuda). A program's main calls it once,
 * before there are threads. */
void device_show(const struct job *job, uint32_t turn);

/* turn: index among the workers of a machine. Training uses the job's precision; scores are
 * computed in fp32. Borrows the job. */
struct backend_options device_options(const struct job *job, uint32_t turn, uint32_t threads, bool trains);

#endif
