#include "process.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

uint64_t process_memory(void)
{
	unsigned long long size, resident, shared, own = 0;
	FILE *f = fopen("/proc/self/statm", "re");
	if (!f)
		return 0;
	if (fscanf(f, "%llu %llu %llu", &size, &resident, &shared) == 3)
		own = resident - shared;
	fclose(f);
	return own * (uint64_t)sysconf(_SC_PAGESIZE);
}

uint32_t process_quota_cores(const char *cpu_max)
{
	unsigned long long quota, period;
	if (sscanf(cpu_max, "%llu %llu", &quota, &period) != 2 || !period)
		return 0;
	const unsigned long long cores = quota / period + (quota % period != 0);
	return cores > UINT32_MAX ? 0 : cores ? (uint32_t)cores : 1;
}

uint32_t process_cores(void)
{
	cpu_set_t bound;
	char text[64] = "";
	const long online = sysconf(_SC_NPROCESSORS_ONLN);
	uint32_t cores = online > 0 ? (uint32_t)online : 1;
	if (sched_getaffinity(0, sizeof bound, &bound) == 0 && CPU_COUNT(&bound) > 0)
		cores = (uint32_t)CPU_COUNT(&bound);
	FILE *f = fopen("/sys/fs/cgroup/cpu.max", "re"); /* the root of what a container sees; a machine's own root has none */
	if (f) {
		if (!fgets(text, sizeof text, f))
			text[0] = '\0';
		fclose(f);
	}
	const uint32_t quota = process_quota_cores(text);
	return quota && quota < cores ? quota : cores;
}

static int digit_of(int c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool process_machine_boot(uint8_t id[16])
{
	uint32_t digits = 0;
	FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re"); /* a UUID */
	memset(id, 0, 16);
	for (int c; f && digits < 32 && (c = fgetc(f)) != EOF;)
		if (digit_of(c) >= 0) {
			id[digits / 2] = (uint8_t)(id[digits / 2] << 4 | digit_of(c));
			digits++;
		}
	if (f)
		fclose(f);
	if (digits < 32)
		memset(id, 0, 16);
	return digits == 32;
}
