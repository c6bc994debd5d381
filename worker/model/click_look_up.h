/* The look-up of a click model's embeddings: pools the rows of each bag, and takes the gradient
 * back to the rows. With several groups of fields (field_groups.h) each group is pooled by itself,
 * and its columns then go to their places among those of all fields. */
#ifndef WEIR_CLICK_LOOK_UP_H
#define WEIR_CLICK_LOOK_UP_H

#include "worker/model/bags/field_groups.h"
#include "worker/model/model.h"

struct click_look_up {
	struct backend *backend;
	const struct field_groups *groups;
	uint32_t fields, columns, rows; /* columns: of all fields; rows: of room */
	float *x, *dx;                  /* (rows, columns) pooled embeddings, and their gradient */
	/* (fields) 1: max pooling; one group after the other. NULL: no field has it */
	uint32_t *is_max;
	/* one group after the other: (rows, fields of the group, its dim) */
	uint32_t *chosen; /* with is_max: the uses that are x */
	float *grouped;   /* with several groups */
	/* With several groups: the place in x of each run of `unit` elements of `grouped`. */
	uint32_t *places;
	uint32_t unit; /* divides all widths */
};

/* Borrows the groups. E_MEMORY. */
weir_status click_look_up_init(struct click_look_up *l, struct backend *b, const struct job *job,
                               const struct field_groups *groups, uint32_t fields);
void click_look_up_destroy(struct click_look_up *l);
weir_status click_look_up_reserve(struct click_look_up *l, uint32_t rows);
/* Writes l->x. */
void click_look_up_forward(struct click_look_up *l, const struct model_input *in);
/* Writes the gradients of the embeddings' rows, from l->dx. */
void click_look_up_backward(struct click_look_up *l, const struct model_input *in, float *const *gradients);

#endif
