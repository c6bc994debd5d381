/* The quality of a model on a part of the data: all figures that the part allows, taken while it is
 * scored, batch after batch.
 *
 * Sums (logloss, calibration, normalized entropy) are of every row. Figures of order keep the rows:
 * all of them up to WEIR_RANKED_ROWS_MAX, which is exact; of more rows a share of 1/2, 1/4, ...,
 * which a hash chooses. It chooses groups, so that each kept one is whole (one that alone exceeds
 * the limit is left out), and rows without a group by their number. The same part has the same
 * share each time, so that passes compare. `ranked` says how many rows it is. */
#ifndef WEIR_QUALITY_H
#define WEIR_QUALITY_H

#include "worker/data/quality/ranking.h"
#include "worker/data/quality/score.h"

/* The figures of one task of several: of the rows that have its label. */
struct task_quality {
	char name[WEIR_TASK_NAME_BYTES]; /* of its label's column, cut; "": the data name none */
	double auc, logloss, normalized_entropy, pr_auc, calibration, calibration_error;
	double gauc; /* NaN also if no row has a group */
	uint64_t rows;
};

struct quality {
	/* score.h; NaN if undefined. Text and tokens: logloss is the mean loss in nats per target, the
	 * others are NaN */
	double auc, logloss, calibration;
	double normalized_entropy, pr_auc, calibration_error;
	struct calibration_bucket buckets[WEIR_CALIBRATION_BUCKETS]; /* (buckets_count) */
	uint32_t buckets_count;
	bool grouped; /* some row has a group: ranking is known */
	struct ranking ranking;
	uint64_t rows;        /* tokens: targets that count */
	uint64_t ranked;      /* rows of the figures of order */
	uint64_t not_numbers; /* scores that are NaN or infinite; with any, all figures are NaN */
	/* retrieval: the items among which rows find theirs; a row is a list of ranking. 0: clicks */
	uint64_t items;
	/* (tasks_count) of models with several tasks; the figures above are of one of them */
	struct task_quality tasks[WEIR_TASKS_MAX];
	uint32_t tasks_count;
};
/* The figures of a task. */
struct task_quality quality_of_task(const char *name, const struct quality *q);
/* Without figures: each is NaN, each count 0. */
struct quality quality_none(void);

/* Taking the quality of a part. */
struct quality_taker {
	size_t rows_max; /* WEIR_RANKED_ROWS_MAX, or less in tests */
	struct score_sums sums;
	uint64_t rows, not_numbers, ungrouped; /* of all rows; ungrouped: without a group */
	/* (capacity, the first `count` in use) the kept rows; groups NULL: no row had one yet */
	float *labels, *scores, *weights;
	uint64_t *groups;
	size_t count, capacity;
	unsigned halvings; /* the share is 1 / 2^halvings */
};

void quality_taker_init(struct quality_taker *t);
void quality_taker_destroy(struct quality_taker *t);
/* Adds rows with probabilities. E_MEMORY. */
weir_status quality_add(struct quality_taker *t, const struct scored *rows, weir_error *err) WEIR_MUST_CHECK;
/* The figures of all rows so far; places are those of ranking_rate. E_MEMORY. */
weir_status quality_take(const struct quality_taker *t, const uint32_t *places, uint32_t places_count, struct quality *out,
                         weir_error *err) WEIR_MUST_CHECK;

#endif
