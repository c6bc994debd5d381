/* A batch of examples, as models take it, and the part of the data it is from. */
#ifndef WEIR_BATCH_H
#define WEIR_BATCH_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>

enum split_part { SPLIT_TRAIN, SPLIT_VALID, SPLIT_TEST };

/* In the place of a label, in a dataset of every line. */
#define LABEL_NONE  NAN   /* a row that has none */
#define LABEL_BAD   -1.0f /* no row: the line is broken */
#define LABEL_BLANK -2.0f /* no row: the line is blank, or a comment */

/* rows examples.
 * Of click data, categorical features are bags: bag (r * fields + f) is keys[offsets[bag] .. offsets[bag + 1]).
 * Of text, tokens and what follows them; of tokens, sequences and what follows each of theirs, or TARGET_NONE (backend.h) where that does not count. All else is 0 or
 * NULL. */
struct batch {
	uint32_t rows, fields, dense_dim;
	uint32_t context;  /* text; else 0 */
	uint32_t sequence; /* tokens; else 0 */
	uint32_t *tokens;  /* (rows, context) or (rows, sequence) */
	uint32_t *targets; /* (rows) or (rows, sequence) */
	uint64_t counted;  /* tokens: targets that are not TARGET_NONE; may be 0 */
	float *labels;     /* (rows) 0 or 1; in a dataset of every line also LABEL_* */
	float *weights;    /* (rows) or NULL: all 1 */
	float *dense;      /* (rows, dense_dim), normalised; NULL when dense_dim is 0 */
	uint32_t *offsets; /* (rows * fields + 1) */
	uint64_t *keys;    /* (offsets[rows * fields]); the field is mixed into the key, so that equal ids of two fields differ */
	float *values;     /* the same count, or NULL: all 1 */
	void *memory;      /* (capacity) all of the above; batch_free */
	size_t capacity;
};
void batch_free(struct batch *b);

#endif
