#include "common/system/process.h"

#include <dirent.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/exposition.h"
#include "common/base/little_endian.h"
#include "common/base/prng.h"
#include "common/system/cgroup.h"

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

uint32_t process_cores(void)
{
	cpu_set_t bound;
	const long online = sysconf(_SC_NPROCESSORS_ONLN);
	uint32_t cores = online > 0 ? (uint32_t)online : 1;
	if (sched_getaffinity(0, sizeof bound, &bound) == 0 && CPU_COUNT(&bound) > 0)
		cores = (uint32_t)CPU_COUNT(&bound);
	const uint32_t quota = cgroup_cores("");
	return quota && quota < cores ? quota : cores;
}

uint64_t process_machine_memory(void)
{
	const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
	const uint64_t physical = pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : 0, limit = cgroup_memory("");
	return limit && (limit < physical || !physical) ? limit : physical;
}

void process_program_folder(char *out, size_t bytes)
{
	const ssize_t n = readlink("/proc/self/exe", out, bytes - 1);
	out[n > 0 ? n : 0] = '\0';
	char *slash = strrchr(out, '/');
	if (!slash)
		snprintf(out, bytes, ".");
	else
		*slash = '\0';
}

void process_raise_descriptors(void)
{
	struct rlimit files;
	if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
		files.rlim_cur = files.rlim_max;
		(void)setrlimit(RLIMIT_NOFILE, &files);
	}
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

uint64_t process_pid_namespace(void)
{
	struct stat st;
	uint8_t boot[16];
	if (!process_machine_boot(boot) || stat("/proc/self/ns/pid", &st) != 0)
		return 0;
	return prng_mix((uint64_t)st.st_ino, get64(boot), get64(boot + 8));
}

bool process_is_gone(uint32_t pid)
{
	return pid > 0 && pid <= INT32_MAX && kill((pid_t)pid, 0) != 0 && errno == ESRCH;
}

/* --- For Prometheus */

/* Counts the entries of a folder of /proc/self; 0: it cannot be read. */
static uint64_t count_entries(const char *path)
{
	uint64_t n = 0;
	DIR *d = opendir(path);
	for (const struct dirent *e; d && (e = readdir(d));)
		n += e->d_name[0] != '.';
	if (d)
		closedir(d);
	return n;
}

static double seconds(struct timeval t)
{
	return (double)t.tv_sec + (double)t.tv_usec / 1e6;
}

static void put(FILE *out, const char *name, const char *type, const char *help, double number)
{
	if (number > 0)
		exposition_number(out, name, type, help, number);
}

void process_series(FILE *out)
{
	unsigned long long size = 0, resident = 0;
	struct rlimit files = {0};
	struct rusage used = {0};
	const double page = (double)sysconf(_SC_PAGESIZE);
	FILE *f = fopen("/proc/self/statm", "re");
	if (f && fscanf(f, "%llu %llu", &size, &resident) != 2)
		size = resident = 0;
	if (f)
		fclose(f);
	(void)getrlimit(RLIMIT_NOFILE, &files);
	(void)getrusage(RUSAGE_SELF, &used);
	put(out, "process_resident_memory_bytes", "gauge", "Resident memory.", (double)resident * page);
	put(out, "process_virtual_memory_bytes", "gauge", "Virtual memory.", (double)size * page);
	put(out, "process_open_fds", "gauge", "Open file descriptors.", (double)count_entries("/proc/self/fd"));
	put(out, "process_max_fds", "gauge", "File descriptors that it may have open.", (double)files.rlim_cur);
	put(out, "process_threads", "gauge", "Threads.", (double)count_entries("/proc/self/task"));
	put(out, "process_cpu_seconds_total", "counter", "Processor time.", seconds(used.ru_utime) + seconds(used.ru_stime));
}
