/* Moving a run renames its entries one by one into earlier/N.moving, run.json first: from then on
 * RUN_DIR holds no run. The folder gets its final name when it has all entries. A process killed in
 * the middle therefore leaves either a whole run or an unfinished move, which the next move
 * completes. */
#include "cli/run/earlier_runs.h"

#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/run/run_dir.h"
#include "common/system/disk.h"

#define EARLIER      "earlier"
#define MOVING       ".moving"
#define PATH_BYTES   (WEIR_PATH_BYTES_MAX + 64)
#define NUMBERS_MAX  4096u
#define RUN_FILE     "run.json"
#define ENTRY_BYTES  256u
#define ENTRIES_MOST 65536u /* maximum number of entries in a run's folder */

/* Entries whose presence shows that something was trained. */
static const char *const worth_keeping[] = {"events", "best.safetensors", "evaluation.json"};

bool earlier_runs_takes(const char *name)
{
	static const char *const patterns[] = {
	    RUN_FILE,    "fingerprint.json", "report.json", "evaluation.json", "best.safetensors",  "events",    "*.log",
	    "before-g*", "status.json",      "mlflow.json", "provenance.json", "resolved-job.yaml", "tags.json", "plan.json"};
	for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++)
		if (fnmatch(patterns[i], name, 0) == 0)
			return true;
	return false;
}

static bool has(const struct job *job, const char *name)
{
	char path[PATH_BYTES];
	snprintf(path, sizeof path, "%s/%s", job->run_dir, name);
	return access(path, F_OK) == 0;
}

/* --- Numbers */

struct numbers {
	uint32_t of[NUMBERS_MAX + 1]; /* (count) numbers of earlier runs, unordered */
	uint32_t count, newest;
	uint32_t moving; /* the unfinished one; 0: none */
};

static weir_status read_numbers(const struct job *job, struct numbers *n, weir_error *err)
{
	char path[PATH_BYTES];
	*n = (struct numbers){0};
	snprintf(path, sizeof path, "%s/" EARLIER, job->run_dir);
	DIR *d = opendir(path);
	if (!d)
		return errno == ENOENT ? WEIR_OK : weir_fail(err, WEIR_E_IO, "cannot read %s: %s", path, strerror(errno));
	for (const struct dirent *e; (e = readdir(d)) && n->count < NUMBERS_MAX;) {
		char *end;
		const unsigned long number = strtoul(e->d_name, &end, 10);
		if (end == e->d_name || number == 0 || number > UINT32_MAX - 1)
			continue;
		if (strcmp(end, MOVING) == 0)
			n->moving = (uint32_t)number;
		else if (*end == '\0')
			n->of[n->count++] = (uint32_t)number;
		else
			continue;
		n->newest = number > n->newest ? (uint32_t)number : n->newest;
	}
	closedir(d);
	return WEIR_OK;
}

static int falling(const void *a, const void *b)
{
	const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	return (x < y) - (x > y);
}

static weir_status prune(const struct job *job, struct numbers *n, weir_error *err)
{
	char path[PATH_BYTES];
	weir_status status = WEIR_OK;
	qsort(n->of, n->count, sizeof *n->of, falling);
	for (uint32_t i = job->keep_runs; i < n->count && status == WEIR_OK; i++) {
		snprintf(path, sizeof path, "%s/" EARLIER "/%u", job->run_dir, n->of[i]);
		status = run_dir_remove(path, err);
	}
	return status;
}

/* --- Moving */

static weir_status move_entry(const struct job *job, const char *to, const char *name, weir_error *err)
{
	char from[PATH_BYTES + ENTRY_BYTES], path[PATH_BYTES + ENTRY_BYTES];
	snprintf(from, sizeof from, "%s/%s", job->run_dir, name);
	snprintf(path, sizeof path, "%s/%s", to, name);
	return disk_system()->ops->rename(disk_system(), from, path, err);
}

/* Finds the next entry to move. Reads the folder anew each time, because it changes. */
static bool next_entry(const struct job *job, char out[ENTRY_BYTES])
{
	DIR *d = opendir(job->run_dir);
	bool found = false;
	for (const struct dirent *e; d && !found && (e = readdir(d));)
		if ((found = earlier_runs_takes(e->d_name) && !(e->d_type == DT_DIR && fnmatch("*.log", e->d_name, 0) == 0)))
			snprintf(out, ENTRY_BYTES, "%s", e->d_name);
	if (d)
		closedir(d);
	return found;
}

static weir_status move_run(const struct job *job, uint32_t number, weir_error *err)
{
	struct disk *d = disk_system();
	char moving[PATH_BYTES + sizeof MOVING], to[PATH_BYTES], name[ENTRY_BYTES];
	snprintf(to, sizeof to, "%s/" EARLIER "/%u", job->run_dir, number);
	snprintf(moving, sizeof moving, "%s" MOVING, to);
	weir_status status = d->ops->make_dirs(d, moving, err);
	if (status == WEIR_OK && has(job, RUN_FILE))
		status = move_entry(job, moving, RUN_FILE, err);
	for (uint32_t i = 0; status == WEIR_OK && i < ENTRIES_MOST && next_entry(job, name); i++)
		status = move_entry(job, moving, name, err);
	return status == WEIR_OK ? d->ops->rename(d, moving, to, err) : status;
}

weir_status earlier_runs_keep(const struct job *job, uint32_t *number, weir_error *err)
{
	struct numbers n;
	*number = 0;
	weir_status status = read_numbers(job, &n, err);
	bool worth = n.moving > 0;
	for (size_t i = 0; i < sizeof worth_keeping / sizeof *worth_keeping; i++)
		worth |= has(job, worth_keeping[i]);
	if (status == WEIR_OK && worth) {
		*number = n.moving ? n.moving : n.newest + 1;
		status = move_run(job, *number, err);
		n.of[n.count++] = *number;
	}
	if (status == WEIR_OK)
		status = prune(job, &n, err);
	if (job->keep_runs == 0)
		*number = 0;
	return status;
}
