/* The functions of NVML that gpu.c calls. One device reports everything, one lacks some figures,
 * one cannot be opened. */
#include <stdio.h>
#include <string.h>

#define SUCCESS       0
#define NOT_SUPPORTED 3
#define NO_PERMISSION 4

#define FAKE __attribute__((visibility("default"))) int

static int devices[3];

FAKE nvmlInit_v2(void);
FAKE nvmlShutdown(void);
FAKE nvmlDeviceGetCount_v2(unsigned *count);
FAKE nvmlDeviceGetHandleByIndex_v2(unsigned i, void **device);
FAKE nvmlDeviceGetName(void *device, char *name, unsigned bytes);
FAKE nvmlDeviceGetMemoryInfo(void *device, unsigned long long *total_free_used);
FAKE nvmlDeviceGetUtilizationRates(void *device, unsigned *gpu_memory);
FAKE nvmlDeviceGetTemperature(void *device, int sensor, unsigned *celsius);
FAKE nvmlDeviceGetPowerUsage(void *device, unsigned *milliwatts);
FAKE nvmlDeviceGetTotalEnergyConsumption(void *device, unsigned long long *millijoules);

int nvmlInit_v2(void)
{
	return SUCCESS;
}

int nvmlShutdown(void)
{
	return SUCCESS;
}

int nvmlDeviceGetCount_v2(unsigned *count)
{
	*count = 3;
	return SUCCESS;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **device)
{
	*device = &devices[i];
	return i < 2 ? SUCCESS : NO_PERMISSION;
}

int nvmlDeviceGetName(void *device, char *name, unsigned bytes)
{
	snprintf(name, bytes, "Fake %d", (int)((int *)device - devices));
	return SUCCESS;
}

int nvmlDeviceGetMemoryInfo(void *device, unsigned long long *total_free_used)
{
	(void)device;
	memcpy(total_free_used, (unsigned long long[]){1000, 600, 400}, 3 * sizeof *total_free_used);
	return SUCCESS;
}

int nvmlDeviceGetUtilizationRates(void *device, unsigned *gpu_memory)
{
	gpu_memory[0] = 75;
	gpu_memory[1] = 50;
	return device == &devices[0] ? SUCCESS : NOT_SUPPORTED;
}

int nvmlDeviceGetTemperature(void *device, int sensor, unsigned *celsius)
{
	(void)device;
	*celsius = 61;
	return sensor == 0 ? SUCCESS : NOT_SUPPORTED;
}

int nvmlDeviceGetPowerUsage(void *device, unsigned *milliwatts)
{
	(void)device;
	*milliwatts = 250500;
	return SUCCESS;
}

int nvmlDeviceGetTotalEnergyConsumption(void *device, unsigned long long *millijoules)
{
	*millijoules = 123456;
	return device == &devices[0] ? SUCCESS : NOT_SUPPORTED;
}
