/* A plan in words. */
#ifndef WEIR_PLAN_PRINT_H
#define WEIR_PLAN_PRINT_H

#include <stdio.h>

#include "cli/plan/plan.h"

struct plan_view {
	const struct job *job;
	const struct plan_figures *figures;
	const struct plan_site *site;
	const struct plan_space *space;
	const struct plan_found *written; /* the job as it is written */
	const struct plan_result *result;
	double bill_samples_per_s; /* of the job as written, before its rehearsal */
};

void plan_print(const struct plan_view *v, FILE *out);
/* The bill of the first plan by its terms, the next plans, and what would help. */
void plan_explain(const struct plan_view *v, FILE *out);

#endif
