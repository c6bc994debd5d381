/* The energy that this machine uses, in joules: of its processors and memory by RAPL, as Linux'
 * powercap tree shows it (Documentation/power/powercap), and of its NVIDIA devices by NVML (gpu.h).
 * It is that of the whole machine, whichever process uses it.
 *
 * RAPL counts microjoules up to max_energy_range_uj and begins anew, every few minutes at full
 * load: energy_look must be called more often. Packages and their memory are counted; `core` and
 * `uncore` are parts of a package, and intel-rapl-mmio shows a package a second time. AMD's
 * processors show theirs below the same names. Only root may read the counters, unless the
 * administrator lets others. */
#ifndef WEIR_ENERGY_H
#define WEIR_ENERGY_H

#include <stdbool.h>

#define ENERGY_POWERCAP "/sys/class/powercap"

/* Joules since energy_open. */
struct energy_used {
	bool of_cpu, of_gpu; /* whether the machine tells */
	double cpu, gpu;
};

struct energy;
/* powercap: the root of the tree; library: of NVML (GPU_LIBRARY). NULL: nothing can be read. */
struct energy *energy_open(const char *powercap, const char *library);
/* *out: up to now. e NULL: nothing is known. */
void energy_look(struct energy *e, struct energy_used *out);
void energy_close(struct energy *e); /* NULL is allowed */

#endif
