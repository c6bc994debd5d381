/* The resource limits of this process's control group, for example a container's. Supports both
 * versions of cgroups.
 *
 * A group's limits apply to all groups inside it. A container may see its own group as the root of
 * /sys/fs/cgroup, or it may see the machine's whole tree that contains its group (/proc/self/cgroup
 * says where). The functions return the smallest limit of the group, its ancestors, and the
 * root. */
#ifndef WEIR_CGROUP_H
#define WEIR_CGROUP_H

#include <stdint.h>

/* root: "" for this machine; for tests, a folder that contains proc/self/cgroup and
 * sys/fs/cgroup. */
/* Processors, rounded up; at least 1. 0: no limit. */
uint32_t cgroup_cores(const char *root);
/* Bytes of memory. 0: no limit. */
uint64_t cgroup_memory(const char *root);
/* Parses cpu.max of version 2, "QUOTA PERIOD" in microseconds or "max PERIOD". Returns processors,
 * rounded up, at least 1. 0: no limit. */
uint32_t cgroup_quota_cores(const char *cpu_max);

#endif
