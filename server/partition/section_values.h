/* The values of a section, row by row, whatever their codec: as numbers, or of top-k as what was sent of them. Coded bytes are used where they lie in the message;
 * a tile that straddles two of its slices is put together first.
 *
 * A section says how it is coded: its codec, and in aux, for top-k, the codec of the values (weir_values), for int4 the code book (weir_book); one that is
 * segmented comes as 16 fp32 in front of the first row. */
#ifndef WEIR_SECTION_VALUES_H
#define WEIR_SECTION_VALUES_H

#include "kernels/codec.h"
#include "kernels/topk.h"
#include "proto/frame/frame.h"

/* The longest coded tile. */
#define SECTION_TILE_BYTES (CODEC_TILE * 5u + 64u)

struct section_values {
	struct coding coding;
	weir_values values;
	bool clip;          /* what is not finite counts as 0 */
	struct cursor data; /* behind the book, at the next row */
};

/* The sections of records that were checked (section_values_check) open for certain. book: gets one that is segmented, and must outlive *v.
 * E_UNSUPPORTED, E_CORRUPT. */
weir_status section_values_open(struct section_values *v, const struct section *s, float book[CODEC_BOOK],
                                weir_error *err) WEIR_MUST_CHECK;
/* Whether the next row, of n elements, is one. tile (SECTION_TILE_BYTES). Moves behind it. E_CORRUPT. */
weir_status section_row_check(struct section_values *v, size_t n, uint8_t *tile, weir_error *err) WEIR_MUST_CHECK;
/* Alike. */
bool section_row_is_finite(struct section_values *v, size_t n, uint8_t *tile);
void section_row_skip(struct section_values *v, size_t n);
/* The next row: out (n). */
void section_row_decode(struct section_values *v, size_t n, uint8_t *tile, float *out);
/* The next rows of an embedding: out (rows, width). */
void section_rows_decode(struct section_values *v, size_t rows, size_t width, uint8_t *tile, float *out);
/* The next tile of a row, of n elements, n <= CODEC_TILE. */
void section_tile_decode(struct section_values *v, size_t n, uint8_t *tile, float *out);
/* Top-k: what is sent of the next tile; offsets and out (n + TOPK_SLACK). Returns how many. */
size_t section_tile_sparse(struct section_values *v, size_t n, uint8_t *tile, uint16_t *offsets, float *out);

#endif
