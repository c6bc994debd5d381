#include "worker/data/quality/score.h"

#include <math.h>
#include <stdlib.h>

#include "worker/data/quality/ordered.h"

size_t score_not_numbers(const struct scored *s)
{
	size_t count = 0;
	for (size_t i = 0; i < s->n; i++)
		count += !isfinite(scored_score(s, scored_row(s, i)));
	return count;
}

/* --- Sums */

void score_sum(struct score_sums *sums, const struct scored *s)
{
	for (size_t i = 0; i < s->n; i++) {
		const size_t row = scored_row(s, i);
		const bool positive = scored_is_positive(s, row);
		const double w = (double)scored_weight(s, row), score = (double)scored_score(s, row),
		             p = fmin(fmax(score, 1e-7), 1 - 1e-7);
		/* fmin and fmax would ignore a NaN */
		sums->loss = isnan(score) ? (double)NAN : sums->loss - w * (positive ? log(p) : log1p(-p));
		sums->predicted += w * score;
		sums->observed += positive ? w : 0.0;
		sums->weight += w;
	}
}

double score_logloss(const struct score_sums *sums)
{
	return sums->weight > 0 ? sums->loss / sums->weight : (double)NAN;
}

double score_normalized_entropy(const struct score_sums *sums)
{
	const double c = sums->observed / sums->weight;
	if (!(c > 0 && c < 1))
		return (double)NAN;
	return score_logloss(sums) / -(c * log(c) + (1 - c) * log1p(-c));
}

double score_calibration(const struct score_sums *sums)
{
	return sums->observed > 0 ? sums->predicted / sums->observed : (double)NAN;
}

/* --- Order */

weir_status sorted_scores_create(struct sorted_scores *out, const struct scored *s)
{
	*out = (struct sorted_scores){.memory = malloc((2 * s->n + 1) * sizeof *out->memory), .n = s->n};
	if (!out->memory)
		return WEIR_E_MEMORY;
	for (size_t i = 0; i < s->n; i++) {
		const size_t row = scored_row(s, i);
		out->memory[i] = ordered_key(s, row);
		out->not_a_number |= isnan(scored_score(s, row));
	}
	out->keys = radix_sort(out->memory, out->memory + s->n, s->n, 1, 0, ORDERED_SCORE_BIT);
	return WEIR_OK;
}

void sorted_scores_destroy(struct sorted_scores *sorted)
{
	free(sorted->memory);
	*sorted = (struct sorted_scores){0};
}

double sorted_auc(const struct sorted_scores *sorted)
{
	return sorted->not_a_number ? (double)NAN : ordered_auc(sorted->keys, 1, sorted->n);
}

double sorted_pr_auc(const struct sorted_scores *sorted)
{
	const double all = tie_of_all(sorted->keys, 1, sorted->n).positives;
	double found = 0, taken = 0, area = 0;
	if (sorted->not_a_number || !(all > 0))
		return (double)NAN;
	for (size_t end = sorted->n; end > 0;) {
		const struct tie t = tie_before(sorted->keys, 1, &end);
		found += t.positives;
		taken += t.positives + t.negatives;
		if (taken > 0)
			area += t.positives / all * (found / taken);
	}
	return area;
}

static void add_tie(struct calibration_bucket *b, const struct tie *t)
{
	const double weight = t->positives + t->negatives, score = (double)t->score;
	b->low = b->weight > 0 ? b->low : score;
	b->high = score;
	b->weight += weight;
	b->predicted += weight * score;
	b->observed += t->positives;
}

uint32_t sorted_buckets(const struct sorted_scores *sorted, struct calibration_bucket buckets[WEIR_CALIBRATION_BUCKETS])
{
	const struct tie all = tie_of_all(sorted->keys, 1, sorted->n);
	const double weight = all.positives + all.negatives;
	double below = 0;
	uint32_t count = 0, last = 0; /* last: number of the bucket at count - 1 */
	if (sorted->not_a_number || !(weight > 0))
		return 0;
	for (size_t i = 0; i < sorted->n;) {
		const struct tie t = tie_next(sorted->keys, 1, sorted->n, &i);
		const double own = t.positives + t.negatives;
		if (!isfinite(t.score))
			return 0;
		if (!(own > 0))
			continue;
		const uint32_t number =
		    (uint32_t)fmin((below + own / 2) / weight * WEIR_CALIBRATION_BUCKETS, WEIR_CALIBRATION_BUCKETS - 1);
		if (count == 0 || number != last)
			buckets[count++] = (struct calibration_bucket){0};
		last = number;
		add_tie(&buckets[count - 1], &t);
		below += own;
	}
	for (uint32_t b = 0; b < count; b++) {
		buckets[b].predicted /= buckets[b].weight;
		buckets[b].observed /= buckets[b].weight;
	}
	return count;
}

double calibration_error(const struct calibration_bucket *buckets, uint32_t count)
{
	double error = 0, weight = 0;
	for (uint32_t b = 0; b < count; b++) {
		error += buckets[b].weight * fabs(buckets[b].predicted - buckets[b].observed);
		weight += buckets[b].weight;
	}
	return count > 0 ? error / weight : (double)NAN;
}

weir_status score_auc(const struct scored *s, double *auc)
{
	struct sorted_scores sorted;
	const weir_status status = sorted_scores_create(&sorted, s);
	if (status == WEIR_OK)
		*auc = sorted_auc(&sorted);
	sorted_scores_destroy(&sorted);
	return status;
}
