/* What a worker keeps of an embedding table from push to push where only some of its rows are sent: of each push the most important ones go out, and the gradients
 * of the others are kept, to be added to the row's next one (error feedback). How important a row is says the norm of what there is to send of it or, where the caller
 * has scores, the sum of those since it was last sent: so a row's turn comes. Where rows are tokens and scores the attention they get, this is AccTFM's token-level
 * top-k: whole tokens are kept, at one comparison each.
 *
 * As with an encoder, a push is begun, pieces of it are selected from, each once, and it is ended. What there is no room for is sent.
 * A piece is the push's rows in one partition, as its parts are a function of the schema. So which
 * rows go depends on cluster.partitions. */
#ifndef WEIR_KEPT_ROWS_H
#define WEIR_KEPT_ROWS_H

#include <stddef.h>
#include <stdint.h>

#include "weir/encoder.h"
#include "weir/table.h"

struct kept_rows;

/* Rows of a piece, or some of them. */
struct rows {
	const uint64_t *keys;  /* (count), in order */
	const uint32_t *order; /* (count) where each has its values, in rows of the table's width; NULL: as the keys are */
	const float *values;
	const float *scores; /* as values are, one for each row, finite and at least 0; NULL: norms decide */
	uint32_t count;
};

/* NULL: E_MEMORY. */
struct kept_rows *kept_rows_create(const weir_table_spec *spec, weir_error *err);
void kept_rows_destroy(struct kept_rows *k);
/* As it was created: this worker was taken for dead. */
void kept_rows_forget(struct kept_rows *k);

/* rows_max: of a piece. E_MEMORY. */
weir_status kept_rows_begin(struct kept_rows *k, uint32_t rows_max, weir_error *err);
/* Those to send, with what was kept of them, each key once; valid until the next call. At least one row, where there are any. */
struct rows kept_rows_select(struct kept_rows *k, const struct rows *all);
void kept_rows_end(struct kept_rows *k);

size_t kept_rows_count(const struct kept_rows *k);
/* All that is kept: keys (count), values (count, width). */
void kept_rows_copy(const struct kept_rows *k, uint64_t *keys, float *values);
/* It was sent some other way. */
void kept_rows_take(struct kept_rows *k, uint64_t key);
void kept_rows_get_stats(const struct kept_rows *k, weir_encoder_stats *out);

#endif
