/* weir train: runs a job on this machine from its file to its report. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "cli/core/verbs.h"
#include "cli/run/check.h"
#include "cli/run/choice.h"
#include "cli/run/data_check.h"
#include "cli/run/earlier_runs.h"
#include "cli/run/job_loop.h"
#include "cli/run/job_servers.h"
#include "cli/run/kept_run.h"
#include "cli/run/launch.h"
#include "cli/run/run_dir.h"
#include "cli/run/run_fingerprint.h"
#include "cli/run/train.h"
#include "cli/run/weights_file.h"
#include "common/base/prng.h"
#include "common/system/disk.h"
#include "common/system/output.h"
#include "common/system/stop_signals.h"
#include "common/tls/certificate.h"
#include "kernels/backend.h"
#include "worker/data/columns/generate_clicks.h"
#include "worker/data/dataset.h"
#include "worker/train/job/device.h"

enum { TRAIN_SERVERS_END_MS = WEIR_DRAIN_MS, TRAIN_SCRUB_MS = WEIR_SCRUB_PATIENCE_MS + 10000 };

/* --- Preparing */

static void run_path(const struct job *job, const char *name, char out[WEIR_PATH_BYTES_MAX + 64])
{
	snprintf(out, WEIR_PATH_BYTES_MAX + 64, "%s/%s", job->run_dir, name);
}

#define PIPED_JOB "piped-job.yaml"

/* --- Choosing the run */

static weir_status remove_data(const struct job *job, weir_error *err)
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

static weir_status note_finished(struct train *t, bool finished, weir_error *err)
{
	if (t->job->cluster.servers_at_count > 0 || t->run.finished == finished)
		return WEIR_OK;
	t->run.finished = finished;
	return run_state_write(t->job->run_dir, &t->run, err);
}

static weir_status find_kept_run(struct train *t, weir_error *err)
{
	weir_status status = run_state_read(t->job->run_dir, &t->run, err);
	if (status == WEIR_E_NOT_FOUND)
		return weir_fail(err, status, "--resume: %s holds no run of this job: start it without --resume", t->job->run_dir);
	return status == WEIR_OK ? check_kept(t, err) : status;
}

/* Refuses a new run if it would overwrite the data of another run, or replace a run that `weir
 * restore` has set up. */
static weir_status refuse_earlier_run(const struct job *job, weir_error *err)
{
	struct run_state earlier;
	weir_error why = {0};
	weir_status status = run_state_read(job->run_dir, &earlier, &why);
	if (run_dir_has_data(job))
		return weir_fail(
		    err, WEIR_E_EXISTS,
		    "%s holds the data of an earlier run: `weir train --resume` goes on with it, `weir train --fresh` deletes it",
		    job->run_dir);
	if (status == WEIR_OK && earlier.restore[0])
		return weir_fail(err, WEIR_E_EXISTS,
		                 "%s is set to go on from checkpoint %s: `weir train --resume` does, `weir train --fresh` begins anew",
		                 job->run_dir, earlier.restore);
	return status == WEIR_OK || status == WEIR_E_NOT_FOUND
	           ? WEIR_OK
	           : weir_fail(err, status, "%s; `weir train --fresh` begins anew", why.text);
}

/* Checks which run to start or resume. A cluster that was started by other means knows its run. */
static weir_status check_run(struct train *t, weir_error *err)
{
	if (t->job->cluster.servers_at_count > 0)
		return WEIR_OK;
	if (t->resume)
		return find_kept_run(t, err);
	return t->fresh ? WEIR_OK : refuse_earlier_run(t->job, err);
}

static weir_status new_run(struct train *t, weir_error *err)
{
	char ledger[WEIR_PATH_BYTES_MAX + 64];
	uint32_t number;
	weir_status status = earlier_runs_keep(t->job, &number, err);
	if (status == WEIR_OK)
		status = remove_data(t->job, err);
	if (status != WEIR_OK)
		return status;
	if (number)
		progress_line_note(&t->progress, "the results of the run before are in %s/earlier/%u now", t->job->run_dir, number);
	run_path(t->job, "ledger.address", ledger);
	unlink(ledger);
	struct entropy *e = entropy_system();
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
static weir_status begin_run(struct train *t, weir_error *err)
{
	/* a cluster started by other means knows its own run */
	if (t->job->cluster.servers_at_count > 0) {
		snprintf(t->run.warm_start, sizeof t->run.warm_start, "%s", t->resume ? "" : t->job->train.warm_start);
		return WEIR_OK;
	}
	if (!t->resume)
		return new_run(t, err);
	const weir_status status = run_fingerprint_resume(t->job->run_dir, t->fingerprint.text, &t->accepted, err);
	t->all_accepted = run_fingerprint_accepted(t->job->run_dir);
	return status == WEIR_OK ? note_finished(t, false, err) : status;
}

/* Tells whether begin_run moves or deletes this file. */
static bool is_of_earlier_run(const struct job *job, const char *path)
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

/* Checks that the initial weights can be imported and will still exist then. */
static weir_status check_warm_start(struct train *t, weir_error *err)
{
	const char *path = t->job->train.warm_start, *key = strcmp(path, t->job->model.from) == 0 ? "model.from" : "train.warm_start";
	struct weights_file weights;
	weir_error why = {0};
	if (!path[0] || t->resume)
		return WEIR_OK;
	if (is_of_earlier_run(t->job, path))
		return weir_fail(err, WEIR_E_INVALID, "%s: %s is of the earlier run, which a new one moves away: copy it elsewhere first",
		                 key, path);
	weir_status status = weights_file_open(&weights, t->job, path, &t->accepted, t->logger, &why);
	weights_file_close(&weights);
	return status == WEIR_OK ? WEIR_OK : weir_fail(err, status, "%s: %s", key, why.text);
}

/* Returns the generator options. Without a split, the scores of the synthetic model are those of
 * all rows. */
static struct generate_options generation(const struct job *job)
{
	const bool split = job->data.split.by != SPLIT_NONE;
	return (struct generate_options){.path = job->data.train[0],
	                                 .rows = job->data.generate.rows,
	                                 .ids = job->data.generate.ids,
	                                 .seed = job->data.generate.seed,
	                                 .split_train = split ? job->data.split.train : 0,
	                                 .split_valid = split ? job->data.split.valid : 0,
	                                 .split_test = split ? job->data.split.test : 0};
}

static weir_status generate(struct train *t, struct report *r, weir_error *err)
{
	struct ground_truth truth = {0};
	struct generate_options options = generation(t->job);
	if (!generate_is_current(&options, &truth)) {
		progress_line_note(&t->progress, "generating %" PRIu64 " rows of click data in %s", options.rows, options.path);
		weir_status status = generate_criteo(&options, &truth, err);
		if (status != WEIR_OK)
			return status;
	}
	progress_line_note(&t->progress, "%" PRIu64 " rows with %" PRIu64 " distinct ids, of %" PRIu64 " in the model",
	                   truth.all.rows, truth.ids_seen, truth.ids);
	const struct generate_scores *best = truth.test.rows > 0 ? &truth.test : &truth.all;
	r->generated = true;
	r->bayes_auc = best->auc;
	r->bayes_logloss = best->logloss;
	r->data_rows = truth.all.rows;
	r->ids_planted = truth.ids;
	r->ids_seen = truth.ids_seen;
	return WEIR_OK;
}

/* Computes the fingerprint, which covers everything that determines the job's results. A resumed
 * run must keep its fingerprint, except for accepted differences. */
static weir_status check_fingerprint(struct train *t, struct dataset *const parts[3], weir_error *err)
{
	/* A resumed run has already begun with its weights, whether the job names them again or not. */
	const struct fingerprint_parts known = {.items = {parts[SPLIT_TRAIN], parts[SPLIT_VALID], parts[SPLIT_TEST]},
	                                        .begins = !t->resume || t->job->train.warm_start[0]};
	const weir_status status = job_fingerprint(t->job, &known, &t->fingerprint, err);
	const struct dataset *train = parts[SPLIT_TRAIN];
	const bool tells_length = train && (!t->dry_run || dataset_get_info(train)->rows > 0);
	t->units = train && !t->dry_run ? dataset_get_info(train)->units : 0;
	if (status != WEIR_OK || !t->resume || t->job->cluster.servers_at_count > 0)
		return status; /* the ledger of a cluster that was started by other means compares it */
	weir_error why = {0};
	weir_status kept = run_fingerprint_check(t->job->run_dir, t->fingerprint.text, t->units, &t->accepted, err);
	if (kept == WEIR_OK && t->accepted.record && tells_length)
		kept = kept_run_check_tables(t->job, &t->run, train, &why);
	return why.text[0] ? weir_fail(err, kept, "--resume: %s", why.text) : kept;
}

/* Generates data if the job asks for it, and opens the data once. */
static weir_status prepare_data(struct train *t, struct report *r, weir_error *err)
{
	struct data_check found = {0};
	weir_status status = t->job->data.generate.rows > 0 ? generate(t, r, err) : WEIR_OK;
	if (status == WEIR_OK) {
		progress_line_note(&t->progress, "reading the data");
		status = data_check(t->job, !t->resume, t->logger, &found, err);
	}
	if (status == WEIR_OK)
		status = check_fingerprint(t, found.parts, err);
	if (*found.warning)
		progress_line_note(&t->progress, "warning: %s", found.warning);
	r->bad_lines = found.bad_lines;
	if (status == WEIR_OK && job_normalises_batches(t->job) && found.rows % t->job->data.batch == 1)
		progress_line_note(
		    &t->progress,
		    "the last batch of a pass has one row, which model.batch_norm cannot learn from: it is left out (%" PRIu64
		    " rows, data.batch %u)",
		    found.rows, t->job->data.batch);
	if (status == WEIR_OK)
		status = choice_note(&t->progress, t->job, found.parts[SPLIT_VALID], err);
	data_check_close(&found);
	return status;
}

/* Blocks the signals, to read them from a descriptor. Children get an empty mask again. Call before
 * creating any thread. */
static weir_status take_signals(struct train *t, weir_error *err)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	stop_signals_add(&set);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	t->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return t->signal_fd >= 0 ? WEIR_OK : weir_fail(err, WEIR_E_IO, "cannot make a signalfd: %s", strerror(errno));
}

/* Checks the certificates, including those of the processes that this command starts. */
static weir_status check_certificates(const struct job *job, weir_error *err)
{
	const enum peer_role roles[] = {ROLE_SERVER, ROLE_WORKER, ROLE_ADMIN, job_evaluator_role(job)};
	weir_status status = WEIR_OK;
	for (unsigned i = job->cluster.servers_at_count > 0;
	     *job->security.certificate && i < sizeof roles / sizeof *roles && status == WEIR_OK; i++) {
		struct job_security security;
		job_security(job, roles[i], &security);
		status = certificates_check(&security.is, err);
	}
	return status;
}

/* Keeps a job file that came from a pipe in the run directory: servers, workers and later verbs
 * read it there. */
static weir_status keep_piped_job(struct train *t, weir_error *err)
{
	if (!job_file_is_piped(t->options.path))
		return WEIR_OK;
	run_path(t->job, PIPED_JOB, t->job_path);
	t->options.path = t->job_path;
	progress_line_note(&t->progress, "the job file is kept as %s", t->job_path);
	return disk_write_file(disk_system(), t->job_path, t->job_text, strlen(t->job_text), err);
}

/* Prepares the run. Reports every error in a job before the earlier run is modified. */
static weir_status prepare(struct train *t, struct report *r, weir_error *err)
{
	if (t->chaos.seed != CHAOS_OFF && t->job->cluster.servers_at_count > 0)
		return weir_fail(err, WEIR_E_INVALID,
		                 "--chaos hits the servers that this command starts; cluster.servers_at names others");
	device_show(t->job, 0);
	const struct backend_options where = device_options(t->job, 0, 1, true);
	weir_status status = backend_check(&where, err);
	if (status == WEIR_OK)
		status = check_certificates(t->job, err);
	if (status == WEIR_OK)
		status = run_dir_lock(t->job, &t->run_dir_fd, err);
	if (status == WEIR_OK && t->job->cluster.servers_at_count == 0)
		status = job_servers_check_idle(t->job, "weir train", err);
	if (status == WEIR_OK && t->job->cluster.servers_at_count == 0)
		run_dir_remove_temporaries(t->job);
	if (status == WEIR_OK)
		status = check_run(t, err);
	if (status == WEIR_OK && t->report_path)
		status = report_check_path(t->report_path, t->job, t->options.path, err);
	if (status == WEIR_OK)
		status = coordinator_find(t, err);
	if (status == WEIR_OK)
		status = prepare_data(t, r, err);
	if (status == WEIR_OK)
		status = check_warm_start(t, err);
	if (status == WEIR_OK)
		status = launch_choose_addresses(t, err);
	if (status == WEIR_OK)
		status = launch_check_pages(t->job, t->http, err);
	if (status == WEIR_OK)
		status = coordinator_choose(t, err);
	if (status == WEIR_OK)
		status = begin_run(t, err);
	return status == WEIR_OK ? keep_piped_job(t, err) : status;
}

static void note_start(struct train *t)
{
	const struct job *job = t->job;
	char replicas[64] = "";
	if (job->cluster.replicas > 1)
		snprintf(replicas, sizeof replicas, " with %u replicas of each partition", job->cluster.replicas);
	progress_line_note(&t->progress, "%s: %u server%s%s, %u worker%s, model %s; logs in %s", job->name, job->cluster.servers,
	                   job->cluster.servers == 1 ? "" : "s", replicas, job->cluster.workers, job->cluster.workers == 1 ? "" : "s",
	                   model_kind_name(job->model.kind), job->run_dir);
	char rate[32] = "any rate";
	if (job->cluster.network.rate_bits_per_s)
		snprintf(rate, sizeof rate, "%.4g Mb/s each way", (double)job->cluster.network.rate_bits_per_s * 1e-6);
	if (job->cluster.network.rate_bits_per_s || job->cluster.network.latency_ms)
		progress_line_note(&t->progress, "a simulated network: %s and %u ms for each process", rate,
		                   job->cluster.network.latency_ms);
}

static weir_status open_events(struct train *t, weir_error *err)
{
	char folder[WEIR_PATH_BYTES_MAX + 64];
	run_path(t->job, EVENTS_FOLDER, folder);
	return events_open(&t->events, folder, t->clock->ops->wall_ns(t->clock) / 1000000, err);
}

static weir_status open_pages(struct train *t, weir_error *err)
{
	const struct job_pages_options options = {.address = t->http, .names = &t->http_names, .job = t->job, .name = t->job->name};
	const weir_status status = t->http ? job_pages_start(&t->pages, &options, err) : WEIR_OK;
	if (t->pages)
		progress_line_note(&t->progress, "http://%s/ shows it", job_pages_address(t->pages));
	return status;
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
	if (status == WEIR_OK)
		status = launch_workers(t, err);
	if (status == WEIR_OK)
		status = job_servers_find_ledger(t->job, NULL, ledger, err);
	if (status == WEIR_OK) /* fork first: gRPC starts threads */
		status = status_poller_open(&t->poller, t->job, ledger, t->logger, err);
	if (status == WEIR_OK)
		status = open_events(t, err);
	if (status == WEIR_OK)
		status = open_pages(t, err);
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
	launch_end(t, TRAIN_SERVERS_END_MS);
	(void)remove_data(t->job, &ignored);
	/* the folder is empty, but it would make this a run worth keeping, in the place of a real
	 * one */
	run_path(t->job, EVENTS_FOLDER, curves);
	if (run_dir_remove(curves, &ignored) != WEIR_OK)
		progress_line_note(&t->progress, "%s", ignored.text);
}

/* --- Reporting */

/* Measures the rows of this run over the time between the first and the last growth seen. For a run
 * too short for that, measures all rows over the workers' lifetime. */
static void measure_speed(const struct train *t, struct report *r)
{
	r->wall_s = (double)(clock_ms(t->clock) - t->start_ms) / 1e3;
	r->run_rows = t->seen.rows > t->rows_before ? t->seen.rows - t->rows_before : 0;
	if (r->run_rows == 0)
		return;
	r->train_s = (double)(t->last_rows_ms - t->first_rows_ms) / 1e3;
	r->train_rows = t->seen.rows > t->first_rows ? t->seen.rows - t->first_rows : 0;
	if (r->train_s < 1 || r->train_rows == 0) {
		r->train_s = (double)(clock_ms(t->clock) - t->workers_ms) / 1e3;
		r->train_rows = r->run_rows;
	}
}

static void make_audit(struct train *t, struct report *r)
{
	struct overview_replicas replicas;
	weir_error err = {0};
	r->audit = audit_run(&t->seen);
	if (t->job->cluster.replicas > 1 && status_poller_scrub(t->poller, TRAIN_SCRUB_MS, &replicas, &err) == WEIR_OK)
		audit_add_replicas(&r->audit, &replicas);
}

static weir_status make_report(struct train *t, struct report *r, weir_error *err)
{
	char path[WEIR_PATH_BYTES_MAX + 64], weights[WEIR_PATH_BYTES_MAX + 64];
	weir_error missing = {0};
	weir_status status = WEIR_OK;
	run_path(t->job, "best.safetensors", weights);
	r->weights = weights;
	r->of_job = t->job;
	r->job = t->job->name;
	r->model = model_kind_name(t->job->model.kind);
	r->network_bits_per_s = t->job->cluster.network.rate_bits_per_s;
	r->network_latency_ms = t->job->cluster.network.latency_ms;
	r->of = report_reads(t->job);
	r->accepted = t->all_accepted ? t->all_accepted : t->accepted.record;
	r->workers = t->job->cluster.workers;
	r->end = &t->seen;
	curve_end(&t->curve, &t->seen);
	r->curve = &t->curve;
	r->finished = t->seen_any && t->seen.state == JOB_FINISHED && !t->server_gone;
	r->was_finished = r->finished && t->was_finished;
	r->servers_lost = t->servers_lost;
	r->servers_silent = t->silent.count;
	r->partitions_moved = t->replicas.moved;
	r->rewinds = t->rewinds;
	r->batches_undone = t->batches_undone;
	r->chaos = t->chaos.seed != CHAOS_OFF ? &t->chaos : NULL;
	r->bad_lines += t->seen.bad_lines;
	r->workers_lost = t->seen.workers_lost > t->workers_killed ? t->seen.workers_lost : t->workers_killed;
	measure_speed(t, r);
	if (r->finished) {
		make_audit(t, r);
		status = note_finished(t, true, err);
	}
	run_path(t->job, "evaluation.json", path);
	if (status == WEIR_OK && report_read_evaluation(r, path, &missing) != WEIR_OK && r->finished)
		status = weir_fail(err, missing.status, "the evaluator left no result: %s; see the end of %s/evaluator.log", missing.text,
		                   t->job->run_dir);
	FILE *words = t->report_path ? output_words(t->report_path) : stdout;
	report_print(r, words);
	fflush(words);
	run_path(t->job, "report.json", path);
	const char *const copies[] = {path, t->report_path};
	for (unsigned i = 0; i < sizeof copies / sizeof *copies && copies[i]; i++) {
		weir_status written = report_write(r, copies[i], status == WEIR_OK ? err : NULL);
		status = status == WEIR_OK ? written : status;
	}
	return status;
}

/* Prints the first failure as the last line on stderr and returns the exit status. */
static int verdict(struct train *t, const struct report *r)
{
	weir_error *e = &t->failure;
	char advice[WEIR_ERROR_TEXT_BYTES / 4];
	const bool stopped = e->status == WEIR_OK && t->stop_signal && !r->finished;
	if (stopped) {
		run_dir_advice(t->job, advice, sizeof advice);
		weir_fail(e, WEIR_E_CANCELLED, "stopped by %s before the job was finished; %s", strsignal(t->stop_signal), advice);
	}
	if (e->status == WEIR_OK && !r->audit.ok)
		weir_fail(e, WEIR_E_INTERNAL, "the audit failed: %s", r->audit.text);
	if (e->status == WEIR_OK && r->finished && t->seen.batches_not_finite && r->audit.parts_expected == 0)
		weir_fail(
		    e, WEIR_E_INVALID,
		    "nothing was learnt: the gradients of all %" PRIu64
		    " batches had a NaN or an infinity, and were left out (train.not_finite). The first of them say that values of the "
		    "data are too large to compute with: scale them",
		    t->seen.batches_not_finite);
	const struct overview_checkpoints *c = &t->seen.checkpoints;
	/* the weights are kept; the checkpoint is not */
	if (e->status == WEIR_OK && (c->failing || (c->running && !c->written)))
		weir_fail(e, WEIR_E_IO, "the job is finished, and its weights are kept, but its last checkpoint failed: %s",
		          c->failing ? c->text : "it was not written when the job ended");
	if (e->status == WEIR_OK)
		return EXIT_SUCCESS;
	(void)verb_fail("train", e);
	return stopped ? EXIT_BY_SIGNAL(t->stop_signal) : EXIT_FAILURE;
}

static int train(struct train *t)
{
	struct report report = {0};
	weir_error *err = &t->failure;
	weir_status status = prepare(t, &report, err);
	if (status != WEIR_OK)
		return verb_fail("train", err);
	status = take_signals(t, err);
	if (status == WEIR_OK)
		status = start(t, err);
	if (status != WEIR_OK) {
		undo_start(t);
		return verb_fail("train", err);
	}
	replicas_init(&t->replicas, t->job->cluster.replicas);
	if (t->chaos.seed != CHAOS_OFF)
		chaos_begin(&t->chaos, t->job, t->supervisor, &t->progress, clock_ms(t->clock));
	job_loop_run(t);
	weir_error unreported = {0};
	if (make_report(t, &report, &unreported) != WEIR_OK && t->failure.status == WEIR_OK)
		t->failure = unreported;
	status_poller_close(t->poller);
	t->poller = NULL;
	launch_end(t, t->stop_at_once ? 0 : TRAIN_SERVERS_END_MS);
	const int code = verdict(t, &report);
	report_free(&report);
	return code;
}

static void train_free(struct train *t)
{
	job_pages_stop(t->pages);
	status_poller_close(t->poller);
	if (t->supervisor)
		launch_end(t, TRAIN_SERVERS_END_MS);
	supervisor_destroy(t->supervisor);
	overview_free(&t->seen);
	curve_free(&t->curve);
	events_close(&t->events);
	replicas_free(&t->replicas);
	free(t->addresses);
	if (t->signal_fd >= 0)
		close(t->signal_fd);
	if (t->run_dir_fd >= 0)
		close(t->run_dir_fd);
	logger_destroy(t->logger);
	free(t->job_text);
	free(t->fingerprint.text);
	accepted_free(&t->accepted);
	json_destroy(t->all_accepted);
	job_free(t->job);
}

/* Checks a resumed run as far as the data can be read without writing anything. */
static weir_status peek_at_resumed(struct train *t, weir_error *err)
{
	struct data_check found;
	weir_status status = find_kept_run(t, err);
	if (status != WEIR_OK)
		return status;
	status = data_check_peek(t->job, t->logger, &found, err);
	if (status == WEIR_OK)
		status = check_fingerprint(t, found.parts, err);
	data_check_close(&found);
	return status;
}

/* Reports everything that can be checked without creating, starting or deleting anything. */
static int dry_run(struct train *t)
{
	const uint32_t wrong = check_job(t->job, t->logger, stdout);
	weir_error *err = &t->failure;
	weir_status status =
	    wrong ? weir_fail(err, WEIR_E_INVALID, "%u thing%s wrong: see above", wrong, wrong == 1 ? " is" : "s are") : WEIR_OK;
	if (status == WEIR_OK && t->job->cluster.servers_at_count == 0 && !t->fresh)
		status = t->resume ? peek_at_resumed(t, err) : refuse_earlier_run(t->job, err);
	if (status == WEIR_OK && t->report_path)
		status = report_check_path(t->report_path, t->job, t->options.path, err);
	if (status == WEIR_OK)
		status = launch_check_pages(t->job, t->http, err);
	if (status == WEIR_OK)
		check_print_plan(t->job, t->resume, t->fresh, stdout);
	fflush(stdout);
	return status == WEIR_OK ? EXIT_SUCCESS : verb_fail("train", err);
}

int verb_train(int count, char **args)
{
	struct train t = {.clock = clock_system(), .run_dir_fd = -1, .signal_fd = -1, .chaos.seed = CHAOS_OFF};
	const struct option options[] = {
	    JOB_OPTIONS(&t.options),
	    {"--report", OPTION_TEXT, &t.report_path, "OUT.json", "write the report there, as JSON"},
	    {"--http", OPTION_TEXT, &t.http, "[HOST:]PORT",
	     "show the run on a page, and to Prometheus at /metrics; on loopback unless HOST is given"},
	    HTTP_NAME_OPTION(t.http_names),
	    {"--resume", OPTION_FLAG, &t.resume, NULL, "go on with the earlier run of this job"},
	    {"--fresh", OPTION_FLAG, &t.fresh, NULL,
	     "begin anew: the servers' data of the earlier run are deleted, its results kept"},
	    {"--dry-run", OPTION_FLAG, &t.dry_run, NULL, "check all that `weir check` does, print what would be done, and end"},
	    ACCEPT_OPTION(t.accepted),
	    {"--chaos", OPTION_COUNT, &t.chaos.seed, "SEED", "kill and stop processes at random meanwhile"}};
	const char *word = NULL;
	t.start_ms = clock_ms(t.clock);
	progress_line_init(&t.progress, stderr, getenv("TERM"));
	weir_status status = options_parse(count, args, options, sizeof options / sizeof *options, &word, 1, &t.failure);
	if (status == WEIR_OK)
		status = job_options_take(&t.options, word, &t.failure);
	if (status == WEIR_OK && t.resume && t.fresh)
		status =
		    weir_fail(&t.failure, WEIR_E_INVALID, "--resume goes on with the earlier run, --fresh deletes it: give one of them");
	if (status == WEIR_OK)
		status = fingerprint_check_accepted(t.accepted.keys.items, t.accepted.keys.count, &t.failure);
	if (status == WEIR_OK)
		status = job_options_logger(&t.options, "weir", LOG_WARN, &t.logger, &t.failure);
	if (status != WEIR_OK)
		return verb_usage("train", &t.failure);
	status = job_options_load_text(&t.options, &t.job, &t.job_text, &t.failure);
	const int code = status != WEIR_OK ? verb_fail("train", &t.failure) : t.dry_run ? dry_run(&t) : train(&t);
	train_free(&t);
	return code;
}
