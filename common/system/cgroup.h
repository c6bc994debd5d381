/* What the control group of this process, a container's perhaps, may use: of either version of
 * cgroups.
 *
 * Limits of a group hold for all groups inside it. A container may see its own group as the root of
 * /sys/fs/cgroup, or the machine's whole tree with its group in it (/proc/self/cgroup says where):
 * the least limit of the group, of those that it is in, and of the root is what counts. */
#ifndef WEIR_CGROUP_H
#define WEIR_CGROUP_H

#include <stdint.h>

/* root: "" for this machine; a folder with proc/self/cgroup and sys/fs/cgroup in it, for tests. */
/* Processors, rounded up; at least 1. 0: no limit. */
uint32_t cgroup_cores(const char *root);
/* Bytes of memory. 0: no limit. */
uint64_t cgroup_memory(const char *root);
/* cpu.max of version 2, "QUOTA PERIOD" in microseconds or "max PERIOD", as processors, rounded up;
 * at least 1. 0: no limit. */
uint32_t cgroup_quota_cores(const char *cpu_max);

#endif
