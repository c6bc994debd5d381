/* The dense parameters of a model as one flat space: named tensors packed one after another, each
 * with its initial values.
 *
 * Servers store the flat space as a dense table. Checkpoints show the tensors. */
#ifndef WEIR_WORKER_MODEL_LAYOUT_H
#define WEIR_WORKER_MODEL_LAYOUT_H

#include <stdint.h>

#include "common/base/limits.h"
#include "weir/status.h"
#include "weir/table.h"

#define LAYOUT_NAME_BYTES 96

struct tensor {
	char name[LAYOUT_NAME_BYTES]; /* "tower.0.weight" */
	uint32_t rows, cols;          /* cols is 0 for a vector */
	uint64_t offset, elements;    /* in the flat space */
};

struct layout {
	struct tensor tensors[WEIR_TABLE_SEGMENTS_MAX];
	weir_init_segment segments[WEIR_TABLE_SEGMENTS_MAX]; /* one per tensor */
	uint32_t count;
	uint64_t elements;
};

/* Appends a tensor and returns its offset. `a` as in weir_init_segment. */
uint64_t layout_add(struct layout *l, uint32_t rows, uint32_t cols, weir_init_kind kind, float a, const char *format, ...)
    WEIR_PRINTF(6, 7);
/* Excludes vectors (biases and norm gains) from weight decay. */
void layout_leave_out_vectors(struct layout *l);
/* Returns NULL if no tensor has this name. */
const struct tensor *layout_find(const struct layout *l, const char *name);

#endif
