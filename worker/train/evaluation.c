#include "evaluation.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "disk.h"

void evaluation_free(struct evaluation *e)
{
	free(e->passes);
	*e = (struct evaluation){0};
}

/* By how much a is better than b; positive is better. NaN (one class only) is never better. */
static double gain(const struct job *job, const struct quality *a, const struct quality *b)
{
	return job->train.early_stop.metric == METRIC_LOGLOSS ? b->logloss - a->logloss : a->auc - b->auc;
}

weir_status evaluation_add(struct evaluation *e, const struct job *job, uint32_t pass, const struct quality *valid,
                           bool *improved, weir_error *err)
{
	if (e->passes_count == e->passes_capacity) {
		uint32_t capacity = 2 * e->passes_capacity + 16;
		struct evaluated_pass *more = realloc(e->passes, capacity * sizeof *more);
		if (more == NULL)
			return weir_fail(err, WEIR_E_MEMORY, "out of memory for the evaluations");
		e->passes = more;
		e->passes_capacity = capacity;
	}
	e->passes[e->passes_count++] = (struct evaluated_pass){.pass = pass, .valid = *valid};
	*improved = !e->has_best || gain(job, valid, &e->valid) > (double)job->train.early_stop.min_delta;
	e->since_best = *improved ? 0 : e->since_best + 1;
	if (*improved) {
		e->has_best = e->has_valid = true;
		e->has_test = false;
		e->best_pass = pass;
		e->valid = *valid;
	}
	return WEIR_OK;
}

bool evaluation_is_over(const struct evaluation *e, const struct job *job)
{
	return job->train.early_stop.patience > 0 && e->since_best >= job->train.early_stop.patience;
}

static json_t *number(double x)
{
	return isfinite(x) ? json_real(x) : json_null();
}

static json_t *quality_json(const struct quality *q, bool there)
{
	if (!there)
		return json_null();
	return json_pack("{s:o, s:o, s:o, s:I}", "auc", number(q->auc), "logloss", number(q->logloss), "calibration",
	                 number(q->calibration), "rows", (json_int_t)q->rows);
}

weir_status evaluation_write(const struct evaluation *e, const char *path, weir_error *err)
{
	json_t *passes = json_array();
	for (uint32_t i = 0; i < e->passes_count; i++) {
		const struct evaluated_pass *p = &e->passes[i];
		json_array_append_new(passes, json_pack("{s:I, s:o, s:o}", "pass", (json_int_t)p->pass + 1, "auc", number(p->valid.auc),
		                                        "logloss", number(p->valid.logloss)));
	}
	json_t *best = e->has_best ? json_integer((json_int_t)e->best_pass + 1) : json_null();
	json_t *root = json_pack("{s:o, s:o, s:o, s:o}", "best_pass", best, "valid", quality_json(&e->valid, e->has_valid), "test",
	                         quality_json(&e->test, e->has_test), "passes", passes);
	char *text = root != NULL ? json_dumps(root, JSON_INDENT(2)) : NULL;
	weir_status s = text != NULL ? disk_write_file(disk_system(), path, text, strlen(text), err)
	                             : weir_fail(err, WEIR_E_MEMORY, "out of memory for %s", path);
	free(text);
	json_decref(root);
	return s;
}
