#include "process.h"

#include <stdio.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define GIVING_WAY 10 /* nice */

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

void process_thread_gives_way(void)
{
	/* On Linux a thread has a nice value of its own. */
	(void)setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), GIVING_WAY);
}
