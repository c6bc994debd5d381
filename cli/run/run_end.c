/* Reports a run, and decides its exit status. */
#include "cli/run/run_end.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/core/verbs.h"
#include "cli/run/checkpoint_ask.h"
#include "cli/run/choice.h"
#include "cli/run/job_servers.h"
#include "cli/run/run_begin.h"
#include "cli/run/run_dir.h"
#include "common/system/output.h"
#include "common/system/stop_signals.h"
#include "worker/model/model.h"

enum { REPORT_SCRUB_MS = WEIR_SCRUB_PATIENCE_MS + 10000 };

/* Measures the rows of this run over the time between the first and the last growth. For a run
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
	if (t->job->cluster.replicas > 1 && status_poller_scrub(t->poller, REPORT_SCRUB_MS, &replicas, &err) == WEIR_OK)
		audit_add_replicas(&r->audit, &replicas);
}

void run_take_checkpoint(struct train *t)
{
	Weir__V1__CheckpointReply *reply = NULL;
	char ledger[JOB_PLACES_BYTES];
	if (!t->checkpoint_at_end || t->failure.status != WEIR_OK || t->server_gone || t->seen.state != JOB_FINISHED)
		return;
	weir_status status = job_servers_find_ledger(t->job, NULL, ledger, &t->failure);
	if (status == WEIR_OK)
		status = checkpoint_ask(t->job, ledger, t->logger, &reply, &t->failure);
	if (status == WEIR_OK) {
		t->seen.checkpoints.written++; /* the report's last look at the job was before it */
		progress_line_note(&t->progress, "checkpoint %s has the end of this run", reply->name);
	}
	if (reply)
		wire_destroy(&reply->base);
}

weir_status run_report(struct train *t, struct report *r, weir_error *err)
{
	char path[WEIR_PATH_BYTES_MAX + 64], weights[WEIR_PATH_BYTES_MAX + 64];
	weir_error missing = {0};
	weir_status status = WEIR_OK;
	run_path(t->job, "best.safetensors", weights);
	r->weights = weights;
	r->of_job = t->job;
	r->job = t->job->name;
	r->model = t->job->foreign ? "foreign" : model_kind_name(t->job->model.kind);
	r->network_bits_per_s = t->job->cluster.network.rate_bits_per_s;
	r->network_latency_ms = t->job->cluster.network.latency_ms;
	r->of = report_reads(t->job);
	r->accepted = t->all_accepted ? t->all_accepted : t->accepted.record;
	r->workers = t->job->cluster.workers;
	r->end = &t->seen;
	curve_end(&t->curve, &t->seen);
	r->curve = &t->curve;
	r->finished = t->seen_any && t->seen.state == JOB_FINISHED && !t->server_gone;
	r->energy = t->energy_used;
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
		status = run_note_finished(t, true, err);
	}
	run_path(t->job, "evaluation.json", path);
	if (status == WEIR_OK && t->kind->prepare && report_read_evaluation(r, path, &missing) != WEIR_OK && r->finished)
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
int run_verdict(struct train *t, const struct report *r)
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
	const struct quality *valid = &r->valid.quality;
	if (e->status == WEIR_OK && r->finished && r->valid.known && valid->rows > 0 && valid->not_numbers == valid->rows)
		weir_fail(e, WEIR_E_NOT_FINITE,
		          "all %" PRIu64
		          " scores of the validation part are not numbers (NaN or infinite): either values of those rows are too large "
		          "to compute with, or training diverged; no pass is the best, and %s/best.safetensors has the last weights",
		          valid->rows, t->job->run_dir);
	const struct overview_checkpoints *c = &t->seen.checkpoints;
	/* the weights are kept; the checkpoint is not */
	if (e->status == WEIR_OK && (c->failing || (c->running && !c->written)))
		weir_fail(e, WEIR_E_IO, "the job is finished, and its weights are kept, but its last checkpoint failed: %s",
		          c->failing ? c->text : "it was not written when the job ended");
	if (e->status == WEIR_OK)
		return EXIT_SUCCESS;
	(void)verb_fail(t->kind->verb, e);
	return stopped ? EXIT_BY_SIGNAL(t->stop_signal) : EXIT_FAILURE;
}
