/* Manages the run directory. */
#include "cli/run/run_dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <fts.h>
#include <ftw.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cli/run/checkpoint_find.h"
#include "cli/run/run_state.h"
#include "common/system/disk.h"

enum { LOOK_MS = 50 }; /* longer than another program's check whether the directory is in use */

static bool try_lock(int fd)
{
	if (flock(fd, LOCK_EX | LOCK_NB) == 0)
		return true;
	nanosleep(&(struct timespec){.tv_nsec = LOOK_MS * 1000000L}, NULL);
	return flock(fd, LOCK_EX | LOCK_NB) == 0;
}

weir_status run_dir_lock(const struct job *job, int *fd, weir_error *err)
{
	const char *dir = job->run_dir;
	weir_status status = disk_system()->ops->make_dirs(disk_system(), dir, err);
	if (status != WEIR_OK)
		return status;
	*fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (*fd < 0 || access(dir, W_OK | X_OK) != 0)
		return weir_fail(err, WEIR_E_IO, "cannot write in the run directory %s: %s; set run_dir or give its owner the right", dir,
		                 strerror(errno));
	if (!try_lock(*fd))
		return weir_fail(err, WEIR_E_BUSY,
		                 "another `weir train`, `up` or `launch` runs in %s: stop it, or give this job another name or run_dir",
		                 dir);
	return WEIR_OK;
}

bool run_dir_is_there(const struct job *job, int fd)
{
	struct stat there, locked;
	return stat(job->run_dir, &there) == 0 && fstat(fd, &locked) == 0 && there.st_ino == locked.st_ino &&
	       there.st_dev == locked.st_dev;
}

bool run_dir_is_used(const struct job *job)
{
	int fd = open(job->run_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	bool used = fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
	if (fd >= 0)
		close(fd);
	return used;
}

/* Tells whether a folder holds only votes (PROMISES). With replicas, a server whose log is in
 * memory leaves its votes, and no data to resume from. */
static bool only_votes(const char *folder)
{
	char votes[WEIR_PATH_BYTES_MAX + 64], journal[WEIR_PATH_BYTES_MAX + 64];
	snprintf(votes, sizeof votes, "%s/PROMISES", folder);
	snprintf(journal, sizeof journal, "%s/journal", folder);
	return access(votes, F_OK) == 0 && access(journal, F_OK) != 0;
}

bool run_dir_has_data(const struct job *job)
{
	char path[WEIR_PATH_BYTES_MAX + 32];
	bool found = false;
	for (uint32_t i = 0; i < WEIR_SERVERS_MAX && !found; i++) {
		job_server_dir(job, i, path);
		found = access(path, F_OK) == 0 && !(job->cluster.replicas > 1 && only_votes(path));
	}
	return found;
}

weir_status run_dir_check_data(const struct job *job, uint32_t servers, weir_error *err)
{
	char path[WEIR_PATH_BYTES_MAX + 32], identity[WEIR_PATH_BYTES_MAX + 64];
	for (uint32_t i = 0; i < servers; i++) {
		job_server_dir(job, i, path);
		snprintf(identity, sizeof identity, "%s/IDENTITY", path);
		if (access(identity, F_OK) != 0)
			return weir_fail(err, WEIR_E_NOT_FOUND,
			                 "what server %u has of the run is not in %s: put it back, or set the run back to a checkpoint (weir "
			                 "restore)",
			                 i, path);
	}
	return WEIR_OK;
}

static void remove_temporaries(const char *folder)
{
	char path[WEIR_PATH_BYTES_MAX + 320];
	DIR *d = opendir(folder);
	for (const struct dirent *e; d && (e = readdir(d));) {
		snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
		if (fnmatch("*.tmp", e->d_name, 0) == 0)
			unlink(path);
	}
	if (d)
		closedir(d);
}

void run_dir_remove_temporaries(const struct job *job)
{
	char folder[WEIR_PATH_BYTES_MAX + 32];
	remove_temporaries(job->run_dir);
	for (uint32_t i = 0; i < WEIR_SERVERS_MAX; i++) {
		job_server_dir(job, i, folder);
		remove_temporaries(folder);
	}
}

static int remove_entry(const char *path, const struct stat *st, int kind, struct FTW *at)
{
	(void)st;
	(void)kind;
	(void)at;
	return remove(path);
}

weir_status run_dir_remove(const char *path, weir_error *err)
{
	if (access(path, F_OK) == 0 && nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS) != 0)
		return weir_fail(err, WEIR_E_IO, "cannot delete %s: %s", path, strerror(errno));
	return WEIR_OK;
}

static bool has_best(const struct job *job)
{
	char path[WEIR_PATH_BYTES_MAX + 32];
	snprintf(path, sizeof path, "%s/best.safetensors", job->run_dir);
	return access(path, F_OK) == 0;
}

const char *run_dir_verb(const struct job *job)
{
	return job->foreign ? "up" : "train";
}

void run_dir_advice(const struct job *job, char *out, size_t bytes)
{
	char name[WEIR_CHECKPOINT_NAME_BYTES_MAX];
	weir_error none = {0};
	const bool has_data = run_dir_has_data(job);
	if (job->cluster.servers_at_count > 0)
		snprintf(out, bytes, "its servers still have it: `weir %s` goes on", job->foreign ? "launch" : "train");
	else if (has_data && run_dir_check_data(job, job->cluster.servers, &none) == WEIR_OK)
		snprintf(out, bytes, "`weir %s --resume` goes on with it", run_dir_verb(job));
	else if (checkpoint_find_latest(job, name, &none) == WEIR_OK)
		snprintf(out, bytes, "`weir restore --from latest` sets it back to checkpoint %s, and `weir %s --resume` goes on", name,
		         run_dir_verb(job));
	else if (has_data)
		snprintf(out, bytes,
		         "a server's data are gone, and there is no checkpoint: put them back, or begin anew with `weir %s --fresh`",
		         run_dir_verb(job));
	else
		snprintf(out, bytes, "nothing of it is kept to go on from%s: run the job again (`log: disk` and checkpoints keep it)",
		         has_best(job) ? ", but its best weights are, for `weir eval`, `predict` and `export`" : "");
}

/* Returns when servers and workers last wrote to their logs or a server's folder. 0: never. */
static time_t last_written(const struct job *job)
{
	char *const paths[] = {(char *)(uintptr_t)job->run_dir, NULL};
	FTS *tree = fts_open(paths, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
	time_t last = 0;
	for (FTSENT *e; tree && (e = fts_read(tree));) {
		if (e->fts_info == FTS_D && e->fts_level == 1 && fnmatch("server-*", e->fts_name, 0) != 0)
			fts_set(tree, e, FTS_SKIP);
		else if (e->fts_info == FTS_F && (e->fts_level > 1 || fnmatch("*.log", e->fts_name, 0) == 0) &&
		         e->fts_statp->st_mtime > last)
			last = e->fts_statp->st_mtime;
	}
	if (tree)
		fts_close(tree);
	return last;
}

weir_status run_dir_not_running(const struct job *job, weir_error *err)
{
	char advice[WEIR_ERROR_TEXT_BYTES / 4], when[32];
	struct run_state run;
	weir_error none = {0};
	struct tm utc;
	const time_t last = last_written(job);
	if (last == 0)
		return weir_fail(err, WEIR_E_NOT_FOUND,
		                 "job %s does not run here: nothing ran in %s; start it with `weir %s`, or give --at ADDRESS", job->name,
		                 job->run_dir, run_dir_verb(job));
	strftime(when, sizeof when, "%Y-%m-%d %H:%M:%S", gmtime_r(&last, &utc));
	if (run_state_read(job->run_dir, &run, &none) == WEIR_OK && run.finished)
		return weir_fail(err, WEIR_E_NOT_FOUND, "job %s has finished: in %s its servers and workers last wrote at %s UTC%s",
		                 job->name, job->run_dir, when,
		                 has_best(job) ? "; `weir eval`, `predict` and `export` take its best weights" : "");
	run_dir_advice(job, advice, sizeof advice);
	return weir_fail(err, WEIR_E_NOT_FOUND, "job %s does not run here: in %s its servers and workers last wrote at %s UTC; %s",
	                 job->name, job->run_dir, when, advice);
}
