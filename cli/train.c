/* weir train: runs a job on this machine from its file to its report. */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "dataset.h"
#include "disk.h"
#include "generate.h"
#include "prng.h"
#include "train.h"
#include "verbs.h"

enum { TRAIN_SERVERS_END_MS = 2000 };

static const char *model_name(enum model_kind kind)
{
	switch (kind) {
	case MODEL_LR:
		return "lr";
	case MODEL_FM:
		return "fm";
	case MODEL_WIDE_DEEP:
		return "wide_deep";
	case MODEL_DEEPFM:
		return "deepfm";
	case MODEL_DCN_V2:
		return "dcn_v2";
	case MODEL_DLRM:
		return "dlrm";
	}
	return "unknown";
}

/* --- Preparing */

static void run_path(const struct job *job, const char *name, char out[WEIR_PATH_BYTES_MAX + 64])
{
	snprintf(out, WEIR_PATH_BYTES_MAX + 64, "%s/%s", job->run_dir, name);
}

/* Makes and locks the run directory, and clears away the results of the run before. */
static weir_status prepare_run_dir(struct train *t, weir_error *err)
{
	const char *dir = t->job->run_dir;
	char path[WEIR_PATH_BYTES_MAX + 64];
	weir_status s = disk_system()->ops->make_dirs(disk_system(), dir, err);
	if (s != WEIR_OK)
		return s;
	if (access(dir, W_OK | X_OK) != 0)
		return weir_fail(err, WEIR_E_IO, "cannot write in the run directory %s: %s; set run_dir or give its owner the right", dir,
		                 strerror(errno));
	t->run_dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (t->run_dir_fd < 0)
		return weir_fail(err, WEIR_E_IO, "cannot open the run directory %s: %s", dir, strerror(errno));
	if (flock(t->run_dir_fd, LOCK_EX | LOCK_NB) != 0)
		return weir_fail(err, WEIR_E_BUSY, "another `weir train` runs in %s; stop it, or give this job another name or run_dir",
		                 dir);
	static const char *const results[] = {"evaluation.json", "best.safetensors", "ledger.address"};
	for (unsigned i = 0; i < sizeof results / sizeof *results; i++) {
		run_path(t->job, results[i], path);
		unlink(path);
	}
	return WEIR_OK;
}

/* --- Which run */

/* Whether a server's data folder of an earlier run is here. */
static bool has_data(const struct job *job)
{
	char path[WEIR_PATH_BYTES_MAX + 32];
	bool found = false;
	for (uint32_t i = 0; i < WEIR_SERVERS_MAX && !found; i++) {
		job_server_dir(job, i, path);
		found = access(path, F_OK) == 0;
	}
	return found;
}

static int remove_entry(const char *path, const struct stat *st, int kind, struct FTW *at)
{
	(void)st;
	(void)kind;
	(void)at;
	return remove(path);
}

static weir_status remove_data(const struct job *job, weir_error *err)
{
	char path[WEIR_PATH_BYTES_MAX + 32];
	for (uint32_t i = 0; i < WEIR_SERVERS_MAX; i++) {
		job_server_dir(job, i, path);
		if (access(path, F_OK) == 0 && nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS) != 0)
			return weir_fail(err, WEIR_E_IO, "--fresh: cannot delete %s: %s", path, strerror(errno));
	}
	return WEIR_OK;
}

static weir_status resume_run(struct train *t, weir_error *err)
{
	const struct job *job = t->job;
	weir_status s = run_state_read(job->run_dir, &t->run, err);
	if (s == WEIR_E_NOT_FOUND)
		return weir_fail(err, s, "--resume: %s holds no run of this job: start it without --resume", job->run_dir);
	if (s == WEIR_OK && !t->run.restore[0] && !has_data(job))
		return weir_fail(err, WEIR_E_NOT_FOUND,
		                 "--resume: nothing of the run in %s was kept (`log: %s`): restore a checkpoint first (weir restore), or "
		                 "start it without --resume",
		                 job->run_dir, job->cluster.log == JOB_LOG_DISK ? "disk" : "memory");
	return s;
}

/* A new run never writes over the data of another. */
static weir_status new_run(struct train *t, weir_error *err)
{
	if (has_data(t->job) && !t->fresh)
		return weir_fail(
		    err, WEIR_E_EXISTS,
		    "%s holds the data of an earlier run: `weir train --resume` goes on with it, `weir train --fresh` deletes it",
		    t->job->run_dir);
	weir_status s = remove_data(t->job, err);
	if (s != WEIR_OK)
		return s;
	struct entropy *e = entropy_system();
	t->run = (struct run_state){.generation = 1};
	snprintf(t->run.warm_start, sizeof t->run.warm_start, "%s", t->job->train.warm_start);
	for (unsigned i = 0; i < sizeof t->run.uuid; i += sizeof(uint64_t))
		memcpy(t->run.uuid + i, &(uint64_t){e->ops->u64(e)}, sizeof(uint64_t));
	return run_state_write(t->job->run_dir, &t->run, err);
}

static weir_status choose_run(struct train *t, weir_error *err)
{
	if (t->job->cluster.servers_at_count > 0) { /* a cluster started by other means knows its own */
		snprintf(t->run.warm_start, sizeof t->run.warm_start, "%s", t->resume ? "" : t->job->train.warm_start);
		return WEIR_OK;
	}
	return t->resume ? resume_run(t, err) : new_run(t, err);
}

/* Without a split the scores of the planted model are those of all rows. */
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
	struct generate_truth truth = {0};
	struct generate_options options = generation(t->job);
	if (!generate_is_current(&options, &truth)) {
		live_note(&t->live, "generating %" PRIu64 " rows of click data in %s", options.rows, options.path);
		weir_status s = generate_criteo(&options, &truth, err);
		if (s != WEIR_OK)
			return s;
	}
	live_note(&t->live, "%" PRIu64 " rows with %" PRIu64 " distinct ids, of %" PRIu64 " planted", truth.all.rows, truth.ids_seen,
	          truth.ids);
	const struct generate_scores *best = truth.test.rows > 0 ? &truth.test : &truth.all;
	r->generated = true;
	r->bayes_auc = best->auc;
	r->bayes_logloss = best->logloss;
	r->data_rows = truth.all.rows;
	r->ids_planted = truth.ids;
	r->ids_seen = truth.ids_seen;
	return WEIR_OK;
}

/* Makes what is to be generated, and opens the data once: what is wrong with them is said here, and the workers find the packed cache built. */
static weir_status prepare_data(struct train *t, struct report *r, weir_error *err)
{
	struct dataset *data = NULL;
	weir_status s = t->job->data.generate.rows > 0 ? generate(t, r, err) : WEIR_OK;
	if (s == WEIR_OK) {
		live_note(&t->live, "reading the data");
		s = dataset_open(&data, t->job, SPLIT_TRAIN, t->logger, err);
	}
	if (s != WEIR_OK)
		return s;
	r->bad_lines = dataset_get_info(data)->bad_lines;
	dataset_close(data);
	return WEIR_OK;
}

/* From here on these signals are read, not delivered; children get an empty mask again. Before any thread is made. */
static weir_status take_signals(struct train *t, weir_error *err)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	t->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return t->signal_fd >= 0 ? WEIR_OK : weir_fail(err, WEIR_E_IO, "cannot make a signalfd: %s", strerror(errno));
}

static weir_status start(struct train *t, weir_error *err)
{
	char dir[WEIR_PATH_BYTES_MAX], ledger[WEIR_ADDRESS_BYTES_MAX];
	weir_status s = supervisor_own_dir(dir, sizeof dir, err);
	if (s == WEIR_OK)
		s = supervisor_create(&t->supervisor, dir, t->job->run_dir, t->clock, err);
	if (s == WEIR_OK)
		s = launch_servers(t, err);
	if (s == WEIR_OK)
		s = launch_warm_start(t, err);
	t->workers_ms = clock_ms(t->clock);
	if (s == WEIR_OK)
		s = launch_workers(t, err);
	if (s == WEIR_OK)
		s = launch_find_ledger(t->job, NULL, ledger, err);
	if (s == WEIR_OK) /* forks come first: gRPC starts threads */
		s = watcher_open(&t->watcher, ledger, t->logger, err);
	if (s == WEIR_OK)
		live_note(&t->live, "%s: %u servers, %u workers, model %s; logs in %s", t->job->name, t->job->cluster.servers,
		          t->job->cluster.workers, model_name(t->job->model.kind), t->job->run_dir);
	return s;
}

/* --- Reporting */

/* Rows over time between the first and the last growth seen; for a job too short for that, all rows over the workers' life. */
static void measure_speed(const struct train *t, struct report *r)
{
	r->wall_s = (double)(clock_ms(t->clock) - t->start_ms) / 1e3;
	r->train_s = (double)(t->last_rows_ms - t->first_rows_ms) / 1e3;
	r->train_rows = t->seen.rows - t->first_rows;
	if (r->train_s < 1 || r->train_rows == 0) {
		r->train_s = (double)(clock_ms(t->clock) - t->workers_ms) / 1e3;
		r->train_rows = t->seen.rows;
	}
}

static weir_status make_report(struct train *t, struct report *r, weir_error *err)
{
	char path[WEIR_PATH_BYTES_MAX + 64];
	weir_error missing = {0};
	weir_status s = WEIR_OK;
	r->job = t->job->name;
	r->model = model_name(t->job->model.kind);
	r->end = &t->seen;
	r->finished = t->seen_any && t->seen.state == JOB_FINISHED && !t->server_gone;
	r->servers_lost = t->servers_lost;
	r->bad_lines += t->seen.bad_lines;
	r->workers_lost = t->seen.workers_lost > t->workers_killed ? t->seen.workers_lost : t->workers_killed;
	measure_speed(t, r);
	if (r->finished)
		r->audit = audit_run(&t->seen);
	run_path(t->job, "evaluation.json", path);
	if (job_wants_evaluator(t->job) && report_read_evaluation(r, path, &missing) != WEIR_OK && r->finished)
		s = weir_fail(err, missing.status, "the evaluator left no result: %s; see the end of %s/evaluator.log", missing.text,
		              t->job->run_dir);
	report_print(r, stdout);
	fflush(stdout);
	if (t->report_path) {
		weir_status written = report_write(r, t->report_path, s == WEIR_OK ? err : NULL);
		s = s == WEIR_OK ? written : s;
	}
	return s;
}

/* The first thing that went wrong, as the last line on stderr. */
static int verdict(struct train *t, const struct report *r)
{
	weir_error *e = &t->failure;
	if (e->status == WEIR_OK && t->stop_signal && !r->finished)
		weir_fail(e, WEIR_E_CANCELLED, "stopped by %s before the job was finished", strsignal(t->stop_signal));
	if (e->status == WEIR_OK && !r->audit.ok)
		weir_fail(e, WEIR_E_INTERNAL, "the audit failed: %s", r->audit.text);
	return e->status == WEIR_OK ? EXIT_SUCCESS : verb_fail("train", e);
}

static int train(struct train *t)
{
	struct report report = {0};
	weir_error *err = &t->failure;
	weir_status s = prepare_run_dir(t, err);
	if (s == WEIR_OK)
		s = choose_run(t, err);
	if (s == WEIR_OK)
		s = prepare_data(t, &report, err);
	if (s == WEIR_OK)
		s = take_signals(t, err);
	if (s == WEIR_OK)
		s = start(t, err);
	if (s != WEIR_OK)
		return verb_fail("train", err);
	drive(t);
	weir_error unreported = {0};
	if (make_report(t, &report, &unreported) != WEIR_OK && t->failure.status == WEIR_OK)
		t->failure = unreported;
	watcher_close(t->watcher);
	t->watcher = NULL;
	launch_end(t, t->stop_at_once ? 0 : TRAIN_SERVERS_END_MS);
	int status = verdict(t, &report);
	report_free(&report);
	return status;
}

static void train_free(struct train *t)
{
	watcher_close(t->watcher);
	if (t->supervisor)
		launch_end(t, TRAIN_SERVERS_END_MS);
	supervisor_destroy(t->supervisor);
	overview_free(&t->seen);
	if (t->signal_fd >= 0)
		close(t->signal_fd);
	if (t->run_dir_fd >= 0)
		close(t->run_dir_fd);
	logger_destroy(t->logger);
	job_free(t->job);
}

int verb_train(int count, char **args)
{
	struct train t = {.clock = clock_system(), .run_dir_fd = -1, .signal_fd = -1};
	const struct option options[] = {JOB_OPTIONS(&t.options),
	                                 {"--report", OPTION_TEXT, &t.report_path},
	                                 {"--resume", OPTION_FLAG, &t.resume},
	                                 {"--fresh", OPTION_FLAG, &t.fresh}};
	const char *word = NULL;
	t.start_ms = clock_ms(t.clock);
	live_init(&t.live, stderr, getenv("TERM"));
	if (options_parse(count, args, options, sizeof options / sizeof *options, &word, 1, &t.failure) != WEIR_OK)
		return verb_usage("train", &t.failure);
	t.options.path = word ? word : t.options.path;
	if (job_options_logger(&t.options, "weir", LOG_WARN, &t.logger, &t.failure) != WEIR_OK)
		return verb_usage("train", &t.failure);
	int status = job_options_load(&t.options, &t.job, &t.failure) == WEIR_OK ? train(&t) : verb_fail("train", &t.failure);
	train_free(&t);
	return status;
}
