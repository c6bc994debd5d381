/* Chooses the run of a job, and begins it. */
#include "cli/run/run_begin.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "cli/run/earlier_runs.h"
#include "cli/run/kept_run.h"
#include "cli/run/run_dir.h"
#include "cli/run/run_fingerprint.h"
#include "common/base/prng.h"
#include "common/system/disk.h"
#include "common/tls/certificate.h"

#define PIPED_JOB "piped-job.yaml"

void run_path(const struct job *job, const char *name, char out[WEIR_PATH_BYTES_MAX + 64])
{
	snprintf(out, WEIR_PATH_BYTES_MAX + 64, "%s/%s", job->run_dir, name);
}

/* --- Choosing the run */

weir_status run_remove_data(const struct job *job, weir_error *err)
{
	char path[WEIR_PATH_BYTES_MAX + 32];
	weir_status status = coordinator_remove(job, err);
	for (uint32_t i = 0; i < WEIR_SERVERS_MAX && status == WEIR_OK; i++) {
		job_server_dir(job, i, path);
		status = run_dir_remove(path, err);
		job_server_mark(job, i, path);
		if (status == WEIR_OK)
			status = run_dir_remove(path, err);
	}
	return status;
}

/* Checks that a run with one copy is not resumed with several, or the reverse. A single copy lies
 * where it was placed, with only its journal; with several copies, the coordinator knows which are
 * whole. Servers of one kind cannot read the data of the other kind. */
static weir_status check_replicas(const struct train *t, weir_error *err)
{
	const uint32_t has = t->run.replicas, asked = t->job->cluster.replicas;
	if (t->run.servers == 0 || has == 0 || (has > 1) == (asked > 1))
		return WEIR_OK;
	return weir_fail(err, WEIR_E_STATE,
	                 "the run in %s has %u replica%s of each partition, and cluster.replicas is %u: set it to %u, or restore a "
	                 "checkpoint first (weir restore)",
	                 t->job->run_dir, has, has == 1 ? "" : "s", asked, has);
}

/* Checks that the run can be resumed: the servers' data exist or, if they have not served yet, the
 * checkpoint that they start from. */
static weir_status check_kept(const struct train *t, weir_error *err)
{
	const struct job *job = t->job;
	const bool on_disk = job->cluster.log == JOB_LOG_DISK, has_data = run_dir_has_data(job);
	weir_error why = {0};
	if (!on_disk && has_data)
		return weir_fail(err, WEIR_E_STATE,
		                 "--resume: the run in %s has its log on disk, which servers with `log: memory` would not read: set "
		                 "cluster.log to disk, or restore a checkpoint first (weir restore)",
		                 job->run_dir);
	if (!has_data && (!t->run.restore[0] || (!on_disk && t->run.servers > 0)))
		return weir_fail(err, WEIR_E_NOT_FOUND,
		                 "--resume: nothing of the run in %s was kept (`log: %s`): restore a checkpoint first (weir restore), or "
		                 "start it without --resume",
		                 job->run_dir, on_disk ? "disk" : "memory");
	weir_status status = check_replicas(t, &why);
	if (status == WEIR_OK && on_disk)
		status = run_dir_check_data(job, t->run.servers, &why);
	if (status == WEIR_OK && has_data)
		status = kept_run_check_cluster(job, &why);
	if (status == WEIR_OK)
		status = kept_run_check_best(job, &why);
	if (status == WEIR_OK && has_data)
		status = coordinator_check_kept(job, &why);
	return status == WEIR_OK ? WEIR_OK : weir_fail(err, status, "--resume: %s", why.text);
}

weir_status run_note_finished(struct train *t, bool finished, weir_error *err)
{
	if (t->job->cluster.servers_at_count > 0 || t->run.finished == finished)
		return WEIR_OK;
	t->run.finished = finished;
	return run_state_write(t->job->run_dir, &t->run, err);
}

weir_status run_find_kept(struct train *t, weir_error *err)
{
	weir_status status = run_state_read(t->job->run_dir, &t->run, err);
	if (status == WEIR_E_NOT_FOUND)
		return weir_fail(err, status, "--resume: %s holds no run of this job: start it without --resume", t->job->run_dir);
	return status == WEIR_OK ? check_kept(t, err) : status;
}

/* Refuses a new run if it would overwrite the data of another run, or replace a run that `weir
 * restore` has set up. */
weir_status run_refuse_earlier(const struct train *t, weir_error *err)
{
	const struct job *job = t->job;
	const char *verb = t->kind->verb;
	struct run_state earlier;
	weir_error why = {0};
	weir_status status = run_state_read(job->run_dir, &earlier, &why);
	if (run_dir_has_data(job))
		return weir_fail(err, WEIR_E_EXISTS,
		                 "%s holds the data of an earlier run: `weir %s --resume` goes on with it, `weir %s --fresh` deletes it",
		                 job->run_dir, verb, verb);
	if (status == WEIR_OK && earlier.restore[0])
		return weir_fail(err, WEIR_E_EXISTS,
		                 "%s is set to go on from checkpoint %s: `weir %s --resume` does, `weir %s --fresh` begins anew",
		                 job->run_dir, earlier.restore, verb, verb);
	return status == WEIR_OK || status == WEIR_E_NOT_FOUND
	           ? WEIR_OK
	           : weir_fail(err, status, "%s; `weir %s --fresh` begins anew", why.text, verb);
}

/* Checks which run to start or resume. A cluster that was started by other means knows its run. */
weir_status run_check(struct train *t, weir_error *err)
{
	if (t->job->cluster.servers_at_count > 0)
		return WEIR_OK;
	if (t->resume)
		return run_find_kept(t, err);
	return t->fresh ? WEIR_OK : run_refuse_earlier(t, err);
}

static weir_status new_run(struct train *t, weir_error *err)
{
	char ledger[WEIR_PATH_BYTES_MAX + 64];
	uint32_t number;
	weir_status status = earlier_runs_keep(t->job, &number, err);
	if (status == WEIR_OK)
		status = run_remove_data(t->job, err);
	if (status != WEIR_OK)
		return status;
	if (number)
		progress_line_note(&t->progress, "the results of the run before are in %s/earlier/%u now", t->job->run_dir, number);
	run_path(t->job, "ledger.address", ledger);
	unlink(ledger);
	struct entropy *e = entropy_system();
	if (t->fingerprint.text)
		status = run_fingerprint_begin(t->job->run_dir, t->fingerprint.text, t->units, err);
	if (status != WEIR_OK)
		return status;
	t->run = (struct run_state){.generation = 1};
	snprintf(t->run.warm_start, sizeof t->run.warm_start, "%s", t->job->train.warm_start);
	for (unsigned i = 0; i < sizeof t->run.uuid; i += sizeof(uint64_t))
		memcpy(t->run.uuid + i, &(uint64_t){e->ops->u64(e)}, sizeof(uint64_t));
	return run_state_write(t->job->run_dir, &t->run, err);
}

/* Begins the run. Unless the run is resumed, this deletes the data of an earlier run and moves its
 * results elsewhere. */
weir_status run_begin(struct train *t, weir_error *err)
{
	/* a cluster started by other means knows its own run */
	if (t->job->cluster.servers_at_count > 0) {
		snprintf(t->run.warm_start, sizeof t->run.warm_start, "%s", t->resume ? "" : t->job->train.warm_start);
		return WEIR_OK;
	}
	if (!t->resume)
		return new_run(t, err);
	const weir_status status =
	    t->fingerprint.text ? run_fingerprint_resume(t->job->run_dir, t->fingerprint.text, &t->accepted, err) : WEIR_OK;
	t->all_accepted = run_fingerprint_accepted(t->job->run_dir);
	return status == WEIR_OK ? run_note_finished(t, false, err) : status;
}

/* Tells whether run_begin moves or deletes this file. */
bool run_takes(const struct job *job, const char *path)
{
	unsigned server;
	int used = 0;
	char *file = realpath(path, NULL), *dir = realpath(job->run_dir, NULL);
	const size_t n = dir ? strlen(dir) : 0;
	bool found = false;
	if (file && dir && strncmp(file, dir, n) == 0 && file[n] == '/') {
		found = sscanf(file + n, "/server-%u/%n", &server, &used) == 1 && used > 0;
		found |= earlier_runs_takes(file + n + 1);
	}
	free(file);
	free(dir);
	return found;
}

weir_status run_pause(const struct train *t, int pause_ms, const char *awaited, weir_error *err)
{
	struct pollfd p = {.fd = t->signal_fd, .events = POLLIN};
	struct signalfd_siginfo info;
	if (poll(&p, 1, pause_ms) <= 0)
		return WEIR_OK;
	while (read(t->signal_fd, &info, sizeof info) == sizeof info)
		if (info.ssi_signo != SIGCHLD)
			return weir_fail(err, WEIR_E_CANCELLED, "stopped by %s while it waited for %s", strsignal((int)info.ssi_signo),
			                 awaited);
	return WEIR_OK;
}

/* Checks the certificates, including those of the processes that this command starts. */
weir_status run_check_certificates(const struct train *t, weir_error *err)
{
	const struct job *job = t->job;
	const enum peer_role roles[] = {ROLE_SERVER, ROLE_ADMIN, ROLE_WORKER, job_evaluator_role(job)};
	const unsigned count = t->kind->start_workers ? sizeof roles / sizeof *roles : 2;
	weir_status status = WEIR_OK;
	for (unsigned i = job->cluster.servers_at_count > 0; *job->security.certificate && i < count && status == WEIR_OK; i++) {
		struct job_security security;
		job_security(job, roles[i], &security);
		status = certificates_check(&security.is, err);
	}
	return status;
}

/* Keeps a job file that came from a pipe in the run directory: servers, workers and later verbs
 * read it there. */
weir_status run_keep_piped_job(struct train *t, weir_error *err)
{
	if (!job_file_is_piped(t->options.path))
		return WEIR_OK;
	run_path(t->job, PIPED_JOB, t->job_path);
	t->options.path = t->job_path;
	progress_line_note(&t->progress, "the job file is kept as %s", t->job_path);
	return disk_write_file(disk_system(), t->job_path, t->job_text, strlen(t->job_text), err);
}
