/* Limits of control groups on made-up machines. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/system/cgroup.h"
#include "tests/cmocka_check.h"

struct machine {
	const char *files[10][2]; /* path, text */
	uint32_t cores;
	uint64_t memory;
};

#define SYS "sys/fs/cgroup"

static const struct machine machines[] = {
    /* A container's own view of version 2; a view of the whole tree; the limit of an enclosing
     * group. */
    {{{"proc/self/cgroup", "0::/\n"}, {SYS "/cpu.max", "250000 100000\n"}, {SYS "/memory.max", "1073741824\n"}}, 3, 1 << 30},
    {{{"proc/self/cgroup", "0::/pods/a\n"},
      {SYS "/pods/a/cpu.max", "max 100000\n"},
      {SYS "/pods/cpu.max", "400000 100000\n"},
      {SYS "/pods/a/memory.max", "max\n"},
      {SYS "/pods/memory.max", "4096\n"}},
     4,
     4096},
    {{{"proc/self/cgroup", "0::/pods/a\n"},
      {SYS "/pods/a/cpu.max", "200000 100000\n"},
      {SYS "/pods/cpu.max", "800000 100000\n"},
      {SYS "/cpu.max", "900000 100000\n"},
      {SYS "/memory.max", "8192\n"},
      {SYS "/pods/a/memory.max", "16384\n"}},
     2,
     8192},
    /* Version 1: the machine's tree, and a container whose root is its own group. */
    {{{"proc/self/cgroup", "5:cpuacct,cpu:/docker/x\n3:memory:/docker/x\n0::/\n"},
      {SYS "/cpuacct,cpu/docker/x/cpu.cfs_quota_us", "150000\n"},
      {SYS "/cpuacct,cpu/docker/x/cpu.cfs_period_us", "100000\n"},
      {SYS "/memory/docker/x/memory.limit_in_bytes", "2147483648\n"},
      {SYS "/memory/memory.limit_in_bytes", "9223372036854771712\n"}},
     2,
     2147483648},
    {{{"proc/self/cgroup", "5:cpu,cpuacct:/docker/x\n3:memory:/docker/x\n"},
      {SYS "/cpu/cpu.cfs_quota_us", "50000\n"},
      {SYS "/cpu/cpu.cfs_period_us", "100000\n"},
      {SYS "/memory/memory.limit_in_bytes", "1000\n"}},
     1,
     1000},
    /* No limits. */
    {{{"proc/self/cgroup", "5:cpu,cpuacct:/\n3:memory:/\n"},
      {SYS "/cpu,cpuacct/cpu.cfs_quota_us", "-1\n"},
      {SYS "/cpu,cpuacct/cpu.cfs_period_us", "100000\n"},
      {SYS "/memory/memory.limit_in_bytes", "9223372036854771712\n"}},
     0,
     0},
    {{{"proc/self/cgroup", "0::/a\n"}, {SYS "/a/memory.max", "max\n"}}, 0, 0},
    {{{"proc/self/cgroup", "nothing\n:\n"}, {SYS "/cpu.max", "100000 100000\n"}}, 0, 0},
    {{{"proc/none", ""}}, 0, 0}};

static void the_least_limit_around_a_group_counts(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof machines / sizeof *machines; i++) {
		char root[] = "/tmp/weir-cgroup-XXXXXX", command[512];
		assert_non_null(mkdtemp(root));
		for (size_t k = 0; k < 10 && machines[i].files[k][0]; k++) {
			const char *path = machines[i].files[k][0];
			snprintf(command, sizeof command, "f=%s/%s; mkdir -p \"${f%%/*}\"; printf '%%s' '%s' > \"$f\"", root, path,
			         machines[i].files[k][1]);
			assert_int_equal(system(command), 0);
		}
		if (cgroup_cores(root) != machines[i].cores || cgroup_memory(root) != machines[i].memory)
			fail_msg("machine %zu: %u cores, not %u; %llu bytes, not %llu", i, cgroup_cores(root), machines[i].cores,
			         (unsigned long long)cgroup_memory(root), (unsigned long long)machines[i].memory);
		snprintf(command, sizeof command, "rm -r %s", root);
		assert_int_equal(system(command), 0);
	}
}

static void a_quota_is_processors_rounded_up(void **state)
{
	(void)state;
	const struct {
		const char *cpu_max;
		uint32_t cores;
	} cases[] = {{"200000 100000\n", 2}, {"150000 100000\n", 2}, {"10000 100000\n", 1},
	             {"0 100000\n", 1},      {"max 100000\n", 0},    {"", 0},
	             {"100000 0\n", 0},      {"-1 1\n", 0}};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		assert_int_equal(cgroup_quota_cores(cases[i].cpu_max), cases[i].cores);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(the_least_limit_around_a_group_counts),
	                                   cmocka_unit_test(a_quota_is_processors_rounded_up)};
	return cmocka_run_group_tests_name("cgroup", tests, NULL, NULL);
}
