/* The values of a section, row by row, for any codec: as numbers, or for top-k as the sent
 * elements. Coded bytes are read in place in the message; only a tile that straddles two of its
 * slices is copied together first.
 *
 * A section states its coding: its codec, and in aux the codec of the values for top-k
 * (weir_values) or the code book for int4 (weir_book). A segmented code book is 16 fp32 in front of
 * the first row. */
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
	bool clip;          /* values that are not finite count as 0 */
	struct cursor data; /* behind the code book, at the next row */
};

/* Opens a section. Never fails for a section that check_sections has accepted. book: receives a
 * segmented code book and must outlive *v. E_UNSUPPORTED, E_CORRUPT. */
weir_status section_values_open(struct section_values *v, const struct section *s, float book[CODEC_BOOK],
                                weir_error *err) WEIR_MUST_CHECK;
/* Checks the next row, of n elements, and moves behind it. tile: (SECTION_TILE_BYTES), in all
 * calls. E_CORRUPT. */
weir_status section_row_check(struct section_values *v, size_t n, uint8_t *tile, weir_error *err) WEIR_MUST_CHECK;
/* These also move behind the row. */
bool section_row_is_finite(struct section_values *v, size_t n, uint8_t *tile);
void section_row_skip(struct section_values *v, size_t n);
/* Decodes the next row: out (n). */
void section_row_decode(struct section_values *v, size_t n, uint8_t *tile, float *out);
/* Decodes the next rows of an embedding: out (rows, width). */
void section_rows_decode(struct section_values *v, size_t rows, size_t width, uint8_t *tile, float *out);
/* Decodes the next tile of a row, of n elements, n <= CODEC_TILE. */
void section_tile_decode(struct section_values *v, size_t n, uint8_t *tile, float *out);
/* Top-k: decodes the sent elements of the next tile: offsets and out (n + TOPK_SLACK). Returns
 * their number. */
size_t section_tile_sparse(struct section_values *v, size_t n, uint8_t *tile, uint16_t *offsets, float *out);

#endif
