/* A batch of examples as models take it, and the parts of the data. */
#ifndef WEIR_BATCH_H
#define WEIR_BATCH_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>

enum split_part { SPLIT_TRAIN, SPLIT_VALID, SPLIT_TEST };

/* Special labels. A column with `missing: masked` may have LABEL_NONE; the others are in a dataset
 * opened by dataset_open_scored. */
#define LABEL_NONE  NAN   /* a row without this label */
#define LABEL_BAD   -1.0f /* not a row: the line is broken */
#define LABEL_BLANK -2.0f /* not a row: the line is blank or a comment */

/* A batch of `rows` examples. Unused members are 0 or NULL.
 *
 * Click data have bags of categorical features: bag (r * fields + f) is keys[offsets[bag] ..
 * offsets[bag + 1]). Text has contexts of tokens, and the token after each context. Token data have
 * sequences, and the token after each of their tokens, or TARGET_NONE (backend.h) if it does not
 * count. */
struct batch {
	uint32_t rows, fields, dense_dim;
	uint32_t tasks;    /* labels of a row; click data have at least 1 */
	uint32_t context;  /* text data; else 0 */
	uint32_t sequence; /* token data; else 0 */
	uint32_t *tokens;  /* (rows, context) or (rows, sequence) */
	uint32_t *targets; /* (rows) or (rows, sequence) */
	uint64_t counted;  /* token data: targets that are not TARGET_NONE; may be 0 */
	/* (rows, tasks) 0 or 1; LABEL_NONE: the row is not of this task; after dataset_open_scored also
	 * the other LABEL_*, of all tasks of a row */
	float *labels;
	float *weights;    /* (rows) or NULL: all 1 */
	float *dense;      /* (rows, dense_dim), normalised; NULL when dense_dim is 0 */
	uint32_t *offsets; /* (rows * fields + 1) */
	/* (offsets[rows * fields]) each key includes its field, so that equal ids of two fields
	 * differ. */
	uint64_t *keys;
	float *values; /* the same count, or NULL: all 1 */
	/* (rows) the user, session or query that a row belongs to, 0: none; or NULL: no row has one */
	uint64_t *groups;
	void *memory; /* (capacity) holds all of the above; freed by batch_destroy */
	size_t capacity;
};
void batch_destroy(struct batch *b);

#endif
