#include "worker/data/quality/quality.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/hash.h"

#define HALVINGS_MAX 63u

struct quality quality_none(void)
{
	return (struct quality){.auc = NAN,
	                        .logloss = NAN,
	                        .calibration = NAN,
	                        .normalized_entropy = NAN,
	                        .pr_auc = NAN,
	                        .calibration_error = NAN,
	                        .ranking = {.gauc = NAN}};
}

struct task_quality quality_of_task(const char *name, const struct quality *q)
{
	struct task_quality task = {.auc = q->auc,
	                            .logloss = q->logloss,
	                            .normalized_entropy = q->normalized_entropy,
	                            .pr_auc = q->pr_auc,
	                            .calibration = q->calibration,
	                            .calibration_error = q->calibration_error,
	                            .gauc = q->grouped ? q->ranking.gauc : (double)NAN,
	                            .rows = q->rows};
	snprintf(task.name, sizeof task.name, "%s", name);
	return task;
}

void quality_taker_init(struct quality_taker *t)
{
	*t = (struct quality_taker){.rows_max = WEIR_RANKED_ROWS_MAX};
}

void quality_taker_destroy(struct quality_taker *t)
{
	free(t->labels);
	free(t->scores);
	free(t->weights);
	free(t->groups);
	*t = (struct quality_taker){0};
}

/* --- Keeping rows */

/* Whether a share of 1 / 2^halvings has this group, or this row without a group, by its number. */
static bool is_kept(uint64_t group_or_number, unsigned halvings)
{
	return (hash_u64(group_or_number + 1) & ((1ull << halvings) - 1)) == 0;
}

/* Halves the share. The numbers of the kept rows without a group follow from the share so far. */
static void halve(struct quality_taker *t)
{
	const unsigned before = t->halvings++;
	size_t kept = 0;
	uint64_t number = 0;
	for (size_t i = 0; i < t->count; i++) {
		uint64_t chosen_by = t->groups ? t->groups[i] : 0;
		if (chosen_by == 0) {
			while (!is_kept(number, before))
				number++;
			chosen_by = number++;
		}
		if (!is_kept(chosen_by, t->halvings))
			continue;
		t->labels[kept] = t->labels[i];
		t->scores[kept] = t->scores[i];
		t->weights[kept] = t->weights[i];
		if (t->groups)
			t->groups[kept] = t->groups[i];
		kept++;
	}
	t->count = kept;
}

static bool grow(void **column, size_t capacity, size_t element)
{
	void *more = realloc(*column, capacity * element);
	*column = more ? more : *column;
	return more != NULL;
}

/* Makes room for a row. */
static bool reserve(struct quality_taker *t, bool grouped)
{
	if (t->count == t->capacity) {
		const size_t twice = 2 * t->capacity + 1024, capacity = twice < t->rows_max ? twice : t->rows_max;
		if (!grow((void **)&t->labels, capacity, sizeof *t->labels) || !grow((void **)&t->scores, capacity, sizeof *t->scores) ||
		    !grow((void **)&t->weights, capacity, sizeof *t->weights) ||
		    (t->groups && !grow((void **)&t->groups, capacity, sizeof *t->groups)))
			return false;
		t->capacity = capacity;
	}
	if (grouped && !t->groups)
		t->groups = calloc(t->capacity, sizeof *t->groups); /* the rows so far have none */
	return !grouped || t->groups;
}

static weir_status add_row(struct quality_taker *t, const struct scored *rows, size_t row, weir_error *err)
{
	const uint64_t group = rows->groups ? rows->groups[row] : 0, chosen_by = group != 0 ? group : t->ungrouped++;
	while (t->count == t->rows_max && t->halvings < HALVINGS_MAX)
		halve(t);
	if (t->count == t->rows_max || !is_kept(chosen_by, t->halvings))
		return WEIR_OK;
	if (!reserve(t, group != 0))
		return weir_fail(err, WEIR_E_MEMORY, "out of memory for the scores of %zu rows", t->count);
	t->labels[t->count] = scored_label(rows, row);
	t->scores[t->count] = scored_score(rows, row);
	t->weights[t->count] = scored_weight(rows, row);
	if (t->groups)
		t->groups[t->count] = group;
	t->count++;
	return WEIR_OK;
}

weir_status quality_add(struct quality_taker *t, const struct scored *rows, weir_error *err)
{
	weir_status status = WEIR_OK;
	score_sum(&t->sums, rows);
	t->not_numbers += score_not_numbers(rows);
	t->rows += rows->n;
	for (size_t i = 0; i < rows->n && status == WEIR_OK; i++)
		status = add_row(t, rows, scored_row(rows, i), err);
	return status;
}

/* --- Figures */

static weir_status rate_order(const struct scored *kept, struct quality *out)
{
	struct sorted_scores sorted;
	const weir_status status = sorted_scores_create(&sorted, kept);
	if (status == WEIR_OK) {
		out->auc = sorted_auc(&sorted);
		out->pr_auc = sorted_pr_auc(&sorted);
		out->buckets_count = sorted_buckets(&sorted, out->buckets);
		out->calibration_error = calibration_error(out->buckets, out->buckets_count);
	}
	sorted_scores_destroy(&sorted);
	return status;
}

weir_status quality_take(const struct quality_taker *t, const uint32_t *places, uint32_t places_count, struct quality *out,
                         weir_error *err)
{
	const struct scored kept = {
	    .labels = t->labels, .scores = t->scores, .weights = t->weights, .groups = t->groups, .n = t->count};
	*out = quality_none();
	out->rows = t->rows;
	out->not_numbers = t->not_numbers;
	if (t->not_numbers > 0)
		return WEIR_OK;
	out->logloss = score_logloss(&t->sums);
	out->calibration = score_calibration(&t->sums);
	out->normalized_entropy = score_normalized_entropy(&t->sums);
	out->ranked = t->count;
	out->grouped = t->groups != NULL;
	weir_status status = rate_order(&kept, out);
	if (status == WEIR_OK && out->grouped)
		status = ranking_rate(&out->ranking, &kept, places, places_count);
	return status == WEIR_OK ? status : weir_fail(err, status, "out of memory to sort the scores of %zu rows", t->count);
}
