#include "common/system/cgroup.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/system/first_line.h"

enum { PATH_BYTES = 4096, TEXT_BYTES = 64 };

/* Version 1 expresses "no limit" as the largest number of bytes in whole pages. */
#define NO_LIMIT_BYTES (1ull << 62)

/* The limit that a group's files state; 0: no limit. */
typedef uint64_t (*limit_fn)(const char *group);

/* --- One group */

uint32_t cgroup_quota_cores(const char *cpu_max)
{
	unsigned long long quota, period;
	if (sscanf(cpu_max, "%llu %llu", &quota, &period) != 2 || !period)
		return 0;
	const unsigned long long cores = quota / period + (quota % period != 0);
	return cores > UINT32_MAX ? 0 : cores ? (uint32_t)cores : 1;
}

static uint64_t cores_2(const char *group)
{
	char text[TEXT_BYTES];
	return first_line_read(group, "cpu.max", text, sizeof text) ? cgroup_quota_cores(text) : 0;
}

static uint64_t cores_1(const char *group)
{
	char quota[TEXT_BYTES], period[TEXT_BYTES], text[2 * TEXT_BYTES];
	if (!first_line_read(group, "cpu.cfs_quota_us", quota, sizeof quota) ||
	    !first_line_read(group, "cpu.cfs_period_us", period, sizeof period) || quota[0] == '-')
		return 0;
	snprintf(text, sizeof text, "%s %s", quota, period);
	return cgroup_quota_cores(text);
}

static uint64_t bytes_of(const char *group, const char *name)
{
	char text[TEXT_BYTES], *end = text;
	errno = 0;
	const uint64_t bytes = first_line_read(group, name, text, sizeof text) ? strtoull(text, &end, 10) : 0;
	return end == text || *end || errno || bytes >= NO_LIMIT_BYTES ? 0 : bytes;
}

static uint64_t memory_2(const char *group)
{
	return bytes_of(group, "memory.max");
}

static uint64_t memory_1(const char *group)
{
	return bytes_of(group, "memory.limit_in_bytes");
}

/* --- The groups that count */

static void take_least(uint64_t *least, uint64_t limit)
{
	if (limit && (!*least || limit < *least))
		*least = limit;
}

/* The smallest limit of the group at tree/path, its ancestors, and the tree's root. */
static void look_up_tree(const char *tree, const char *path, limit_fn limit, uint64_t *least)
{
	char group[PATH_BYTES];
	const size_t root = strlen(tree);
	if (snprintf(group, sizeof group, "%s%s", tree, path) >= (int)sizeof group)
		return;
	for (size_t n = strlen(group);; n = (size_t)(strrchr(group, '/') - group)) {
		group[n] = '\0';
		take_least(least, limit(group));
		if (n <= root)
			return;
	}
}

/* Whether a controller is in a list like "cpu,cpuacct". */
static bool is_of(const char *controllers, const char *name)
{
	const size_t length = strlen(name);
	for (const char *at = controllers; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
		if (strncmp(at, name, length) == 0 && (at[length] == ',' || at[length] == '\0'))
			return true;
	return false;
}

static uint64_t least_limit(const char *root, const char *controller, limit_fn version_1, limit_fn version_2)
{
	char tree[PATH_BYTES / 2], line[PATH_BYTES / 2];
	uint64_t least = 0;
	snprintf(line, sizeof line, "%s/proc/self/cgroup", root);
	FILE *f = fopen(line, "re");
	while (f && fgets(line, sizeof line, f)) { /* "NUMBER:CONTROLLERS:PATH"; version 2: "0::PATH" */
		char *controllers = strchr(line, ':'), *path = controllers ? strchr(controllers + 1, ':') : NULL;
		if (!path)
			continue;
		*path++ = '\0';
		path[strcspn(path, "\n")] = '\0';
		controllers++;
		const bool second = *controllers == '\0';
		if (!second && !is_of(controllers, controller))
			continue;
		snprintf(tree, sizeof tree, "%s/sys/fs/cgroup%s%s", root, second ? "" : "/", controllers);
		look_up_tree(tree, path, second ? version_2 : version_1, &least);
		/* the usual name, possibly a link */
		snprintf(tree, sizeof tree, "%s/sys/fs/cgroup/%s", root, controller);
		if (!second)
			look_up_tree(tree, path, version_1, &least);
	}
	if (f)
		fclose(f);
	return least;
}

uint32_t cgroup_cores(const char *root)
{
	return (uint32_t)least_limit(root, "cpu", cores_1, cores_2);
}

uint64_t cgroup_memory(const char *root)
{
	return least_limit(root, "memory", memory_1, memory_2);
}
