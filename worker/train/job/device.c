#include "worker/train/job/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VISIBLE "CUDA_VISIBLE_DEVICES"

/* Keeps all entries of the list, for programs that this one starts. */
static void turn_round(const char *list, uint32_t turn)
{
	uint32_t count = 1;
	for (const char *c = list; *c; c++)
		count += *c == ',';
	const char *first = list;
	for (turn %= count; turn > 0; turn--)
		first = strchr(first, ',') + 1;
	char *turned = NULL;
	if (first > list && asprintf(&turned, "%s,%.*s", first, (int)(first - list - 1), list) > 0)
		setenv(VISIBLE, turned, 1);
	free(turned);
}

void device_show(const struct job *job, uint32_t turn)
{
	const char *visible = getenv(VISIBLE);
	const bool any = strcmp(job->device, "auto") == 0 || strcmp(job->device, "cuda") == 0;
	if (strncmp(job->device, "cuda:MIG-", strlen("cuda:MIG-")) == 0)
		setenv(VISIBLE, job->device + strlen("cuda:"), 1);
	else if (any && visible && strncmp(visible, "MIG-", 4) == 0)
		turn_round(visible, turn);
}

struct backend_options device_options(const struct job *job, uint32_t turn, uint32_t threads, bool trains)
{
	static const enum compute_precision precisions[] = {
	    [TRAIN_FP32] = COMPUTE_FP32, [TRAIN_TF32] = COMPUTE_TF32, [TRAIN_BF16] = COMPUTE_BF16, [TRAIN_FP16] = COMPUTE_FP16};
	return (struct backend_options){.device = job->device,
	                                .precision = trains ? precisions[job->train.precision] : COMPUTE_FP32,
	                                .threads = threads,
	                                .turn = turn,
	                                .memory_bytes = job->train.device_memory_bytes};
}
