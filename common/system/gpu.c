#include "common/system/gpu.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdlib.h>

#include "common/base/exposition.h"

#define NVML_SUCCESS         0
#define NVML_TEMPERATURE_GPU 0
#define NAME_BYTES           96u

typedef struct nvmlDevice_st *nvml_device;
struct nvml_memory { /* bytes */
	unsigned long long total, free, used;
};
struct nvml_utilization { /* percent of the time of the last sample */
	unsigned gpu, memory;
};

/* X(member, symbol, parameters) */
#define NVML_MAP(X)                                                                           \
	X(init, "nvmlInit_v2", (void))                                                            \
	X(shutdown, "nvmlShutdown", (void))                                                       \
	X(count, "nvmlDeviceGetCount_v2", (unsigned *))                                           \
	X(handle, "nvmlDeviceGetHandleByIndex_v2", (unsigned, nvml_device *))                     \
	X(name, "nvmlDeviceGetName", (nvml_device, char *, unsigned))                             \
	X(memory, "nvmlDeviceGetMemoryInfo", (nvml_device, struct nvml_memory *))                 \
	X(utilization, "nvmlDeviceGetUtilizationRates", (nvml_device, struct nvml_utilization *)) \
	X(temperature, "nvmlDeviceGetTemperature", (nvml_device, int, unsigned *))                \
	X(power, "nvmlDeviceGetPowerUsage", (nvml_device, unsigned *))                            \
	X(energy, "nvmlDeviceGetTotalEnergyConsumption", (nvml_device, unsigned long long *))

struct nvml {
#define NVML_MEMBER(member, symbol, parameters) int(*member) parameters;
	NVML_MAP(NVML_MEMBER)
#undef NVML_MEMBER
};

struct gpu {
	void *library;
	struct nvml nvml;
	unsigned count;
	struct device {
		nvml_device handle;
		char name[NAME_BYTES];
	} devices[WEIR_GPUS_MAX]; /* (count) */
};

static bool find_functions(struct gpu *g)
{
	bool all = true;
#define NVML_FIND(member, symbol, parameters)                      \
	*(void **)(void *)&g->nvml.member = dlsym(g->library, symbol); \
	all = all && g->nvml.member;
	NVML_MAP(NVML_FIND)
#undef NVML_FIND
	return all;
}

static void find_devices(struct gpu *g)
{
	unsigned count = 0;
	if (g->nvml.count(&count) != NVML_SUCCESS)
		return;
	for (unsigned i = 0; i < count && g->count < WEIR_GPUS_MAX; i++) {
		struct device *d = &g->devices[g->count];
		if (g->nvml.handle(i, &d->handle) == NVML_SUCCESS && g->nvml.name(d->handle, d->name, NAME_BYTES) == NVML_SUCCESS)
			g->count++;
	}
}

struct gpu *gpu_open(const char *library)
{
	struct gpu *g = calloc(1, sizeof *g);
	if (!g)
		return NULL;
	g->library = dlopen(library, RTLD_NOW | RTLD_LOCAL);
	if (g->library && find_functions(g) && g->nvml.init() == NVML_SUCCESS) {
		find_devices(g);
		if (g->count)
			return g;
		(void)g->nvml.shutdown();
	}
	if (g->library)
		dlclose(g->library);
	free(g);
	return NULL;
}

void gpu_close(struct gpu *g)
{
	if (!g)
		return;
	(void)g->nvml.shutdown();
	dlclose(g->library);
	free(g);
}

struct reading { /* of one device; negative: not reported */
	double memory_used, memory_total, busy, memory_busy, temperature, watts, joules;
};

static double read_joules(const struct nvml *n, nvml_device d)
{
	unsigned long long millijoules;
	return n->energy(d, &millijoules) == NVML_SUCCESS ? (double)millijoules / 1e3 : -1;
}

static struct reading read_device(const struct nvml *n, nvml_device d)
{
	struct nvml_memory memory;
	struct nvml_utilization use;
	unsigned celsius, milliwatts;
	struct reading r = {-1, -1, -1, -1, -1, -1, -1};
	if (n->memory(d, &memory) == NVML_SUCCESS) {
		r.memory_used = (double)memory.used;
		r.memory_total = (double)memory.total;
	}
	if (n->utilization(d, &use) == NVML_SUCCESS) {
		r.busy = use.gpu / 100.0;
		r.memory_busy = use.memory / 100.0;
	}
	if (n->temperature(d, NVML_TEMPERATURE_GPU, &celsius) == NVML_SUCCESS)
		r.temperature = celsius;
	if (n->power(d, &milliwatts) == NVML_SUCCESS)
		r.watts = milliwatts / 1e3;
	r.joules = read_joules(n, d);
	return r;
}

void gpu_joules(const struct gpu *g, double out[WEIR_GPUS_MAX])
{
	for (unsigned i = 0; i < WEIR_GPUS_MAX; i++)
		out[i] = g && i < g->count ? read_joules(&g->nvml, g->devices[i].handle) : -1;
}

#define GPU_MAP(X)                                                                                                         \
	X("weir_gpu_memory_used_bytes", "gauge", "Memory in use, by whomever.", memory_used)                                   \
	X("weir_gpu_memory_total_bytes", "gauge", "Memory of the device.", memory_total)                                       \
	X("weir_gpu_utilization_ratio", "gauge", "Share of the time in which some kernel ran.", busy)                          \
	X("weir_gpu_memory_utilization_ratio", "gauge", "Share of the time in which memory was read or written.", memory_busy) \
	X("weir_gpu_temperature_celsius", "gauge", "Temperature.", temperature)                                                \
	X("weir_gpu_power_watts", "gauge", "Power drawn.", watts)                                                              \
	X("weir_gpu_energy_joules_total", "counter", "Energy used since the driver was loaded.", joules)

void gpu_series(const struct gpu *g, FILE *out)
{
	struct reading all[WEIR_GPUS_MAX];
	if (!g)
		return;
	for (unsigned i = 0; i < g->count; i++)
		all[i] = read_device(&g->nvml, g->devices[i].handle);
#define PUT(metric, type, help, member)                             \
	exposition_header(out, metric, type, help);                     \
	for (unsigned i = 0; i < g->count; i++)                         \
		if (all[i].member >= 0) {                                   \
			fputs(metric, out);                                     \
			exposition_label(out, "device", g->devices[i].name);    \
			fprintf(out, ",gpu=\"%u\"} %.17g\n", i, all[i].member); \
		}
	GPU_MAP(PUT)
#undef PUT
}
