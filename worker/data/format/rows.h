/* Parsed rows as columns. Parsers append to them, blocks of the packed file hold them, and batches
 * gather from them. */
#ifndef WEIR_ROWS_H
#define WEIR_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weir/status.h"
#include "worker/data/format/batch.h"

/* The numbers of labels, of bags and of numeric features of a row. */
struct row_shape {
	uint32_t tasks, fields, dense_dim;
};

/* Borrowed columns of `count` rows. Bag (r * fields + f) is keys[offsets[bag] .. offsets[bag + 1]).
 * offsets NULL: each bag has one key. */
struct rows_view {
	uint32_t count, tasks, fields, dense_dim;
	const float *labels;     /* (count, tasks) */
	const float *weights;    /* (count) or NULL: all 1 */
	const float *dense;      /* (count, dense_dim) */
	const uint32_t *offsets; /* (count * fields + 1) or NULL */
	const uint64_t *keys;    /* (keys_count) */
	const float *values;     /* (keys_count) or NULL: all 1 */
	const uint64_t *groups;  /* (count) or NULL: rows have no groups */
	size_t keys_count;
};

/* Growing columns. Parsing keeps the optional ones in full; the view leaves out those that hold
 * only default values. */
struct rows {
	uint32_t tasks, fields, dense_dim;
	bool bags; /* offsets, values, weights and groups exist; else each bag is one key */
	uint32_t count, capacity;
	size_t keys_count, keys_capacity;
	/* Something other than 1 was appended to weights, to values; some row has a group; every bag
	 * has one key. */
	bool weighted, valued, grouped, one_hot;
	float *labels, *weights, *dense, *values;
	uint32_t *offsets;
	uint64_t *keys, *groups;
};

void rows_init(struct rows *r, struct row_shape shape, bool bags);
void rows_destroy(struct rows *r);
void rows_clear(struct rows *r); /* keeps the memory */
/* Makes room for one more row of up to `keys` keys. Returns false when out of memory. */
bool rows_reserve(struct rows *r, size_t keys);
/* Makes room for `count` more rows of up to `keys` keys together. Returns false when out of
 * memory. */
bool rows_reserve_many(struct rows *r, uint32_t count, size_t keys);
struct rows_view rows_as_view(const struct rows *r);
/* Appends rows [first, first + count) of a view of the same shape; rows without bags take only
 * views without them. Returns false when out of memory, or of 32-bit numbers for keys. */
bool rows_append(struct rows *r, const struct rows_view *v, uint32_t first, uint32_t count);

/* The optional columns of a batch. */
struct batch_columns {
	bool weights, values, groups;
};
/* Makes room in a batch, which is empty afterwards, and reuses its memory if it is large enough.
 * Returns false when out of memory. */
bool batch_reserve(struct batch *b, uint32_t rows, struct row_shape shape, size_t keys, struct batch_columns has);
/* The same for text. */
bool batch_reserve_tokens(struct batch *b, uint32_t rows, uint32_t context);
/* The same for sequences. */
bool batch_reserve_sequences(struct batch *b, uint32_t rows, uint32_t sequence);
/* Copies row i of the view to row b->rows of the batch, which must have room. */
void batch_append(struct batch *b, const struct rows_view *v, uint32_t i);

#endif
