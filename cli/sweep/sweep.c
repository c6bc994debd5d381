/* weir sweep: runs a job repeatedly with different settings and seeds, and compares the results; or
 * searches for the best settings. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/core/verbs.h"
#include "cli/sweep/search_report.h"
#include "cli/sweep/search_run.h"
#include "cli/sweep/sweep.h"
#include "cli/sweep/sweep_track.h"
#include "common/system/stop_signals.h"

static weir_status finish(const struct sweep *s, const struct sweep_result *results, const struct sweep_outcome *o,
                          weir_error *err)
{
	const uint32_t all = s->runs_count * s->seeds_count;
	char *table = sweep_table(s, results);
	if (table)
		fputs(table, stdout);
	free(table);
	fflush(stdout);
	if (o->stop_signal)
		return weir_fail(err, WEIR_E_CANCELLED, "stopped by %s with %u of %u runs finished; the same command goes on",
		                 strsignal(o->stop_signal), o->ran + o->kept, all);
	return o->failed ? weir_fail(err, WEIR_E_STATE, "%u of %u runs failed; the same command runs them again", o->failed, all)
	                 : WEIR_OK;
}

static weir_status finish_search(const struct search_book *b, const struct search_outcome *o, weir_error *err)
{
	const bool external = search_get_options(b->search)->policy == POLICY_EXTERNAL;
	char *table = external ? NULL : search_table(b); /* stdout has the answers */
	if (table)
		fputs(table, stdout);
	free(table);
	fflush(stdout);
	if (o->stop_signal)
		return weir_fail(err, WEIR_E_CANCELLED, "stopped by %s after %u segments of trials; the same command goes on",
		                 strsignal(o->stop_signal), b->segments);
	if (o->spent)
		fprintf(stderr, "the budget of %s is spent\n", o->spent);
	return b->segments > 0 || external ? WEIR_OK : weir_fail(err, WEIR_E_STATE, "no trial has a result");
}

static weir_status search(struct sweep *s, int *stop_signal, weir_error *err)
{
	struct search_book book = {0};
	struct search_outcome outcome = {0};
	struct sweep_track track = {0};
	weir_status status = search_check_job(s, err);
	if (status == WEIR_OK)
		status = search_book_open(&book, s, err);
	if (status == WEIR_OK)
		status = sweep_track_begin(&track, s, err);
	if (status == WEIR_OK)
		status = search_run(&book, &outcome, err);
	sweep_track_best(&track, &book);
	sweep_track_end(&track, s, status == WEIR_OK && !outcome.stop_signal);
	if (status == WEIR_OK)
		status = finish_search(&book, &outcome, err);
	*stop_signal = outcome.stop_signal;
	search_book_close(&book);
	return status;
}

static weir_status run_all(struct sweep *s, bool keep_going, int *stop_signal, weir_error *err)
{
	struct sweep_outcome outcome = {0};
	weir_status status = sweep_check_jobs(s, err);
	if (status != WEIR_OK)
		return status;
	const uint32_t all = s->runs_count * s->seeds_count;
	struct sweep_result *results = calloc(all, sizeof *results);
	struct sweep_track track = {0};
	status =
	    results ? sweep_track_begin(&track, s, err) : weir_fail(err, WEIR_E_MEMORY, "no memory for the results of %u runs", all);
	if (status == WEIR_OK)
		status = sweep_run_all(s, keep_going, results, &outcome, err);
	sweep_track_end(&track, s, status == WEIR_OK && !outcome.stop_signal && !outcome.failed);
	if (status == WEIR_OK)
		status = finish(s, results, &outcome, err);
	*stop_signal = outcome.stop_signal;
	for (uint32_t i = 0; results && i < all; i++)
		sweep_result_destroy(&results[i]);
	free(results);
	return status;
}

static weir_status run(const char *path, bool keep_going, int *stop_signal, weir_error *err)
{
	struct sweep *s = NULL;
	weir_status status = sweep_file_read(&s, path, err);
	if (status == WEIR_OK)
		status = s->search ? search(s, stop_signal, err) : run_all(s, keep_going, stop_signal, err);
	sweep_destroy(s);
	return status;
}

int verb_sweep(int count, char **args)
{
	bool keep_going = false;
	int stop_signal = 0;
	const char *path = NULL;
	weir_error err = {0};
	const struct option options[] = {
	    {"--keep-going", OPTION_FLAG, &keep_going, NULL, "where a run fails, go on with the others (a search always does)"}};
	weir_status status = options_parse(count, args, options, sizeof options / sizeof *options, &path, 1, &err);
	if (status == WEIR_OK && !path)
		status = weir_fail(&err, WEIR_E_INVALID, "needs a file of what to run: SWEEP.yaml");
	if (status != WEIR_OK)
		return verb_usage("sweep", &err);
	if (run(path, keep_going, &stop_signal, &err) == WEIR_OK)
		return EXIT_SUCCESS;
	(void)verb_fail("sweep", &err);
	return stop_signal ? EXIT_BY_SIGNAL(stop_signal) : EXIT_FAILURE;
}
