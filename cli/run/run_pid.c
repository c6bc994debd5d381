#include "cli/run/run_pid.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/run/run_dir.h"
#include "common/system/disk.h"

enum { STAT_BYTES = 1024, STARTED_FIELD = 22 };

static void path_of(const struct job *job, char out[WEIR_PATH_BYTES_MAX + 32])
{
	snprintf(out, WEIR_PATH_BYTES_MAX + 32, "%s/run.pid", job->run_dir);
}

/* Field 22 of /proc/PID/stat, in clock ticks since the machine's boot; 0: no such process. */
static uint64_t started(pid_t pid)
{
	char path[64], text[STAT_BYTES];
	snprintf(path, sizeof path, "/proc/%ld/stat", (long)pid);
	FILE *f = fopen(path, "re");
	const size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
	if (f)
		fclose(f);
	text[n] = '\0';
	const char *at = strrchr(text, ')'); /* field 2, a name, may contain spaces */
	for (int field = 2; at && field < STARTED_FIELD; field++)
		at = strchr(at + 1, ' ');
	return at ? strtoull(at, NULL, 10) : 0;
}

weir_status run_pid_write(const struct job *job, weir_error *err)
{
	char path[WEIR_PATH_BYTES_MAX + 32], text[64];
	path_of(job, path);
	snprintf(text, sizeof text, "%ld %" PRIu64 "\n", (long)getpid(), started(getpid()));
	return disk_write_file(disk_system(), path, text, strlen(text), err);
}

void run_pid_remove(const struct job *job)
{
	char path[WEIR_PATH_BYTES_MAX + 32];
	path_of(job, path);
	unlink(path);
}

weir_status run_pid_read(const struct job *job, pid_t *pid, weir_error *err)
{
	char path[WEIR_PATH_BYTES_MAX + 32], *text = NULL;
	size_t bytes;
	long number = 0;
	uint64_t since = 0;
	if (!run_dir_is_used(job))
		return run_dir_not_running(job, err);
	path_of(job, path);
	const bool read = disk_read_file(disk_system(), path, STAT_BYTES, &text, &bytes, NULL) == WEIR_OK &&
	                  sscanf(text, "%ld %" SCNu64, &number, &since) == 2;
	free(text);
	*pid = (pid_t)number;
	if (read && number > 0 && since > 0 && started(*pid) == since)
		return WEIR_OK;
	return weir_fail(err, WEIR_E_STATE,
	                 "job %s runs in %s under a command that waits for its end: stop that command (Ctrl-C, or SIGTERM)",
	                 job->name, job->run_dir);
}
