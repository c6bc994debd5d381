/* The fields of a click model by the width of their embeddings: a group for each width. The rows of
 * a group are a table of their own. Most jobs have one group; `dim` in data.columns makes others.
 *
 * With several groups a batch's uses are sorted by group, stably: each group is then a batch of its
 * own, with its bags, its distinct keys and the rows of its table. The distinct keys of the whole
 * batch are those of one group after the other. */
#ifndef WEIR_FIELD_GROUPS_H
#define WEIR_FIELD_GROUPS_H

#include <stddef.h>
#include <stdint.h>

#include "common/job/job.h"

struct field_groups {
	uint32_t count;                 /* at least 1 */
	uint32_t dim[WEIR_DIMS_MAX];    /* width of a group's embeddings; 0: the model has none */
	uint32_t fields[WEIR_DIMS_MAX]; /* of a group */
	uint8_t of[WEIR_FIELDS_MAX];    /* the group of each field */
};

void field_groups_find(struct field_groups *g, const struct job *job, uint32_t fields);
/* Returns the sum of the fields' widths. */
uint32_t field_groups_columns(const struct field_groups *g);

/* The bags of a batch: bag j, of field j % fields, has the uses [offsets[j], offsets[j + 1]). */
struct field_bags {
	uint32_t rows, fields;
	const uint32_t *offsets; /* (rows * fields + 1) */
	const uint64_t *keys;    /* (nnz) */
	const float *values;     /* (nnz) or NULL */
};

/* The same, one group after the other. */
struct grouped_bags {
	uint32_t *offsets; /* of each group (rows * its fields + 1), from 0 */
	uint64_t *keys;    /* (nnz) */
	float *values;     /* (nnz) if the bags have values */
	size_t uses[WEIR_DIMS_MAX];
};

/* Fills the arrays and counts the uses of each group. */
void field_groups_sort(const struct field_groups *g, const struct field_bags *from, struct grouped_bags *to);
/* index (nnz), in the order of the bags = the place of each use's key among the distinct keys of
 * all groups, from its place among those of its group: grouped (nnz), one group after the other.
 * The distinct keys of group g begin at begin[g]. */
void field_groups_index(const struct field_groups *g, const struct field_bags *bags, const struct grouped_bags *sorted,
                        const uint32_t *grouped, const size_t *begin, uint32_t *index);

#endif
