#include "cli/profile/profile_job.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "cli/core/supervise.h"
#include "cli/run/job_servers.h"
#include "cli/run/run_dir.h"
#include "common/system/disk.h"

#define POLL_MS       200u
#define WARM_BATCHES  20u   /* of each worker; and */
#define WARM_MS       2000u /* since the first batch */
#define STOP_MS       30000u
#define OWN_SETS      6u
#define OWN_SET_BYTES (WEIR_PATH_BYTES_MAX + 32)
#define CHILD_NAME    "train"

struct profile_job {
	struct job *job;
	struct supervisor *supervisor;
	struct child *child;
	char run_dir[WEIR_PATH_BYTES_MAX];
	char own[OWN_SETS][OWN_SET_BYTES];
	struct job_options options; /* with the profile's own settings */
};

/* The job writes only to the folder, tells no tracking server, and needs no port that a run of it
 * may have. */
static weir_status choose_settings(struct profile_job *j, weir_error *err)
{
	if (j->options.sets.count + OWN_SETS > OPTION_LIST_MAX)
		return weir_fail(err, WEIR_E_LIMIT, "--set: at most %u", OPTION_LIST_MAX - OWN_SETS);
	snprintf(j->own[0], OWN_SET_BYTES, "run_dir=%s", j->run_dir);
	snprintf(j->own[1], OWN_SET_BYTES, "checkpoint.every_steps=0");
	snprintf(j->own[2], OWN_SET_BYTES, "checkpoint.dir=");
	snprintf(j->own[3], OWN_SET_BYTES, "metrics.port=off");
	snprintf(j->own[4], OWN_SET_BYTES, "track.dir=");
	snprintf(j->own[5], OWN_SET_BYTES, "track.mlflow.uri=");
	for (uint32_t i = 0; i < OWN_SETS; i++)
		j->options.sets.items[j->options.sets.count++] = j->own[i];
	return job_options_load(&j->options, &j->job, err);
}

static void add_arguments(const struct profile_job *j)
{
	child_argument(j->child, "train");
	child_argument(j->child, j->options.path);
	child_argument(j->child, "--fresh");
	for (uint32_t i = 0; i < j->options.sets.count; i++) {
		child_argument(j->child, "--set");
		child_argument(j->child, j->options.sets.items[i]);
	}
}

static weir_status start(struct profile_job *j, weir_error *err)
{
	char programs[WEIR_PATH_BYTES_MAX];
	struct disk *d = disk_system();
	weir_status status = choose_settings(j, err);
	if (status == WEIR_OK)
		status = run_dir_remove(j->run_dir, err);
	if (status == WEIR_OK)
		status = d->ops->make_dirs(d, j->run_dir, err);
	if (status == WEIR_OK)
		status = supervisor_own_dir(programs, sizeof programs, err);
	if (status == WEIR_OK)
		status = supervisor_create(&j->supervisor, programs, j->run_dir, clock_system(), err);
	if (status == WEIR_OK && !(j->child = supervisor_add(j->supervisor, CHILD_RUN, CHILD_NAME, "weir", err)))
		status = err->status;
	if (status != WEIR_OK)
		return status;
	add_arguments(j);
	return child_start(j->supervisor, j->child, false, err);
}

weir_status profile_job_start(struct profile_job **out, const struct job_options *options, const char *run_dir, weir_error *err)
{
	struct profile_job *j = *out = calloc(1, sizeof *j);
	if (!j)
		return weir_fail(err, WEIR_E_MEMORY, "no memory for a profile");
	j->options = *options;
	snprintf(j->run_dir, sizeof j->run_dir, "%s", run_dir);
	return start(j, err);
}

/* --- Warming up */

/* Waits a moment. E_STATE: the job has ended meanwhile. */
static weir_status let_run(struct profile_job *j, weir_error *err)
{
	char end[WEIR_ERROR_TEXT_BYTES / 2];
	if (supervisor_reap(j->supervisor)) {
		child_describe_end(j->child, end, sizeof end);
		return weir_fail(err, WEIR_E_STATE, "the job %s before it was measured; its log: %s", end, j->child->log_path);
	}
	(void)nanosleep(&(struct timespec){.tv_nsec = POLL_MS * 1000000L}, NULL);
	return WEIR_OK;
}

/* *asker NULL: the servers do not answer yet. */
static void find(const struct profile_job *j, struct logger *logger, struct profile_asker **asker)
{
	char places[JOB_PLACES_BYTES];
	uint64_t batches;
	weir_error not_yet = {0};
	*asker = NULL;
	if (job_servers_find_ledger(j->job, NULL, places, &not_yet) != WEIR_OK)
		return;
	if (profile_ask_open(asker, j->job, places, logger, &not_yet) != WEIR_OK ||
	    profile_ask_batches(*asker, &batches, &not_yet) != WEIR_OK) {
		profile_ask_close(*asker);
		*asker = NULL;
	}
}

weir_status profile_job_poll(struct profile_job *j, struct logger *logger, struct profile_asker **asker, uint64_t *batches,
                             weir_error *err)
{
	*batches = 0;
	const weir_status status = let_run(j, err);
	if (status != WEIR_OK)
		return status;
	if (*asker)
		return profile_ask_batches(*asker, batches, err);
	find(j, logger, asker);
	return WEIR_OK;
}

static bool is_warm(const struct profile_job *j, uint64_t batches, int64_t *first_ms)
{
	const int64_t now_ms = clock_ms(clock_system());
	if (batches > 0 && *first_ms == 0)
		*first_ms = now_ms;
	return batches >= (uint64_t)WARM_BATCHES * j->job->cluster.workers && now_ms - *first_ms >= (int64_t)WARM_MS;
}

weir_status profile_job_warm_up(struct profile_job *j, struct logger *logger, struct profile_asker **asker, weir_error *err)
{
	int64_t first_ms = 0;
	uint64_t batches = 0;
	*asker = NULL;
	weir_status status = WEIR_OK;
	while (status == WEIR_OK && !is_warm(j, batches, &first_ms))
		status = profile_job_poll(j, logger, asker, &batches, err);
	return status;
}

weir_status profile_job_stop(struct profile_job *j, bool whole, weir_error *err)
{
	if (!j)
		return WEIR_OK;
	if (j->child) {
		supervisor_signal(j->supervisor, CHILD_RUN, SIGTERM);
		(void)supervisor_stop(j->supervisor, CHILD_RUN, STOP_MS);
	}
	supervisor_destroy(j->supervisor);
	const weir_status status = whole ? run_dir_remove(j->run_dir, err) : WEIR_OK;
	job_destroy(j->job);
	free(j);
	return status;
}
