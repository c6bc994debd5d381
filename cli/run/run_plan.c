#include "cli/run/run_plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/plan/plan.h"
#include "cli/probe/probe.h"

/* Chooses what the job asks, and nothing else. */
static weir_status choose(struct train *t, weir_error *err)
{
	struct plan_figures *f = calloc(1, sizeof *f);
	struct job *job = NULL; /* the probe's own */
	struct plan_space space;
	struct plan_result found = {0};
	weir_status status = f ? job_options_load(&t->options, &job, err) : weir_fail(err, WEIR_E_MEMORY, "no memory for a plan");
	progress_line_note(&t->progress, "measuring what a batch takes, to answer %s%s", t->job->asks.keys[0],
	                   t->job->asks.count > 1 ? " and the other keys that say auto" : "");
	if (status == WEIR_OK)
		status = probe_measure(job, t->logger, f, err);
	if (status == WEIR_OK) {
		const struct plan_site site = plan_site_of(t->job, f);
		plan_space_of(t->job, f, &site, PLAN_ASKED, &space);
		plan_search(f, &site, &space, 1, &found);
		if (found.count == 0)
			status = weir_fail(err, WEIR_E_INVALID,
			                   "no values of the keys that say auto go together with the others: `weir plan` shows which "
			                   "are tried; write a value for %s",
			                   t->job->asks.keys[0]);
	}
	if (status == WEIR_OK)
		plan_answers(t->job, f, &found.best[0], &t->plan);
	job_destroy(job);
	free(f);
	return status;
}

static void tell(struct train *t)
{
	for (uint32_t i = 0; i < t->plan.count; i++)
		progress_line_note(&t->progress, "planned: %s", t->plan.items[i].set);
	progress_line_note(&t->progress, "predicted: %.4g samples/s", t->plan.samples_per_s);
}

weir_status run_plan_settle(struct train *t, weir_error *err)
{
	if (t->job->asks.count == 0)
		return WEIR_OK;
	if (strcmp(t->options.path, "-") == 0 || job_file_is_piped(t->options.path))
		return weir_fail(err, WEIR_E_INVALID, "%s is auto: the planner reads the job file again, so give it as a file",
		                 t->job->asks.keys[0]);
	weir_status status = t->resume ? answers_read(t->job->run_dir, &t->plan, err) : choose(t, err);
	if (status == WEIR_E_NOT_FOUND && t->resume)
		return weir_fail(err, status,
		                 "--resume: %s is auto, and %s/" ANSWERS_FILE ", which has the run's plan, is not there: write "
		                 "the value that the run began with",
		                 t->job->asks.keys[0], t->job->run_dir);
	if (status == WEIR_OK)
		status = answers_give(&t->plan, t->job, &t->options.sets, err);
	if (status != WEIR_OK)
		return status;
	tell(t);
	job_destroy(t->job);
	free(t->job_text);
	t->job = NULL;
	t->job_text = NULL;
	return job_options_load_text(&t->options, &t->job, &t->job_text, err);
}

weir_status run_plan_keep(const struct train *t, weir_error *err)
{
	return t->plan.count > 0 && !t->resume ? answers_write(t->job->run_dir, &t->plan, err) : WEIR_OK;
}
