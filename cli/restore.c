/* weir restore: makes a run directory ready to go on from a checkpoint. Servers read the checkpoint when they are started; what the run
 * had written before is moved aside, never over. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "checkpoint_find.h"
#include "disk.h"
#include "live.h"
#include "options.h"
#include "run_state.h"
#include "verbs.h"

#define RESTORE_PATH_BYTES (WEIR_PATH_BYTES_MAX + 64)

/* Locks it as `weir train` does; the lock goes with the descriptor. */
static weir_status lock_run_dir(const struct job *job, int *fd, weir_error *err)
{
	const char *dir = job->run_dir;
	weir_status s = disk_system()->ops->make_dirs(disk_system(), dir, err);
	if (s != WEIR_OK)
		return s;
	*fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (*fd < 0 || access(dir, W_OK | X_OK) != 0)
		return weir_fail(err, WEIR_E_IO, "cannot write in the run directory %s: %s; set run_dir or give its owner the right", dir,
		                 strerror(errno));
	if (flock(*fd, LOCK_EX | LOCK_NB) != 0)
		return weir_fail(err, WEIR_E_BUSY, "`weir train` runs in %s: stop it before its job is restored", dir);
	return WEIR_OK;
}

/* Server i's folder to before-gN/server-i; *moved: whether there was one. */
static weir_status move_aside(const struct job *job, uint32_t i, uint64_t generation, bool *moved, weir_error *err)
{
	char from[RESTORE_PATH_BYTES], to[RESTORE_PATH_BYTES + 32];
	struct disk *d = disk_system();
	job_server_dir(job, i, from);
	*moved = access(from, F_OK) == 0;
	if (!*moved)
		return WEIR_OK;
	int n = snprintf(to, sizeof to, "%s/before-g%" PRIu64, job->run_dir, generation);
	weir_status s = d->ops->make_dirs(d, to, err);
	snprintf(to + n, sizeof to - (size_t)n, "/server-%u", i);
	if (s == WEIR_OK && access(to, F_OK) == 0)
		return weir_fail(err, WEIR_E_EXISTS, "%s is there already: move it away, then restore again", to);
	return s == WEIR_OK ? d->ops->rename(d, from, to, err) : s;
}

/* run.json first: where the moving is cut off, servers refuse what is left of the generation before, and none begins with nothing. */
static weir_status set_run(const struct job *job, const struct checkpoint_manifest *m, weir_error *err)
{
	struct run_state run = {0};
	weir_error why = {0};
	bool moved = false, any = false;
	weir_status s = run_state_read(job->run_dir, &run, &why);
	if (s != WEIR_OK && s != WEIR_E_NOT_FOUND)
		return weir_fail(err, s, "%s", why.text);
	/* Above every generation that this run, or the checkpoint's, has seen. */
	uint64_t generation = (run.generation > m->generation ? run.generation : m->generation) + 1;
	run.generation = generation;
	run.warm_start[0] = '\0'; /* the checkpoint has the weights */
	memcpy(run.uuid, m->uuid, sizeof run.uuid);
	snprintf(run.restore, sizeof run.restore, "%s", m->name);
	s = run_state_write(job->run_dir, &run, err);
	for (uint32_t i = 0; i < WEIR_SERVERS_MAX && s == WEIR_OK; i++) {
		s = move_aside(job, i, generation, &moved, err);
		any |= moved;
	}
	if (s == WEIR_OK && any)
		fprintf(stderr, "the data that servers had in %s is in %s/before-g%" PRIu64 " now\n", job->run_dir, job->run_dir,
		        generation);
	if (s == WEIR_OK)
		printf("%s is set to go on from %s, after %" PRIu64 " batches, as generation %" PRIu64 ": weir train --resume\n",
		       job->run_dir, m->name, m->step, generation);
	return s;
}

static weir_status restore(const struct job *job, const char *from, weir_error *err)
{
	struct blob_store *store = NULL;
	struct checkpoint_manifest m = {0};
	uint64_t bytes = 0;
	char size[32];
	int fd = -1;
	weir_status s = checkpoint_find(job, from, &store, &m, err);
	if (s == WEIR_OK && m.partitions_count != job->cluster.partitions)
		s = weir_fail(err, WEIR_E_INVALID, "checkpoint %s has %u partitions and the job file %u; set cluster.partitions to %u",
		              m.name, m.partitions_count, job->cluster.partitions, m.partitions_count);
	if (s == WEIR_OK)
		s = checkpoint_verify(store, &m, &bytes, err);
	if (s == WEIR_OK) {
		format_bytes(size, sizeof size, (double)bytes);
		fprintf(stderr, "%s is whole: %s read\n", m.name, size);
		s = lock_run_dir(job, &fd, err);
	}
	if (s == WEIR_OK)
		s = set_run(job, &m, err);
	if (fd >= 0)
		close(fd);
	checkpoint_manifest_free(&m);
	blob_close(store);
	return s;
}

int verb_restore(int count, char **args)
{
	struct job_options jo = {0};
	struct job *job = NULL;
	const char *from = NULL, *word = NULL;
	weir_error err = {0};
	const struct option options[] = {JOB_OPTIONS(&jo), {"--from", OPTION_TEXT, &from}};
	weir_status s = options_parse(count, args, options, sizeof options / sizeof *options, &word, 1, &err);
	jo.path = word ? word : jo.path;
	if (s == WEIR_OK && (!jo.path || !from))
		s = weir_fail(&err, WEIR_E_INVALID, "needs a job file and --from NAME or --from latest");
	if (s != WEIR_OK)
		return verb_usage("restore", &err);
	s = job_options_load(&jo, &job, &err);
	if (s == WEIR_OK)
		s = restore(job, from, &err);
	job_free(job);
	return s == WEIR_OK ? EXIT_SUCCESS : verb_fail("restore", &err);
}
