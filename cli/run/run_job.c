/* Runs a job on this machine, from its preparation to its end. */
#include "cli/run/run_job.h"

#include <stdlib.h>
#include <unistd.h>

#include "cli/core/verbs.h"
#include "cli/run/job_loop.h"
#include "cli/run/job_servers.h"
#include "cli/run/launch.h"
#include "cli/run/run_begin.h"
#include "cli/run/run_dir.h"
#include "cli/run/run_end.h"
#include "cli/run/run_plan.h"
#include "cli/run/run_record.h"
#include "cli/run/run_track.h"
#include "common/system/stop_signals.h"
#include "worker/model/model.h"

enum { RUN_SERVERS_END_MS = WEIR_DRAIN_MS };

/* Prepares the run. Reports every error in a job before the earlier run is modified. */
static weir_status prepare(struct train *t, struct report *r, weir_error *err)
{
	char who[WEIR_NAME_BYTES_MAX];
	snprintf(who, sizeof who, "weir %s", t->kind->verb);
	if (t->chaos.seed != CHAOS_OFF && t->job->cluster.servers_at_count > 0)
		return weir_fail(err, WEIR_E_INVALID,
		                 "--chaos hits the servers that this command starts; cluster.servers_at names others");
	weir_status status = run_check_certificates(t, err);
	if (status == WEIR_OK)
		status = run_dir_lock(t->job, &t->run_dir_fd, err);
	if (status == WEIR_OK && t->job->cluster.servers_at_count == 0)
		status = job_servers_check_idle(t->job, who, err);
	if (status == WEIR_OK && t->job->cluster.servers_at_count == 0)
		run_dir_remove_temporaries(t->job);
	if (status == WEIR_OK)
		status = run_check(t, err);
	if (status == WEIR_OK && t->report_path)
		status = report_check_path(t->report_path, t->job, t->options.path, err);
	if (status == WEIR_OK)
		status = coordinator_find(t, err);
	if (status == WEIR_OK && t->kind->prepare)
		status = t->kind->prepare(t, r, err);
	if (status == WEIR_OK)
		status = launch_choose_addresses(t, err);
	if (status == WEIR_OK)
		status = launch_check_pages(t->job, t->http, err);
	if (status == WEIR_OK)
		status = coordinator_choose(t, err);
	if (status == WEIR_OK)
		status = run_begin(t, err);
	if (status == WEIR_OK)
		status = run_plan_keep(t, err);
	if (status == WEIR_OK)
		status = run_keep_piped_job(t, err);
	return status == WEIR_OK ? run_record_begin(t, err) : status;
}

/* Writes ", 2 workers, model deepfm", or ", workers 4-7 of 8, python". */
static void describe_workers(const struct train *t, char out[96])
{
	const uint32_t n = t->job->cluster.workers;
	out[0] = '\0';
	if (t->range)
		snprintf(out, 96, ", workers %u-%u of %u, %s", t->ranks.first, t->ranks.first + t->ranks.count - 1, n, t->command[0]);
	else if (t->kind->start_workers)
		snprintf(out, 96, ", %u worker%s, %s%s", n, n == 1 ? "" : "s", t->job->foreign ? "" : "model ",
		         t->job->foreign ? t->command[0] : model_kind_name(t->job->model.kind));
}

static void note_start(struct train *t)
{
	const struct job *job = t->job;
	char replicas[64] = "", workers[96];
	if (job->cluster.replicas > 1)
		snprintf(replicas, sizeof replicas, " with %u replicas of each partition", job->cluster.replicas);
	describe_workers(t, workers);
	progress_line_note(&t->progress, "%s: %u server%s%s%s; logs in %s", job->name, job->cluster.servers,
	                   job->cluster.servers == 1 ? "" : "s", replicas, workers, job->run_dir);
	char rate[32] = "any rate";
	if (job->cluster.network.rate_bits_per_s)
		snprintf(rate, sizeof rate, "%.4g Mb/s each way", (double)job->cluster.network.rate_bits_per_s * 1e-6);
	if (job->cluster.network.rate_bits_per_s || job->cluster.network.latency_ms)
		progress_line_note(&t->progress, "a simulated network: %s and %u ms for each process", rate,
		                   job->cluster.network.latency_ms);
}

static weir_status start(struct train *t, weir_error *err)
{
	char dir[WEIR_PATH_BYTES_MAX], ledger[JOB_PLACES_BYTES];
	weir_status status = supervisor_own_dir(dir, sizeof dir, err);
	if (status == WEIR_OK)
		status = supervisor_create(&t->supervisor, dir, t->job->run_dir, t->clock, err);
	if (status == WEIR_OK)
		status = coordinator_start(t, err);
	if (status == WEIR_OK)
		status = launch_servers(t, err);
	if (status == WEIR_OK)
		status = launch_warm_start(t, err);
	t->workers_ms = clock_ms(t->clock);
	if (status == WEIR_OK && t->kind->start_workers)
		status = t->kind->start_workers(t, err);
	if (status == WEIR_OK)
		status = job_servers_find_ledger(t->job, NULL, ledger, err);
	if (status == WEIR_OK) /* fork first: gRPC starts threads */
		status = status_poller_open(&t->poller, t->job, ledger, t->logger, err);
	if (status == WEIR_OK)
		status = run_track_begin(t, err);
	if (status == WEIR_OK)
		note_start(t);
	return status;
}

/* Cleans up after a failed start, when nothing was trained: the data that the servers of a new run
 * have written must not make the next run be refused. */
static void undo_start(struct train *t)
{
	weir_error ignored = {0};
	if (t->resume || t->job->cluster.servers_at_count > 0 || !t->supervisor)
		return;
	char curves[WEIR_PATH_BYTES_MAX + 64];
	launch_stop(t, RUN_SERVERS_END_MS);
	(void)run_remove_data(t->job, &ignored);
	/* the folder is empty, but it would make this a run worth keeping, in the place of a real one;
	 * a track.dir may have the curves of other runs */
	run_track_events(t->job, curves);
	if (t->events.out && !t->events.goes_on && run_dir_remove(curves, &ignored) != WEIR_OK)
		progress_line_note(&t->progress, "%s", ignored.text);
}

weir_status run_start(struct train *t, struct report *r, weir_error *err)
{
	weir_status status = prepare(t, r, err);
	if (status != WEIR_OK)
		return status;
	status = stop_signals_open(&t->signal_fd, err);
	if (status == WEIR_OK)
		status = start(t, err);
	if (status != WEIR_OK) {
		undo_start(t);
		return status;
	}
	replicas_init(&t->replicas, t->job->cluster.replicas);
	if (t->chaos.seed != CHAOS_OFF)
		chaos_begin(&t->chaos, t->job, t->supervisor, &t->progress, clock_ms(t->clock));
	return WEIR_OK;
}

void run_stop(struct train *t)
{
	status_poller_close(t->poller);
	t->poller = NULL;
	launch_stop(t, t->stop_at_once ? 0 : RUN_SERVERS_END_MS);
}

int run_job(struct train *t)
{
	struct report report = {0};
	if (run_start(t, &report, &t->failure) != WEIR_OK) {
		report_destroy(&report);
		return verb_fail(t->kind->verb, &t->failure);
	}
	job_loop_run(t);
	run_take_checkpoint(t);
	weir_error unreported = {0};
	if (run_report(t, &report, &unreported) != WEIR_OK && t->failure.status == WEIR_OK)
		t->failure = unreported;
	run_stop(t);
	run_record_end(t);
	run_track_end(t, &report);
	const int code = run_verdict(t, &report);
	report_destroy(&report);
	return code;
}

void run_destroy(struct train *t)
{
	struct tracker_outcome unsent;
	job_pages_stop(t->pages);
	tracker_stop(t->tracker, &unsent);
	energy_close(t->energy);
	status_poller_close(t->poller);
	if (t->supervisor)
		launch_stop(t, RUN_SERVERS_END_MS);
	supervisor_destroy(t->supervisor);
	overview_destroy(&t->seen);
	curve_destroy(&t->curve);
	events_close(&t->events);
	replicas_destroy(&t->replicas);
	free(t->addresses);
	if (t->signal_fd >= 0)
		close(t->signal_fd);
	if (t->run_dir_fd >= 0)
		close(t->run_dir_fd);
	logger_destroy(t->logger);
	free(t->job_text);
	job_resolved_destroy(&t->resolved);
	free(t->fingerprint.text);
	accepted_destroy(&t->accepted);
	json_destroy(t->all_accepted);
	job_destroy(t->job);
}
