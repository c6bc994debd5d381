#include "worker/train/score/evaluation.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/system/disk.h"

#define EVALUATION_BYTES_MAX (256u << 20) /* a million passes take some 130 MiB */

void evaluation_free(struct evaluation *e)
{
	free(e->passes);
	*e = (struct evaluation){0};
}

/* --- Passes */

enum evaluation_choice evaluation_chooser(const struct job *job, const struct quality *valid)
{
	return job->train.early_stop.metric == METRIC_AUC && isfinite(valid->auc) ? CHOSEN_BY_AUC : CHOSEN_BY_LOGLOSS;
}

/* Better by more than min_delta. An undefined figure is never better, and a number is better than
 * an undefined figure. */
static bool better(const struct job *job, const struct quality *a, const struct quality *b)
{
	if (!isfinite(a->logloss) || !isfinite(b->logloss))
		return isfinite(a->logloss);
	const bool by_auc = evaluation_chooser(job, a) == CHOSEN_BY_AUC && isfinite(b->auc);
	const double gain = by_auc ? a->auc - b->auc : b->logloss - a->logloss;
	return gain > (double)job->train.early_stop.min_delta;
}

static struct quality quality_of(const struct evaluated_pass *p)
{
	return (struct quality){.auc = p->auc, .logloss = p->logloss};
}

/* Appends; the caller has made room. */
static void append(struct evaluation *e, const struct job *job, const struct evaluated_pass *pass)
{
	const struct quality now = quality_of(pass);
	bool leads = e->passes_count == 0;
	if (!leads) {
		const struct quality leader = quality_of(&e->passes[e->leader]);
		leads = better(job, &now, &leader);
	}
	if (leads)
		e->leader = e->passes_count;
	e->passes[e->passes_count++] = *pass;
}

static weir_status reserve(struct evaluation *e, size_t capacity, weir_error *err)
{
	struct evaluated_pass *more = realloc(e->passes, capacity * sizeof *more);
	if (!more)
		return weir_fail(err, WEIR_E_MEMORY, "out of memory for %zu evaluations", capacity);
	e->passes = more;
	e->passes_capacity = (uint32_t)capacity;
	return WEIR_OK;
}

weir_status evaluation_add(struct evaluation *e, const struct job *job, const struct evaluated_pass *pass, weir_error *err)
{
	weir_status status = WEIR_OK;
	if (e->passes_count == e->passes_capacity)
		status = reserve(e, 2 * (size_t)e->passes_capacity + 16, err);
	if (status == WEIR_OK)
		append(e, job, pass);
	return status;
}

void evaluation_forget(struct evaluation *e, const struct job *job, uint32_t from)
{
	const uint32_t count = e->passes_count;
	e->passes_count = e->leader = 0;
	for (uint32_t i = 0; i < count; i++) {
		const struct evaluated_pass pass = e->passes[i];
		if (pass.pass < from)
			append(e, job, &pass);
	}
	if (e->has_best && e->best_pass >= from)
		e->has_best = e->has_valid = e->has_test = false;
}

bool evaluation_improves(const struct evaluation *e, const struct job *job, const struct quality *valid)
{
	return e->has_best ? better(job, valid, &e->valid) : isfinite(valid->logloss);
}

bool evaluation_is_over(const struct evaluation *e, const struct job *job)
{
	const uint32_t patience = job->train.early_stop.patience;
	return patience > 0 && e->passes_count > e->leader && e->passes_count - 1 - e->leader >= patience;
}

/* --- Writing */

static const char *const choices[] = {[CHOSEN_AS_LAST] = "last", [CHOSEN_BY_AUC] = "auc", [CHOSEN_BY_LOGLOSS] = "logloss"};

static json_t *number(double x)
{
	return isfinite(x) ? json_real(x) : json_null();
}

static json_t *quality_json(const struct quality *q, bool there)
{
	if (!there)
		return json_null();
	return json_pack("{s:o, s:o, s:o, s:I, s:I}", "auc", number(q->auc), "logloss", number(q->logloss), "calibration",
	                 number(q->calibration), "rows", (json_int_t)q->rows, "not_numbers", (json_int_t)q->not_numbers);
}

weir_status evaluation_write(const struct evaluation *e, const char *path, weir_error *err)
{
	json_t *passes = json_array();
	for (uint32_t i = 0; i < e->passes_count; i++) {
		const struct evaluated_pass *p = &e->passes[i];
		json_array_append_new(passes, json_pack("{s:I, s:o, s:o, s:I}", "pass", (json_int_t)p->pass + 1, "auc", number(p->auc),
		                                        "logloss", number(p->logloss), "not_numbers", (json_int_t)p->not_numbers));
	}
	json_t *best = e->has_best ? json_integer((json_int_t)e->best_pass + 1) : json_null();
	json_t *chosen_by = e->has_best ? json_string(choices[e->chosen_by]) : json_null();
	json_t *root =
	    json_pack("{s:o, s:o, s:o, s:o, s:o}", "best_pass", best, "chosen_by", chosen_by, "valid",
	              quality_json(&e->valid, e->has_valid), "test", quality_json(&e->test, e->has_test), "passes", passes);
	char *text = root ? json_dumps(root, JSON_INDENT(2)) : NULL;
	weir_status status = text ? disk_write_file(disk_system(), path, text, strlen(text), err)
	                          : weir_fail(err, WEIR_E_MEMORY, "out of memory for %s", path);
	free(text);
	json_decref(root);
	return status;
}

/* --- Reading */

static double number_of(const json_t *object, const char *key)
{
	const json_t *n = json_object_get(object, key);
	return json_is_number(n) ? json_number_value(n) : (double)NAN;
}

static uint64_t count_of(const json_t *object, const char *key)
{
	return (uint64_t)json_integer_value(json_object_get(object, key));
}

static enum evaluation_choice choice_of(const json_t *name)
{
	for (int i = CHOSEN_AS_LAST; i <= CHOSEN_BY_LOGLOSS; i++)
		if (json_is_string(name) && strcmp(json_string_value(name), choices[i]) == 0)
			return (enum evaluation_choice)i;
	return CHOSEN_AS_LAST;
}

/* Passes count from 1 in the file, from 0 here. Returns false if it is not a pass. */
static bool pass_of(const json_t *number, uint32_t *out)
{
	const json_int_t pass = json_integer_value(number); /* 0 if it is not an integer */
	const bool fits = pass >= 1 && pass <= UINT32_MAX;
	*out = fits ? (uint32_t)(pass - 1) : 0;
	return fits;
}

static bool take_quality(const json_t *part, struct quality *out)
{
	*out = (struct quality){.auc = number_of(part, "auc"),
	                        .logloss = number_of(part, "logloss"),
	                        .calibration = number_of(part, "calibration"),
	                        .rows = count_of(part, "rows"),
	                        .not_numbers = count_of(part, "not_numbers")};
	return json_is_object(part);
}

static weir_status take(struct evaluation *e, const struct job *job, const json_t *root, const char *path, weir_error *err)
{
	const json_t *passes = json_object_get(root, "passes"), *best = json_object_get(root, "best_pass");
	weir_status status = reserve(e, json_array_size(passes) + 16, err);
	for (size_t i = 0; i < json_array_size(passes) && status == WEIR_OK; i++) {
		const json_t *item = json_array_get(passes, i);
		struct evaluated_pass pass = {
		    .auc = number_of(item, "auc"), .logloss = number_of(item, "logloss"), .not_numbers = count_of(item, "not_numbers")};
		if (!pass_of(json_object_get(item, "pass"), &pass.pass))
			return weir_fail(err, WEIR_E_CORRUPT, "%s: item %zu of passes has no pass from 1", path, i);
		append(e, job, &pass);
	}
	e->has_best = pass_of(best, &e->best_pass);
	e->chosen_by = choice_of(json_object_get(root, "chosen_by"));
	if (status == WEIR_OK && (!json_is_array(passes) || !(e->has_best || json_is_null(best))))
		status = weir_fail(err, WEIR_E_CORRUPT, "%s: expected passes and best_pass", path);
	e->has_valid = take_quality(json_object_get(root, "valid"), &e->valid);
	e->has_test = take_quality(json_object_get(root, "test"), &e->test);
	return status;
}

weir_status evaluation_read(struct evaluation *e, const struct job *job, const char *path, weir_error *err)
{
	char *text = NULL;
	size_t bytes = 0;
	weir_error why = {0};
	json_error_t where;
	*e = (struct evaluation){0};
	weir_status status = disk_read_file(disk_system(), path, EVALUATION_BYTES_MAX, &text, &bytes, &why);
	if (status == WEIR_E_NOT_FOUND)
		return WEIR_OK;
	if (status != WEIR_OK)
		return weir_fail(err, status, "%s", why.text);
	json_t *root = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &where);
	status = root ? take(e, job, root, path, err)
	              : weir_fail(err, WEIR_E_PARSE, "%s:%d:%d: %s", path, where.line, where.column, where.text);
	json_decref(root);
	free(text);
	return status;
}
