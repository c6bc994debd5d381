#include "worker/data/quality/quality_json.h"

#include <math.h>
#include <stdio.h>

#define COUNT(list) (sizeof(list) / sizeof *(list))

/* Members that are figures: their name, and where they are in their struct. */
struct figure {
	const char *name;
	size_t offset;
};

static const struct figure figures[] = {{"auc", offsetof(struct quality, auc)},
                                        {"logloss", offsetof(struct quality, logloss)},
                                        {"normalized_entropy", offsetof(struct quality, normalized_entropy)},
                                        {"pr_auc", offsetof(struct quality, pr_auc)},
                                        {"calibration", offsetof(struct quality, calibration)},
                                        {"calibration_error", offsetof(struct quality, calibration_error)}};
static const struct figure bucket_figures[] = {{"low", offsetof(struct calibration_bucket, low)},
                                               {"high", offsetof(struct calibration_bucket, high)},
                                               {"weight", offsetof(struct calibration_bucket, weight)},
                                               {"predicted", offsetof(struct calibration_bucket, predicted)},
                                               {"observed", offsetof(struct calibration_bucket, observed)}};
static const struct figure at_figures[] = {{"ndcg", offsetof(struct ranking_at, ndcg)},
                                           {"recall", offsetof(struct ranking_at, recall)},
                                           {"hit_rate", offsetof(struct ranking_at, hit_rate)}};

static const struct figure task_figures[] = {{"auc", offsetof(struct task_quality, auc)},
                                             {"logloss", offsetof(struct task_quality, logloss)},
                                             {"normalized_entropy", offsetof(struct task_quality, normalized_entropy)},
                                             {"pr_auc", offsetof(struct task_quality, pr_auc)},
                                             {"calibration", offsetof(struct task_quality, calibration)},
                                             {"calibration_error", offsetof(struct task_quality, calibration_error)},
                                             {"gauc", offsetof(struct task_quality, gauc)}};

static void put(struct json *j, const void *from, const struct figure *list, size_t count)
{
	for (size_t i = 0; i < count; i++)
		json_set_real(j, list[i].name, *(const double *)((const char *)from + list[i].offset));
}

static void read(const struct json_value *from, void *to, const struct figure *list, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		double *figure = (double *)((char *)to + list[i].offset);
		*figure = NAN;
		json_value_real(json_member(from, list[i].name), figure);
	}
}

static void put_ranking(struct json *j, const struct ranking *r)
{
	json_set_real(j, "gauc", r->gauc);
	json_set_count(j, "groups", r->groups);
	json_set_count(j, "groups_mixed", r->mixed);
	json_set_count(j, "groups_positive", r->lists);
	json_set_empty_list(j, "at");
	for (uint32_t i = 0; i < r->at_count; i++) {
		struct json *item = json_create();
		json_set_count(item, "k", r->at[i].k);
		put(item, &r->at[i], at_figures, COUNT(at_figures));
		json_append(j, "at", item);
	}
}

static void put_tasks(struct json *object, const struct quality *q)
{
	json_set_empty_list(object, "tasks");
	for (uint32_t t = 0; t < q->tasks_count; t++) {
		struct json *item = json_create();
		json_set_text(item, "name", q->tasks[t].name);
		put(item, &q->tasks[t], task_figures, COUNT(task_figures));
		json_set_count(item, "rows", q->tasks[t].rows);
		json_append(object, "tasks", item);
	}
}

void quality_put(struct json *object, const struct quality *q)
{
	put(object, q, figures, COUNT(figures));
	json_set_empty_list(object, "buckets");
	for (uint32_t i = 0; i < q->buckets_count; i++) {
		struct json *item = json_create();
		put(item, &q->buckets[i], bucket_figures, COUNT(bucket_figures));
		json_append(object, "buckets", item);
	}
	if (q->grouped)
		put_ranking(object, &q->ranking);
	json_set_count(object, "rows", q->rows);
	json_set_count(object, "ranked", q->ranked);
	json_set_count(object, "not_numbers", q->not_numbers);
	if (q->items > 0)
		json_set_count(object, "items", q->items);
	if (q->tasks_count > 0)
		put_tasks(object, q);
}

/* The number of items of a list, at most `most`. */
static uint32_t length_of(const struct json_value *list, uint32_t most)
{
	const size_t length = json_is_list(list) ? json_length(list) : 0;
	return length < most ? (uint32_t)length : most;
}

static void read_ranking(const struct json_value *object, struct ranking *r)
{
	const struct json_value *at = json_member(object, "at");
	json_value_real(json_member(object, "gauc"), &r->gauc);
	json_value_count(json_member(object, "groups_mixed"), &r->mixed);
	json_value_count(json_member(object, "groups_positive"), &r->lists);
	r->at_count = length_of(at, WEIR_RANK_PLACES_MAX);
	for (uint32_t i = 0; i < r->at_count; i++) {
		uint64_t k = 0;
		json_value_count(json_member(json_element(at, i), "k"), &k);
		r->at[i].k = k <= WEIR_RANK_K_MAX ? (uint32_t)k : 0;
		read(json_element(at, i), &r->at[i], at_figures, COUNT(at_figures));
	}
}

static void read_tasks(const struct json_value *list, struct quality *out)
{
	out->tasks_count = length_of(list, WEIR_TASKS_MAX);
	for (uint32_t t = 0; t < out->tasks_count; t++) {
		const struct json_value *item = json_element(list, t);
		struct task_quality *task = &out->tasks[t];
		const char *name = json_value_text(json_member(item, "name"), NULL);
		snprintf(task->name, sizeof task->name, "%s", name ? name : "");
		read(item, task, task_figures, COUNT(task_figures));
		json_value_count(json_member(item, "rows"), &task->rows);
	}
}

void quality_read(const struct json_value *object, struct quality *out)
{
	const struct json_value *buckets = json_member(object, "buckets");
	*out = quality_none();
	read(object, out, figures, COUNT(figures));
	out->buckets_count = length_of(buckets, WEIR_CALIBRATION_BUCKETS);
	for (uint32_t i = 0; i < out->buckets_count; i++)
		read(json_element(buckets, i), &out->buckets[i], bucket_figures, COUNT(bucket_figures));
	out->grouped = json_value_count(json_member(object, "groups"), &out->ranking.groups);
	if (out->grouped)
		read_ranking(object, &out->ranking);
	json_value_count(json_member(object, "rows"), &out->rows);
	json_value_count(json_member(object, "ranked"), &out->ranked);
	json_value_count(json_member(object, "not_numbers"), &out->not_numbers);
	json_value_count(json_member(object, "items"), &out->items);
	read_tasks(json_member(object, "tasks"), out);
}
