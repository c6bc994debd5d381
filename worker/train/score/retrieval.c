/* The quality of retrieval, exactly: for each positive row all items of the catalogue are ranked by
 * their products with the user's vector. The row's item is the only one that counts as found:
 *
 *     recall@k   share of rows whose item is among the first k
 *     NDCG@k     mean of 1 / log2(1 + place) where place <= k, else 0
 *     logloss    mean of -ln softmax(products / temperature) of the row's item over the catalogue
 *
 * Items with equal products share their places. A row of weight 0 does not count. The cost is rows
 * times items times the width of a vector. */
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/vector_math.h"
#include "worker/data/catalogue.h"
#include "worker/model/model.h"
#include "worker/train/score/scorer_internal.h"

enum { BATCH_ITEMS = 4096 };

struct retrieving {
	const struct job *job;
	const struct catalogue *catalogue;
	uint32_t field, width, items;
	float *vectors;           /* (width, items) */
	uint32_t first;           /* item of the batch that is scored */
	float *products, *powers; /* (items) of a user */
	uint64_t rows, not_numbers;
	double loss;
	double ndcg[WEIR_RANK_PLACES_MAX], found[WEIR_RANK_PLACES_MAX]; /* sums over rows */
};

/* --- Items */

static weir_status keep_items(void *arg, const struct batch *batch, const float *vectors, weir_error *err)
{
	struct retrieving *r = arg;
	(void)err;
	for (uint32_t i = 0; i < batch->rows; i++)
		for (uint32_t d = 0; d < r->width; d++)
			r->vectors[(size_t)d * r->items + r->first + i] = vectors[(size_t)i * 2 * r->width + r->width + d];
	return WEIR_OK;
}

static weir_status score_items(struct scorer *s, struct retrieving *r, weir_error *err)
{
	struct batch batch = {0};
	weir_status status = scorer_load(s, err);
	for (r->first = 0; r->first < r->items && status == WEIR_OK; r->first += batch.rows) {
		const uint32_t left = r->items - r->first;
		status = catalogue_batch(r->catalogue, r->first, left < BATCH_ITEMS ? left : BATCH_ITEMS, &batch, err);
		if (status == WEIR_OK)
			status = scorer_score(s, &batch, keep_items, r, err);
	}
	batch_destroy(&batch);
	return status;
}

/* --- Rows */

/* Multiplies a user's vector with those of all items, in the order of their elements. */
static void multiply(struct retrieving *r, const float *user)
{
	memset(r->products, 0, r->items * sizeof *r->products);
	for (uint32_t d = 0; d < r->width; d++) {
		const float by = user[d], *restrict items = r->vectors + (size_t)d * r->items;
		float *restrict products = r->products;
		for (uint32_t i = 0; i < r->items; i++)
			products[i] += by * items[i];
	}
}

static double loss_of(struct retrieving *r, uint32_t own)
{
	const float sharp = 1.0f / r->job->model.temperature;
	float most = r->products[0];
	double sum = 0;
	for (uint32_t i = 1; i < r->items; i++)
		most = r->products[i] > most ? r->products[i] : most;
	for (uint32_t i = 0; i < r->items; i++)
		r->powers[i] = math_exp((r->products[i] - most) * sharp);
	for (uint32_t i = 0; i < r->items; i++)
		sum += (double)r->powers[i];
	return log(sum) - (double)((r->products[own] - most) * sharp);
}

/* The row's item shares places before + 1 to before + equal with its equals. */
static void add_places(struct retrieving *r, uint32_t before, uint32_t equal)
{
	for (uint32_t i = 0; i < r->job->train.rank_at_count; i++) {
		const uint32_t k = r->job->train.rank_at[i];
		const uint32_t last = before + equal < k ? before + equal : k;
		for (uint32_t place = before + 1; place <= last; place++)
			r->ndcg[i] += 1 / log2(1 + (double)place) / equal;
		r->found[i] += last > before ? (double)(last - before) / equal : 0;
	}
}

static weir_status rank_row(struct retrieving *r, const float *user, uint64_t key, weir_error *err)
{
	uint32_t own, before = 0, equal = 0;
	if (!item_index_find(&r->catalogue->items, key, &own))
		return weir_fail(err, WEIR_E_CORRUPT, "the data have other items than a moment ago");
	multiply(r, user);
	if (!isfinite(r->products[own])) {
		r->not_numbers++;
		return WEIR_OK;
	}
	for (uint32_t i = 0; i < r->items; i++) {
		before += r->products[i] > r->products[own];
		equal += r->products[i] == r->products[own];
	}
	r->loss += loss_of(r, own);
	add_places(r, before, equal);
	return WEIR_OK;
}

static weir_status rank_rows(void *arg, const struct batch *batch, const float *vectors, weir_error *err)
{
	struct retrieving *r = arg;
	weir_status status = WEIR_OK;
	for (uint32_t i = 0; i < batch->rows && status == WEIR_OK; i++) {
		if (!(batch->labels[i] > 0.5f) || (batch->weights && batch->weights[i] == 0))
			continue;
		r->rows++;
		status = rank_row(r, vectors + (size_t)i * 2 * r->width,
		                  batch->keys[batch->offsets[(size_t)i * batch->fields + r->field]], err);
	}
	return status;
}

static struct quality take(const struct retrieving *r)
{
	struct quality q = quality_none();
	q.rows = r->rows;
	q.not_numbers = r->not_numbers;
	q.items = r->items;
	if (r->not_numbers > 0 || r->rows == 0)
		return q;
	q.logloss = r->loss / (double)r->rows;
	q.ranked = r->rows;
	q.grouped = true;
	q.ranking.groups = q.ranking.lists = r->rows;
	q.ranking.at_count = r->job->train.rank_at_count;
	for (uint32_t i = 0; i < q.ranking.at_count; i++) {
		const double recall = r->found[i] / (double)r->rows;
		q.ranking.at[i] = (struct ranking_at){
		    .k = r->job->train.rank_at[i], .ndcg = r->ndcg[i] / (double)r->rows, .recall = recall, .hit_rate = recall};
	}
	return q;
}

weir_status scorer_evaluate_retrieval(struct scorer *s, struct catalogue *catalogue, struct dataset *data, struct quality *out,
                                      weir_error *err)
{
	struct retrieving r = {.job = scorer_job(s), .catalogue = catalogue, .width = model_vector_width(scorer_model(s))};
	weir_status status = WEIR_OK;
	*out = quality_none();
	if (!model_item_field(scorer_model(s), &r.field))
		assert(!"a model of retrieval");
	if (catalogue->items.count == 0)
		status = catalogue_read(catalogue, r.job, r.field, err);
	r.items = catalogue->items.count;
	if (status == WEIR_OK) {
		r.vectors = malloc(((size_t)r.items * r.width + 1) * sizeof *r.vectors);
		r.products = malloc(((size_t)r.items + 1) * sizeof *r.products);
		r.powers = malloc(((size_t)r.items + 1) * sizeof *r.powers);
		if (!r.vectors || !r.products || !r.powers)
			status = weir_fail(err, WEIR_E_MEMORY, "out of memory for the vectors of %u items", r.items);
	}
	if (status == WEIR_OK)
		status = score_items(s, &r, err);
	if (status == WEIR_OK)
		status = scorer_run_raw(s, data, rank_rows, &r, err);
	if (status == WEIR_OK)
		*out = take(&r);
	free(r.vectors);
	free(r.products);
	free(r.powers);
	return status;
}
