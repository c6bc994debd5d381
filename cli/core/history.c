#include "cli/core/history.h"

#include <math.h>
#include <string.h>

#define INTERVAL_FIRST_MS 1000

/* Keeps every other item, including the last. */
static uint32_t thin(void *items, size_t bytes, uint32_t count)
{
	char *at = items;
	for (uint32_t i = 1; i < count; i += 2)
		memmove(at + i / 2 * bytes, at + i * bytes, bytes);
	return count / 2;
}

static void remember(struct history *h, const struct overview *s, int64_t now_ms)
{
	h->last_ms = now_ms;
	h->last.rows = s->rows;
	h->last.loss_rows = s->loss_rows;
	h->last.pushed = s->bytes_pushed;
	h->last.pulled = s->bytes_pulled;
	h->last.loss_sum = s->loss_sum;
}

static void add_point(struct history *h, const struct overview *s, int64_t now_ms)
{
	const double seconds = (double)(now_ms - h->last_ms) / 1e3, rows = (double)(s->rows - h->last.rows),
	             loss_rows = (double)(s->loss_rows - h->last.loss_rows);
	if (h->points_count == WEIR_HISTORY_POINTS) {
		h->points_count = thin(h->points, sizeof *h->points, h->points_count);
		h->interval_ms *= 2;
	}
	h->points[h->points_count++] =
	    (struct history_point){.seconds = (double)(now_ms - h->first_ms) / 1e3,
	                           .batches = s->batches,
	                           .loss = loss_rows > 0 ? (s->loss_sum - h->last.loss_sum) / loss_rows : NAN,
	                           .rows_per_s = rows / seconds,
	                           .pushed_per_s = (double)(s->bytes_pushed - h->last.pushed) / seconds,
	                           .pulled_per_s = (double)(s->bytes_pulled - h->last.pulled) / seconds};
	remember(h, s, now_ms);
}

static void note_evaluation(struct history *h, const struct overview *s)
{
	const struct history_evaluation *last = h->evaluations_count ? &h->evaluations[h->evaluations_count - 1] : NULL;
	if (!s->evaluated_batches || (last && last->batches == s->evaluated_batches && last->generation == s->generation))
		return;
	if (h->evaluations_count == WEIR_HISTORY_POINTS)
		h->evaluations_count = thin(h->evaluations, sizeof *h->evaluations, h->evaluations_count);
	h->evaluations[h->evaluations_count++] = (struct history_evaluation){
	    .batches = s->evaluated_batches, .generation = s->generation, .auc = s->language ? NAN : s->auc, .logloss = s->logloss};
}

void history_note(struct history *h, const struct overview *s, int64_t now_ms)
{
	if (!h->any) {
		*h = (struct history){.any = true, .first_ms = now_ms, .interval_ms = INTERVAL_FIRST_MS, .generation = s->generation};
		remember(h, s, now_ms);
	}
	/* the job rewound: counts restart */
	if (h->generation != s->generation || s->rows < h->last.rows) {
		h->generation = s->generation;
		remember(h, s, now_ms);
	}
	if (now_ms - h->last_ms >= h->interval_ms)
		add_point(h, s, now_ms);
	note_evaluation(h, s);
}

void history_put(struct json *j, const struct history *h)
{
	json_set_empty_list(j, "curve");
	for (uint32_t i = 0; i < h->points_count; i++) {
		const struct history_point *p = &h->points[i];
		struct json *item = json_create();
		json_set_real(item, "seconds", p->seconds);
		json_set_count(item, "batches", p->batches);
		json_set_real(item, "loss", p->loss);
		json_set_real(item, "rows_per_s", p->rows_per_s);
		json_set_real(item, "pushed_per_s", p->pushed_per_s);
		json_set_real(item, "pulled_per_s", p->pulled_per_s);
		json_append(j, "curve", item);
	}
	json_set_empty_list(j, "evaluations");
	for (uint32_t i = 0; i < h->evaluations_count; i++) {
		const struct history_evaluation *e = &h->evaluations[i];
		struct json *item = json_create();
		json_set_count(item, "batches", e->batches);
		json_set_real(item, "auc", e->auc);
		json_set_real(item, "logloss", e->logloss);
		json_append(j, "evaluations", item);
	}
}
