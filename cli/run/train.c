/* weir train: runs a job on this machine from its file to its report. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/core/verbs.h"
#include "cli/run/check.h"
#include "cli/run/choice.h"
#include "cli/run/data_check.h"
#include "cli/run/kept_run.h"
#include "cli/run/launch.h"
#include "cli/run/run_begin.h"
#include "cli/run/run_fingerprint.h"
#include "cli/run/run_job.h"
#include "cli/run/run_plan.h"
#include "cli/run/weights_file.h"
#include "kernels/backend.h"
#include "worker/data/column_facts.h"
#include "worker/data/columns/generate_clicks.h"
#include "worker/data/dataset.h"
#include "worker/train/job/device.h"

/* --- Preparing */

/* Checks that the initial weights can be imported and will still exist then. */
static weir_status check_warm_start(struct train *t, weir_error *err)
{
	const char *path = t->job->train.warm_start, *key = strcmp(path, t->job->model.from) == 0 ? "model.from" : "train.warm_start";
	struct weights_file weights;
	weir_error why = {0};
	if (!path[0] || t->resume)
		return WEIR_OK;
	if (run_takes(t->job, path))
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
	/* What `weir restore`, which reads no data, has accepted. */
	struct json *earlier = run_fingerprint_accepted(t->job->run_dir);
	weir_status kept = run_fingerprint_check(t->job->run_dir, t->fingerprint.text, t->units, &t->accepted, err);
	if (kept == WEIR_OK && (t->accepted.record || earlier) && tells_length)
		kept = kept_run_check_tables(t->job, &t->run, train, &why);
	json_destroy(earlier);
	return why.text[0] ? weir_fail(err, kept, "--resume: %s", why.text) : kept;
}

/* Generates data if the job asks for it, and opens the data once. */
static weir_status prepare_data(struct train *t, struct report *r, weir_error *err)
{
	struct data_check found = {0};
	weir_status status = t->job->data.generate.rows > 0 ? generate(t, r, err) : WEIR_OK;
	if (status == WEIR_OK) {
		progress_line_note(&t->progress, "reading the data");
		status = column_facts_settle(t->job, t->resume ? FACTS_RESUME : FACTS_BEGIN, t->logger, err);
	}
	if (status == WEIR_OK) {
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

static weir_status prepare(struct train *t, struct report *r, weir_error *err)
{
	device_show(t->job, 0);
	const struct backend_options where = device_options(t->job, 0, 1, true);
	weir_status status = backend_check(&where, err);
	if (status == WEIR_OK)
		status = prepare_data(t, r, err);
	return status == WEIR_OK ? check_warm_start(t, err) : status;
}

/* Checks a resumed run as far as the data can be read without writing anything. */
static weir_status peek_at_resumed(struct train *t, weir_error *err)
{
	struct data_check found;
	weir_status status = run_find_kept(t, err);
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
	weir_error *err = &t->failure;
	weir_status status = column_facts_assume(t->job, err);
	const uint32_t wrong = status == WEIR_OK ? check_job(t->job, t->logger, stdout) : 0;
	if (status == WEIR_OK)
		status =
		    wrong ? weir_fail(err, WEIR_E_INVALID, "%u thing%s wrong: see above", wrong, wrong == 1 ? " is" : "s are") : WEIR_OK;
	if (status == WEIR_OK && t->job->cluster.servers_at_count == 0 && !t->fresh)
		status = t->resume ? peek_at_resumed(t, err) : run_refuse_earlier(t, err);
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
	static const struct run_kind kind = {.verb = "train", .prepare = prepare, .start_workers = launch_workers};
	struct train t = RUN_INIT(&kind);
	const struct option options[] = {
	    JOB_OPTIONS(&t.options),
	    RUN_OPTIONS(t),
	    {"--dry-run", OPTION_FLAG, &t.dry_run, NULL, "check all that `weir check` does, print what would be done, and end"},
	    ACCEPT_OPTION(t.accepted),
	    {"--checkpoint-at-end", OPTION_FLAG, &t.checkpoint_at_end, NULL, "write a checkpoint when all passes are trained"},
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
	t.options.plans = true;
	status = job_options_load_text(&t.options, &t.job, &t.job_text, &t.failure);
	if (status == WEIR_OK)
		status = job_check_own(t.job, &t.failure);
	if (status == WEIR_OK && !t.dry_run)
		status = run_plan_settle(&t, &t.failure);
	const int code = status != WEIR_OK ? verb_fail("train", &t.failure) : t.dry_run ? dry_run(&t) : run_job(&t);
	run_destroy(&t);
	return code;
}
