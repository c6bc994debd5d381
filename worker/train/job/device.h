/* Where a worker computes, as the job says: device, train.precision, train.device_memory. */
#ifndef WEIR_TRAIN_DEVICE_H
#define WEIR_TRAIN_DEVICE_H

#include "common/job/job.h"
#include "kernels/backend.h"

/* Of several MIG instances the driver shows a process one: the first that CUDA_VISIBLE_DEVICES names when it is asked for the first time. This makes it the job's
 * (device: cuda:MIG-...), or begins the variable's list with its turn-th (auto, cuda). Once, before there are threads: by a program's main. */
void device_show(const struct job *job, uint32_t turn);

/* turn: of the workers of a machine. A worker's precision is the job's while it trains; scores are computed in fp32. Borrows the job. */
struct backend_options device_options(const struct job *job, uint32_t turn, uint32_t threads, bool trains);

#endif
