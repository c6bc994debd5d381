/* Figures of an evaluation by name, beside AUC and loss: "gauc", "ndcg@10". */
#ifndef WEIR_FIGURES_H
#define WEIR_FIGURES_H

#include <stdint.h>

#include "common/base/limits.h"

struct figure {
	char name[WEIR_FIGURE_NAME_BYTES_MAX];
	double value; /* finite */
};

struct figures {
	uint32_t count;
	struct figure items[WEIR_FIGURES_MAX];
};

#endif
