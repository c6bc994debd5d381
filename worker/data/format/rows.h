/* Parsed rows: columns that parsers append to, that blocks of the packed file hold, and that batches are gathered from. */
#ifndef WEIR_ROWS_H
#define WEIR_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weir/status.h"
#include "worker/data/format/batch.h"

/* Columns of `count` rows, borrowed. Bag (r * fields + f) is keys[offsets[bag] .. offsets[bag + 1]); offsets NULL: one key a bag. */
struct rows_view {
	uint32_t count, fields, dense_dim;
	const float *labels;     /* (count) */
	const float *weights;    /* (count) or NULL: all 1 */
	const float *dense;      /* (count, dense_dim) */
	const uint32_t *offsets; /* (count * fields + 1) or NULL */
	const uint64_t *keys;    /* (keys_count) */
	const float *values;     /* (keys_count) or NULL: all 1 */
	size_t keys_count;
};

/* Growing columns; the optional ones are kept in full while parsing and left out of the view where they say nothing. */
struct rows {
	uint32_t fields, dense_dim;
	bool bags; /* offsets, values and weights are kept; without, every bag is one plain key */
	uint32_t count, capacity;
	size_t keys_count, keys_capacity;
	bool weighted, valued, one_hot; /* something other than 1 was appended; every bag has one key */
	float *labels, *weights, *dense, *values;
	uint32_t *offsets;
	uint64_t *keys;
};

void rows_init(struct rows *r, uint32_t fields, uint32_t dense_dim, bool bags);
void rows_free(struct rows *r);
void rows_clear(struct rows *r); /* keeps the memory */
/* Room for one more row of up to `keys` keys. False when out of memory. */
bool rows_reserve(struct rows *r, size_t keys);
struct rows_view rows_as_view(const struct rows *r);

/* Room in a batch for what follows; its memory is reused when it fits. False when out of memory. */
bool batch_reserve(struct batch *b, uint32_t rows, uint32_t fields, uint32_t dense_dim, size_t keys, bool weights, bool values);
/* The same for text: rows is 0 then, as above. */
bool batch_reserve_tokens(struct batch *b, uint32_t rows, uint32_t context);
/* The same of sequences. */
bool batch_reserve_sequences(struct batch *b, uint32_t rows, uint32_t sequence);
/* Row i of the view becomes row b->rows of the batch, which has room. */
void batch_append(struct batch *b, const struct rows_view *v, uint32_t i);

#endif
