/* The figures of a part by name. */
#ifndef WEIR_QUALITY_FIGURES_H
#define WEIR_QUALITY_FIGURES_H

#include "common/base/figures.h"
#include "worker/data/quality/quality.h"

/* X(NAME, name); those of lists are at the first k of train.rank_at. */
#define QUALITY_FIGURE_MAP(X)                 \
	X(AUC, auc)                               \
	X(LOGLOSS, logloss)                       \
	X(PR_AUC, pr_auc)                         \
	X(NORMALIZED_ENTROPY, normalized_entropy) \
	X(CALIBRATION, calibration)               \
	X(CALIBRATION_ERROR, calibration_error)   \
	X(GAUC, gauc)                             \
	X(NDCG, ndcg)                             \
	X(RECALL, recall)                         \
	X(HIT_RATE, hit_rate)

enum quality_figure {
#define QUALITY_FIGURE(NAME, name) FIGURE_##NAME,
	QUALITY_FIGURE_MAP(QUALITY_FIGURE)
#undef QUALITY_FIGURE
	    QUALITY_FIGURES
};

extern const char *const quality_figure_names[QUALITY_FIGURES]; /* "auc", ... */
/* NaN: undefined. */
double quality_figure(const struct quality *q, enum quality_figure f);

/* Lists the figures that are defined, all but AUC and logloss, at each k: "gauc", "ndcg@10". */
void quality_figures_list(const struct quality *q, struct figures *out);

#endif
