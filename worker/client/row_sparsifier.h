/* Row selection with error feedback, for an embedding table of which each push sends only some
 * rows. The most important rows of a push go out. The gradients of the others are kept and added to
 * the row's next one. A row's importance is the norm of its gradient, with the kept part, or, if
 * the caller has scores, the sum of its scores since it was last sent. So every row's turn comes.
 * If rows are tokens and scores the attention they get, this is AccTFM's token-level top-k: whole
 * tokens are kept, at one comparison each.
 *
 * As with an encoder: begin a push, select from each of its pieces once, end it. Rows for which
 * there is no room to keep them are sent. A piece is the push's rows in one partition, since its
 * parts are a function of the schema. So the selection depends on cluster.partitions. */
#ifndef WEIR_ROW_SPARSIFIER_H
#define WEIR_ROW_SPARSIFIER_H

#include <stddef.h>
#include <stdint.h>

#include "weir/encoder.h"
#include "weir/table.h"

struct row_sparsifier;

/* Rows of a piece, or some of them. */
struct rows {
	const uint64_t *keys; /* (count), in order */
	/* (count) index of each row in values, in rows of the table's width; NULL: the order of keys */
	const uint32_t *order;
	const float *values;
	/* Indexed as values, one per row, finite and at least 0; NULL: norms decide. */
	const float *scores;
	uint32_t count;
};

/* NULL: E_MEMORY. */
struct row_sparsifier *row_sparsifier_create(const weir_table_spec *spec, weir_error *err);
void row_sparsifier_destroy(struct row_sparsifier *k);
/* Resets to the initial state: this worker was taken for dead. */
void row_sparsifier_forget(struct row_sparsifier *k);

/* rows_max: the most rows of a piece. E_MEMORY. */
weir_status row_sparsifier_begin(struct row_sparsifier *k, uint32_t rows_max, weir_error *err);
/* The rows to send, with the gradients kept of them, each key once; valid until the next call. At
 * least one row, unless the piece is empty. */
struct rows row_sparsifier_select(struct row_sparsifier *k, const struct rows *all);
void row_sparsifier_end(struct row_sparsifier *k);

size_t row_sparsifier_count(const struct row_sparsifier *k);
/* All that is kept: keys (count), values (count, width). */
void row_sparsifier_copy(const struct row_sparsifier *k, uint64_t *keys, float *values);
/* Drops a kept row: it was sent in another way. */
void row_sparsifier_take(struct row_sparsifier *k, uint64_t key);
void row_sparsifier_get_stats(const struct row_sparsifier *k, weir_encoder_stats *out);

#endif
