/* From a job to a plan, and back: which keys may be chosen among which values, what the job says as
 * it is written, and the settings that make it run as planned. No I/O: figures come from
 * elsewhere. */
#ifndef WEIR_PLAN_H
#define WEIR_PLAN_H

#include "cli/core/answers.h"
#include "cli/plan/search.h"
#include "common/job/job.h"

/* Which keys the planner may choose, besides those that say `auto`. */
enum plan_freedom {
	PLAN_ASKED,     /* none; and executors, if any key asks */
	PLAN_OPERATION, /* those that do not determine results: servers and executors */
	PLAN_ALL        /* all */
};

const char *plan_key_name(enum plan_key key); /* its path in the job file */

/* All processes of the job on one machine with these figures. */
struct plan_site plan_site_of(const struct job *job, const struct plan_figures *f);
/* The job as it is written: where a key says `auto`, its default. */
struct plan_setting plan_as_written(const struct job *job, const struct plan_figures *f);
/* Each key's candidates; one for a key that stays. */
void plan_space_of(const struct job *job, const struct plan_figures *f, const struct plan_site *site, enum plan_freedom freedom,
                   struct plan_space *out);
/* By rule, not by cost: four for each executor, at least 16 in all, up to 256. */
uint32_t plan_partitions(const struct plan_setting *s);

/* The settings that differ from the job as written, or answer a key that asks. */
void plan_answers(const struct job *job, const struct plan_figures *f, const struct plan_found *p, struct answers *out);

#endif
