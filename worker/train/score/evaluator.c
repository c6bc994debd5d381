#include "worker/train/score/evaluator.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "common/system/disk.h"
#include "worker/data/dataset.h"
#include "worker/train/job/data_shape.h"
#include "worker/train/job/job_fingerprint.h"
#include "worker/train/job/rejoin.h"
#include "worker/train/job/worker_log.h"
#include "worker/train/score/evaluation.h"
#include "worker/train/score/scorer.h"

#define EVALUATOR_POLL_MS 200
#define FULL_RETRY_S      1

struct evaluator {
	const struct evaluator_options *options;
	const struct job *job;
	weir_client *client;
	struct dataset *valid, *test; /* NULL: the job has no such part */
	struct dataset *train;        /* only if there is neither: gives the model's shape */
	struct fingerprint fingerprint;
	struct scorer *scorer;
	struct evaluation evaluation;
};

/* Opens a part; one without rows counts as absent. */
static weir_status open_part(struct evaluator *e, enum split_part part, struct dataset **out, weir_error *err)
{
	bool there = part == SPLIT_VALID ? job_has_valid(e->job) : job_has_test(e->job);
	return there ? dataset_open(out, e->job, part, e->options->logger, err) : WEIR_OK;
}

/* Opens the scorer. The tables exist once a trainer has come, and a complete pass proves that one
 * has. */
static weir_status open_scorer(struct evaluator *e, weir_error *err)
{
	if (e->scorer)
		return WEIR_OK;
	const struct dataset_info *info = dataset_get_info(e->valid ? e->valid : e->test ? e->test : e->train);
	const struct scorer_options options = {.job = e->job,
	                                       .threads = e->job->train.threads,
	                                       .turn = e->job->cluster.workers,
	                                       .client = e->client,
	                                       .fingerprint = e->fingerprint.text,
	                                       .data = model_data_of(info)};
	return scorer_open(&e->scorer, &options, err);
}

static void run_path(const struct evaluator *e, const char *name, char out[WEIR_PATH_BYTES_MAX + 32])
{
	snprintf(out, WEIR_PATH_BYTES_MAX + 32, "%s/%s", e->job->run_dir, name);
}

static weir_status remember(const struct evaluator *e, weir_error *err)
{
	char path[WEIR_PATH_BYTES_MAX + 32];
	run_path(e, "evaluation.json", path);
	return evaluation_write(&e->evaluation, path, err);
}

/* Makes a pass the best one. While its weights replace the old ones, evaluation.json names none: an
 * evaluator killed here repeats it. */
static weir_status save_and_test(struct evaluator *e, uint32_t pass, enum evaluation_choice chosen_by,
                                 const struct quality *valid, weir_error *err)
{
	struct evaluation *all = &e->evaluation;
	char path[WEIR_PATH_BYTES_MAX + 32];
	run_path(e, "best.safetensors", path);
	all->has_best = all->has_valid = all->has_test = false;
	weir_status status = remember(e, err);
	if (status == WEIR_OK)
		status = scorer_save(e->scorer, path, err);
	if (status == WEIR_OK && e->test)
		status = scorer_evaluate(e->scorer, e->test, &all->test, err);
	if (status != WEIR_OK)
		return status;
	all->has_best = true;
	all->has_valid = e->valid != NULL;
	all->has_test = e->test != NULL;
	all->best_pass = pass;
	all->chosen_by = chosen_by;
	all->valid = *valid;
	return WEIR_OK;
}

/* Scores the validation part; *stop: patience is used up. */
static weir_status validate(struct evaluator *e, uint32_t pass, struct quality *q, bool *stop, weir_error *err)
{
	struct evaluation *all = &e->evaluation;
	weir_status status = scorer_evaluate(e->scorer, e->valid, q, err);
	struct evaluated_pass evaluated = {.pass = pass, .not_numbers = q->not_numbers};
	for (enum quality_figure f = 0; f < QUALITY_FIGURES; f++)
		evaluated.figures[f] = quality_figure(q, f);
	if (status == WEIR_OK && q->not_numbers > 0)
		LOG_AT(e->options->logger, LOG_WARN, "scores are no numbers",
		       "pass=%u: %llu of %llu scores of the validation part are NaN or infinite: the pass has no figures, and is not "
		       "kept as "
		       "the best",
		       pass, (unsigned long long)q->not_numbers, (unsigned long long)q->rows);
	if (status == WEIR_OK)
		status = evaluation_add(all, e->job, &evaluated, err);
	*stop = status == WEIR_OK && evaluation_is_over(all, e->job);
	return status;
}

/* Tells the ledger. */
static weir_status report(struct evaluator *e, const weir_unit *unit, const struct quality *q, bool stop, weir_error *err)
{
	struct figures more;
	weir_figure figures[WEIR_FIGURES_MAX];
	quality_figures_list(q, &more);
	for (uint32_t i = 0; i < more.count; i++)
		figures[i] = (weir_figure){more.items[i].name, more.items[i].value};
	const weir_evaluation verdict = {.size = sizeof verdict,
	                                 .pass = unit->pass,
	                                 .auc = q->auc,
	                                 .logloss = q->logloss,
	                                 .not_numbers = q->not_numbers,
	                                 .language = job_is_language(e->job),
	                                 .stop = stop,
	                                 .figures = figures,
	                                 .figures_count = more.count};
	return weir_pass_evaluated(e->client, &verdict, err);
}

static weir_status evaluate(struct evaluator *e, const weir_unit *unit, weir_error *err)
{
	struct quality q = quality_none();
	bool stop = false;
	weir_status status = open_scorer(e, err);
	evaluation_forget(&e->evaluation, e->job, unit->pass);
	if (status == WEIR_OK && e->valid)
		status = validate(e, unit->pass, &q, &stop, err);
	const bool keeps_best = e->valid && e->job->train.keep_best, ends = stop || unit->last_pass;
	const bool improves = keeps_best && evaluation_improves(&e->evaluation, e->job, &q);
	const bool save = improves || (ends && !(keeps_best && e->evaluation.has_best));
	if (status == WEIR_OK && save)
		status = save_and_test(e, unit->pass, improves ? evaluation_chooser(e->job, &q) : CHOSEN_AS_LAST, &q, err);
	if (status == WEIR_OK)
		status = remember(e, err);
	if (status != WEIR_OK)
		return status;
	LOG_AT(e->options->logger, LOG_INFO, "pass evaluated", "pass=%u valid_auc=%.5f valid_logloss=%.5f saved=%d stop=%d",
	       unit->pass, q.auc, q.logloss, save, stop);
	return report(e, unit, &q, stop, err);
}

/* Waits while a disk is full, as servers do, and repeats after a server's restart. */
static weir_status evaluate_patiently(struct evaluator *e, const weir_unit *unit, weir_error *err)
{
	weir_error why = {0};
	weir_status status = evaluate(e, unit, &why);
	while ((status == WEIR_E_NO_SPACE || status == WEIR_E_MOVED) && !atomic_load(e->options->stop)) {
		if (status == WEIR_E_NO_SPACE) {
			LOG_AT(e->options->logger, LOG_ERROR, "disk full", "pass=%u waits for its evaluation, free some space: %s",
			       unit->pass, why.text);
			nanosleep(&(struct timespec){.tv_sec = FULL_RETRY_S}, NULL); /* a signal ends it */
		} else {
			LOG_AT(e->options->logger, LOG_WARN, "evaluated again", "pass=%u: %s", unit->pass, why.text);
		}
		status = evaluate(e, unit, &why);
	}
	return status == WEIR_OK ? WEIR_OK : weir_fail(err, status, "%s", why.text);
}

/* --- The job has gone back */

static weir_status open_client(struct evaluator *e, weir_error *err)
{
	struct job_security security;
	job_security(e->job, job_evaluator_role(e->job), &security);
	const weir_options options = {.ledger = e->options->ledger,
	                              .name = e->options->name,
	                              .role = WEIR_EVALUATOR,
	                              .connect_timeout_ms = job_server_patience_ms(e->job),
	                              .fingerprint = e->fingerprint.text,
	                              .accept = e->options->accept,
	                              .accept_count = e->options->accept_count,
	                              .log = worker_log_line,
	                              .log_arg = e->options->logger,
	                              .network = {e->job->cluster.network.rate_bits_per_s, e->job->cluster.network.latency_ms},
	                              .security = security.is};
	return weir_open(&e->client, &options, err);
}

/* Moves the weights of a pass that is no longer trained to the folder where `weir restore` puts
 * them, too. */
static weir_status put_best_aside(const struct evaluator *e, weir_error *err)
{
	struct disk *d = disk_system();
	char from[WEIR_PATH_BYTES_MAX + 32], to[WEIR_PATH_BYTES_MAX + 64];
	run_path(e, "best.safetensors", from);
	const int n = snprintf(to, sizeof to, "%s/before-g%llu", e->job->run_dir, (unsigned long long)weir_generation(e->client));
	weir_status status = d->ops->make_dirs(d, to, err);
	snprintf(to + n, sizeof to - (size_t)n, "/best.safetensors");
	if (status == WEIR_OK && access(from, F_OK) == 0)
		status = d->ops->rename(d, from, to, err);
	return status;
}

/* Passes unknown to the job belong to the generation that is over. */
static weir_status open_anew(void *evaluator, weir_error *err)
{
	struct evaluator *e = evaluator;
	const bool had_best = e->evaluation.has_best;
	scorer_close(e->scorer); /* its client is gone */
	e->scorer = NULL;
	weir_status status = open_client(e, err);
	if (status != WEIR_OK)
		return status;
	evaluation_forget(&e->evaluation, e->job, weir_evaluated(e->client));
	status = remember(e, err);
	return status == WEIR_OK && had_best && !e->evaluation.has_best ? put_best_aside(e, err) : status;
}

static weir_status begin_anew(struct evaluator *e, weir_error *err)
{
	const struct rejoin g = {
	    .client = &e->client, .open = open_anew, .arg = e, .stop = e->options->stop, .logger = e->options->logger};
	return rejoin(&g, err);
}

static weir_status serve(struct evaluator *e, weir_error *err)
{
	while (!atomic_load(e->options->stop)) {
		weir_unit unit;
		weir_status status = weir_unit_lease(e->client, &unit, EVALUATOR_POLL_MS, err);
		if (status == WEIR_E_TIMEOUT)
			continue;
		if (status == WEIR_OK && unit.state == WEIR_UNIT_FINISHED)
			return WEIR_OK;
		if (status == WEIR_OK && unit.state == WEIR_UNIT_EVALUATE)
			status = evaluate_patiently(e, &unit, err);
		if (status == WEIR_E_STALE) {
			LOG_AT(e->options->logger, LOG_WARN, "taken for dead", "rejoining as a new incarnation: %s", err->text);
			status = weir_rejoin(e->client, err);
		}
		if (status == WEIR_E_GENERATION)
			status = begin_anew(e, err);
		if (status != WEIR_OK)
			return status;
	}
	return weir_fail(err, WEIR_E_CANCELLED, "stopped by a signal");
}

static weir_status evaluator_open(struct evaluator *e, weir_error *err)
{
	char path[WEIR_PATH_BYTES_MAX + 32];
	run_path(e, "evaluation.json", path);
	weir_status status = evaluation_read(&e->evaluation, e->job, path, err);
	if (status == WEIR_OK)
		status = open_part(e, SPLIT_VALID, &e->valid, err);
	if (status == WEIR_OK)
		status = open_part(e, SPLIT_TEST, &e->test, err);
	if (status == WEIR_OK && !e->valid && !e->test)
		status = dataset_open(&e->train, e->job, SPLIT_TRAIN, e->options->logger, err);
	const struct fingerprint_parts parts = {.items = {e->train, e->valid, e->test}};
	if (status == WEIR_OK)
		status = job_fingerprint(e->job, &parts, &e->fingerprint, err);
	return status == WEIR_OK ? open_client(e, err) : status;
}

static weir_status evaluator_close(struct evaluator *e, bool failed, weir_error *err)
{
	weir_status status = WEIR_OK;
	scorer_close(e->scorer);
	if (e->client && failed)
		weir_abandon(e->client);
	else if (e->client)
		status = weir_close(e->client, err);
	struct dataset *parts[] = {e->valid, e->test, e->train};
	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
		if (parts[i])
			dataset_close(parts[i]);
	evaluation_destroy(&e->evaluation);
	free(e->fingerprint.text);
	return status;
}

weir_status evaluator_run(const struct evaluator_options *options, weir_error *err)
{
	struct evaluator e = {.options = options, .job = options->job};
	weir_status status = evaluator_open(&e, err);
	if (status == WEIR_OK)
		status = serve(&e, err);
	bool failed = status != WEIR_OK && status != WEIR_E_CANCELLED;
	weir_status closed = evaluator_close(&e, failed, failed ? NULL : err);
	return status == WEIR_OK ? closed : status;
}
