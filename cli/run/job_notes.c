#include "cli/run/job_notes.h"

#include <inttypes.h>
#include <string.h>

/* Reports workers that have stalled since the last poll. */
static void note_stalls(struct train *t, const struct overview *now)
{
	for (uint32_t i = 0; i < now->workers_count; i++) {
		const struct overview_worker *w = &now->workers[i];
		char text[OVERVIEW_STALL_BYTES];
		uint32_t known = 0;
		for (uint32_t j = 0; j < t->seen.workers_count; j++)
			if (strcmp(t->seen.workers[j].name, w->name) == 0)
				known = t->seen.workers[j].stall.count;
		if (w->stall.count <= known || (!t->seen_any && !w->stall.now))
			continue;
		overview_stall_text(&w->stall, text);
		progress_line_note(&t->progress, "%s (pid %u on %s) %s: %s", w->name, w->pid, w->host, text,
		                   w->evaluator ? "passes go on without it" : "its work goes to the others");
	}
}

/* Reports scores of a new evaluation that are not numbers. */
static void note_evaluation(struct train *t, const struct overview *now)
{
	if (t->seen_any && now->evaluated_batches != t->seen.evaluated_batches && now->not_numbers > 0)
		progress_line_note(&t->progress,
		                   "%" PRIu64 " scores of the validation part, after %" PRIu64
		                   " batches, are no numbers (NaN or infinite): this pass is not kept as the best",
		                   now->not_numbers, now->evaluated_batches);
}

/* Reports a failed checkpoint immediately, because the job continues without it. */
static void note_checkpoints(struct train *t, const struct overview *now)
{
	const struct overview_checkpoints *c = &now->checkpoints;
	if (c->failed > (t->seen_any ? t->seen.checkpoints.failed : 0))
		progress_line_note(&t->progress, "%s failed: %s%s", c->name[0] ? c->name : "a checkpoint", c->text,
		                   now->state == JOB_FINISHED ? "" : "; training goes on without it");
}

void job_notes_look(struct train *t, const struct overview *now)
{
	note_stalls(t, now);
	note_evaluation(t, now);
	note_checkpoints(t, now);
}
