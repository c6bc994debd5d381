#include "worker/data/quality/quality_figures.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>

_Static_assert(QUALITY_FIGURES + 3 * WEIR_RANK_PLACES_MAX <= WEIR_FIGURES_MAX, "a list holds the figures at each k");

const char *const quality_figure_names[QUALITY_FIGURES] = {
#define QUALITY_FIGURE(NAME, name) [FIGURE_##NAME] = #name,
    QUALITY_FIGURE_MAP(QUALITY_FIGURE)
#undef QUALITY_FIGURE
};

static double list_figure(const struct ranking_at *at, enum quality_figure f)
{
	return f == FIGURE_NDCG ? at->ndcg : f == FIGURE_RECALL ? at->recall : at->hit_rate;
}

double quality_figure(const struct quality *q, enum quality_figure f)
{
	switch (f) {
	case FIGURE_AUC:
		return q->auc;
	case FIGURE_LOGLOSS:
		return q->logloss;
	case FIGURE_PR_AUC:
		return q->pr_auc;
	case FIGURE_NORMALIZED_ENTROPY:
		return q->normalized_entropy;
	case FIGURE_CALIBRATION:
		return q->calibration;
	case FIGURE_CALIBRATION_ERROR:
		return q->calibration_error;
	case FIGURE_GAUC:
		return q->grouped ? q->ranking.gauc : (double)NAN;
	case FIGURE_NDCG:
	case FIGURE_RECALL:
	case FIGURE_HIT_RATE:
		return q->grouped && q->ranking.at_count > 0 ? list_figure(&q->ranking.at[0], f) : (double)NAN;
	case QUALITY_FIGURES:
		break;
	}
	assert(!"a figure");
	return NAN;
}

/* Appends a figure that is defined. k: 0: not of lists. */
static void append(struct figures *out, enum quality_figure f, uint32_t k, double value)
{
	struct figure *figure = &out->items[out->count];
	if (!isfinite(value))
		return;
	snprintf(figure->name, sizeof figure->name, k > 0 ? "%s@%u" : "%s", quality_figure_names[f], k);
	figure->value = value;
	out->count++;
}

void quality_figures_list(const struct quality *q, struct figures *out)
{
	out->count = 0;
	for (enum quality_figure f = FIGURE_PR_AUC; f <= FIGURE_GAUC; f++)
		append(out, f, 0, quality_figure(q, f));
	for (uint32_t i = 0; i < q->ranking.at_count && q->grouped; i++)
		for (enum quality_figure f = FIGURE_NDCG; f <= FIGURE_HIT_RATE; f++)
			append(out, f, q->ranking.at[i].k, list_figure(&q->ranking.at[i], f));
}
