/* A tower of a two-tower model: some of a row's fields and numeric features to a vector of length
 * 1.
 *
 *     v = p / |p|,  p = W MLP(fields | numbers) + b
 */
#ifndef WEIR_RETRIEVAL_SIDE_H
#define WEIR_RETRIEVAL_SIDE_H

#include "worker/model/model.h"
#include "worker/model/tower.h"

struct retrieval_side {
	struct backend *backend;
	uint32_t fields_count, numbers_count;   /* of this side */
	uint32_t fields, dense_dim, dim, width; /* of the row; of an embedding; of the vector */
	uint32_t of_fields[WEIR_FIELDS_MAX];    /* (fields_count) */
	uint32_t of_numbers[WEIR_DENSE_FEATURES_MAX];
	struct tower tower;
	uint64_t weight, bias; /* offsets: (width, the tower's), (width) */
	bool normalised;

	uint32_t rows;
	uint32_t *field_places;  /* (rows * fields_count) into (rows, fields) */
	uint32_t *number_places; /* (rows * numbers_count) into (rows, dense_dim) */
	float *fields_x, *dx;    /* (rows, fields_count, dim) */
	float *numbers_x;        /* (rows, numbers_count) */
	float *joined;           /* (rows, fields_count * dim + numbers_count) if there are numbers */
	float *p, *dp;           /* (rows, width) before the norm */
	float *v, *dv;           /* (rows, width) */
	float *inverse;          /* (rows) 1 / root of the mean square */
	float *gain;             /* (width) of the norm, which makes the length 1 */
};

/* names (count): columns of the job. name: of the tensors. salt: retrieval's first of dropout. */
void retrieval_side_init(struct retrieval_side *s, struct backend *b, const struct job *job, const struct model_data *data,
                         char *const *names, uint32_t count, const char *name, uint64_t salt, struct layout *params,
                         struct layout *stats);
void retrieval_side_destroy(struct retrieval_side *s);
weir_status retrieval_side_reserve(struct retrieval_side *s, uint32_t rows);
/* x (rows, fields, dim), dense (rows, dense_dim) -> s->v (rows, width). */
void retrieval_side_forward(struct retrieval_side *s, const float *x, const float *dense, uint32_t rows, const float *params,
                            const struct forward_mode *mode);
/* From s->dv to the side's fields of dx (rows, fields, dim), and to its tensors. */
void retrieval_side_backward(struct retrieval_side *s, uint32_t rows, const float *params, float *dparams, float *dx);

#endif
