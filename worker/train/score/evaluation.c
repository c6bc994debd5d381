#include "worker/train/score/evaluation.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/system/disk.h"
#include "worker/data/quality/quality_json.h"

#define EVALUATION_BYTES_MAX (1024u << 20) /* a million passes take some 500 MiB */

void evaluation_destroy(struct evaluation *e)
{
	free(e->passes);
	*e = (struct evaluation){0};
}

/* --- Passes */

static const struct choice_row {
	const char *name; /* chosen_by in the file */
	enum eval_metric metric;
	enum quality_figure figure;
} choices[] = {[CHOSEN_AS_LAST] = {"last", METRIC_OF_EARLY_STOP, QUALITY_FIGURES},
               [CHOSEN_BY_AUC] = {"auc", METRIC_AUC, FIGURE_AUC},
               [CHOSEN_BY_LOGLOSS] = {"logloss", METRIC_LOGLOSS, FIGURE_LOGLOSS},
               [CHOSEN_BY_PR_AUC] = {"pr_auc", METRIC_PR_AUC, FIGURE_PR_AUC},
               [CHOSEN_BY_GAUC] = {"gauc", METRIC_GAUC, FIGURE_GAUC},
               [CHOSEN_BY_NDCG] = {"ndcg", METRIC_NDCG, FIGURE_NDCG},
               [CHOSEN_BY_RECALL] = {"recall", METRIC_RECALL, FIGURE_RECALL},
               [CHOSEN_BY_HIT_RATE] = {"hit_rate", METRIC_HIT_RATE, FIGURE_HIT_RATE}};
enum { CHOICES = sizeof choices / sizeof *choices };

/* The figure of a metric, turned so that more is better; NaN: undefined. */
static double figure_of(enum eval_metric metric, const struct quality *q)
{
	enum quality_figure f = FIGURE_LOGLOSS;
	for (int i = CHOSEN_BY_AUC; i < CHOICES; i++)
		if (choices[i].metric == metric)
			f = choices[i].figure;
	return f == FIGURE_LOGLOSS ? -quality_figure(q, f) : quality_figure(q, f);
}

/* The metric, or the logloss where it is undefined. */
static enum eval_metric criterion(enum eval_metric metric, const struct quality *q)
{
	return isfinite(figure_of(metric, q)) ? metric : METRIC_LOGLOSS;
}

enum evaluation_choice evaluation_chooser(const struct job *job, const struct quality *valid)
{
	const enum eval_metric metric = criterion(job_best_by(job), valid);
	enum evaluation_choice choice = CHOSEN_BY_LOGLOSS;
	for (int i = CHOSEN_BY_AUC; i < CHOICES; i++)
		if (choices[i].metric == metric)
			choice = (enum evaluation_choice)i;
	return choice;
}

/* Better by more than min_delta. An undefined figure is never better, and a number is better than
 * an undefined figure. */
static bool better(const struct job *job, enum eval_metric metric, const struct quality *a, const struct quality *b)
{
	if (!isfinite(a->logloss) || !isfinite(b->logloss))
		return isfinite(a->logloss);
	const enum eval_metric by = criterion(criterion(metric, a), b);
	return figure_of(by, a) - figure_of(by, b) > (double)job->train.early_stop.min_delta;
}

static struct quality quality_of(const struct evaluated_pass *p)
{
	struct quality q = quality_none();
	q.auc = p->figures[FIGURE_AUC]; /* early_stop.metric is one of the two */
	q.logloss = p->figures[FIGURE_LOGLOSS];
	return q;
}

/* Appends; the caller has made room. */
static void append(struct evaluation *e, const struct job *job, const struct evaluated_pass *pass)
{
	const struct quality now = quality_of(pass);
	bool leads = e->passes_count == 0;
	if (!leads) {
		const struct quality leader = quality_of(&e->passes[e->leader]);
		leads = better(job, job->train.early_stop.metric, &now, &leader);
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
	return e->has_best ? better(job, job_best_by(job), valid, &e->valid) : isfinite(valid->logloss);
}

bool evaluation_is_over(const struct evaluation *e, const struct job *job)
{
	const uint32_t patience = job->train.early_stop.patience;
	return patience > 0 && e->passes_count > e->leader && e->passes_count - 1 - e->leader >= patience;
}

/* --- Writing */

static void put_quality(struct json *root, const char *part, const struct quality *q, bool there)
{
	struct json *j = there ? json_create() : NULL;
	if (there && j)
		quality_put(j, q);
	if (there)
		json_set_object(root, part, j);
	else
		json_set_null(root, part);
}

static void put_passes(struct json *root, const struct evaluation *e)
{
	json_set_empty_list(root, "passes");
	for (uint32_t i = 0; i < e->passes_count; i++) {
		const struct evaluated_pass *p = &e->passes[i];
		struct json *item = json_create();
		json_set_count(item, "pass", (uint64_t)p->pass + 1);
		for (enum quality_figure f = 0; f < QUALITY_FIGURES; f++)
			if (f <= FIGURE_LOGLOSS || isfinite(p->figures[f]))
				json_set_real(item, quality_figure_names[f], p->figures[f]);
		json_set_count(item, "not_numbers", p->not_numbers);
		json_append(root, "passes", item);
	}
}

weir_status evaluation_write(const struct evaluation *e, const char *path, weir_error *err)
{
	struct json *root = json_create();
	char *text = NULL;
	if (root) {
		json_set_null(root, "best_pass");
		json_set_null(root, "chosen_by");
		if (e->has_best) {
			json_set_count(root, "best_pass", (uint64_t)e->best_pass + 1);
			json_set_text(root, "chosen_by", choices[e->chosen_by].name);
		}
		put_quality(root, "valid", &e->valid, e->has_valid);
		put_quality(root, "test", &e->test, e->has_test);
		put_passes(root, e);
		text = json_text_exact(root);
	}
	const weir_status status = text ? disk_write_file(disk_system(), path, text, strlen(text), err)
	                                : weir_fail(err, WEIR_E_MEMORY, "out of memory for %s", path);
	free(text);
	json_destroy(root);
	return status;
}

/* --- Reading */

static double number_of(const struct json_value *object, const char *key)
{
	double x = NAN;
	json_value_real(json_member(object, key), &x);
	return x;
}

static uint64_t count_of(const struct json_value *object, const char *key)
{
	uint64_t count = 0;
	json_value_count(json_member(object, key), &count);
	return count;
}

static enum evaluation_choice choice_of(const char *name)
{
	enum evaluation_choice choice = CHOSEN_AS_LAST;
	for (int i = CHOSEN_AS_LAST; i < CHOICES && name; i++)
		if (strcmp(name, choices[i].name) == 0)
			choice = (enum evaluation_choice)i;
	return choice;
}

/* Passes count from 1 in the file, from 0 here. Returns false if it is not a pass. */
static bool pass_of(const struct json_value *number, uint32_t *out)
{
	uint64_t pass = 0;
	const bool fits = json_value_count(number, &pass) && pass >= 1 && pass <= UINT32_MAX;
	*out = fits ? (uint32_t)(pass - 1) : 0;
	return fits;
}

static bool take_quality(const struct json_value *part, struct quality *out)
{
	quality_read(part, out);
	return json_is_map(part);
}

static weir_status take(struct evaluation *e, const struct job *job, const struct json_value *root, const char *path,
                        weir_error *err)
{
	const struct json_value *passes = json_member(root, "passes"), *best = json_member(root, "best_pass");
	const size_t count = json_is_list(passes) ? json_length(passes) : 0;
	weir_status status = reserve(e, count + 16, err);
	for (size_t i = 0; i < count && status == WEIR_OK; i++) {
		const struct json_value *item = json_element(passes, i);
		struct evaluated_pass pass = {.not_numbers = count_of(item, "not_numbers")};
		for (enum quality_figure f = 0; f < QUALITY_FIGURES; f++)
			pass.figures[f] = number_of(item, quality_figure_names[f]);
		if (!pass_of(json_member(item, "pass"), &pass.pass))
			return weir_fail(err, WEIR_E_CORRUPT, "%s: item %zu of passes has no pass from 1", path, i);
		append(e, job, &pass);
	}
	e->has_best = pass_of(best, &e->best_pass);
	e->chosen_by = choice_of(json_value_text(json_member(root, "chosen_by"), NULL));
	if (status == WEIR_OK && (!json_is_list(passes) || !(e->has_best || (best && json_is_absent(best)))))
		status = weir_fail(err, WEIR_E_CORRUPT, "%s: expected passes and best_pass", path);
	e->has_valid = take_quality(json_member(root, "valid"), &e->valid);
	e->has_test = take_quality(json_member(root, "test"), &e->test);
	return status;
}

weir_status evaluation_read(struct evaluation *e, const struct job *job, const char *path, weir_error *err)
{
	char *text = NULL;
	size_t bytes = 0;
	weir_error why = {0};
	struct json *j = NULL;
	*e = (struct evaluation){0};
	weir_status status = disk_read_file(disk_system(), path, EVALUATION_BYTES_MAX, &text, &bytes, &why);
	if (status == WEIR_E_NOT_FOUND)
		return WEIR_OK;
	if (status != WEIR_OK)
		return weir_fail(err, status, "%s", why.text);
	status = json_parse(text, bytes, path, &j, err);
	if (status == WEIR_OK)
		status = take(e, job, json_root(j), path, err);
	json_destroy(j);
	free(text);
	return status;
}
