#include "server/partition/section_values.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "kernels/book.h"

static weir_status open_book(struct section_values *v, const struct section *s, float book[CODEC_BOOK], weir_error *err)
{
	if (s->aux >= WEIR_BOOKS)
		return weir_fail(err, WEIR_E_UNSUPPORTED, "section of table %u: code book %llu is not known", s->table,
		                 (unsigned long long)s->aux);
	v->coding.book = book_known((weir_book)s->aux);
	if (v->coding.book)
		return WEIR_OK;
	v->coding.book = book;
	if (cursor_read(&v->data, book, CODEC_BOOK * sizeof *book))
		return weir_fail(err, WEIR_E_CORRUPT, "section of table %u: %u bytes, its code book has %zu", s->table, s->data_bytes,
		                 CODEC_BOOK * sizeof *book);
	/* Refuses NaN, too. Otherwise a product with a finite scale could be infinite. */
	for (size_t i = 0; i < CODEC_BOOK; i++)
		if (!(fabsf(book[i]) <= 1))
			return weir_fail(err, WEIR_E_CORRUPT, "section of table %u: its code book has %g, not from -1 to 1", s->table,
			                 (double)book[i]);
	return WEIR_OK;
}

weir_status section_values_open(struct section_values *v, const struct section *s, float book[CODEC_BOOK], weir_error *err)
{
	*v = (struct section_values){.coding = {.codec = (weir_codec)s->codec}, .data = s->data};
	if (!codec_name(v->coding.codec))
		return weir_fail(err, WEIR_E_UNSUPPORTED, "section of table %u: codec %u is not known", s->table, s->codec);
	if (codec_has_use(v->coding.codec, WEIR_CODES_BY_BOOK))
		return open_book(v, s, book, err);
	if (v->coding.codec == WEIR_CODEC_TOPK && s->aux < WEIR_VALUES)
		v->values = (weir_values)s->aux;
	else if (s->aux)
		return weir_fail(err, WEIR_E_UNSUPPORTED, "section of table %u: %s with aux %llu is not known", s->table,
		                 codec_name(v->coding.codec), (unsigned long long)s->aux);
	return WEIR_OK;
}

/* --- Tiles */

/* The next n bytes, contiguous. */
static const uint8_t *take(struct cursor *c, size_t n, uint8_t *tile)
{
	const uint8_t *run = tile;
	const size_t got = n ? cursor_run(c, n, 1, tile, &run) : 1;
	assert(got == 1);
	(void)got;
	return run;
}

/* The size that the next record, which was checked, states for itself. */
static size_t record_bytes(const struct section_values *v)
{
	struct cursor c = v->data;
	uint16_t header[2];
	const weir_status status = cursor_read(&c, header, sizeof header);
	assert(status == WEIR_OK);
	(void)status;
	return header[1] * 4u;
}

static const uint8_t *take_tile(struct section_values *v, size_t n, uint8_t *tile)
{
	const size_t bytes = v->coding.codec == WEIR_CODEC_TOPK ? record_bytes(v) : codec_bytes(v->coding.codec, n);
	return take(&v->data, bytes, tile);
}

static void clip(const struct section_values *v, float *out, size_t n)
{
	for (size_t i = 0; v->clip && i < n; i++)
		if (!isfinite(out[i]))
			out[i] = 0;
}

void section_tile_decode(struct section_values *v, size_t n, uint8_t *tile, float *out)
{
	const uint8_t *bytes = take_tile(v, n, tile);
	if (v->coding.codec == WEIR_CODEC_TOPK)
		topk_decode_dense(bytes, n, v->values, out);
	else
		codec_decode(&v->coding, bytes, n, out);
	clip(v, out, n);
}

size_t section_tile_sparse(struct section_values *v, size_t n, uint8_t *tile, uint16_t *offsets, float *out)
{
	const size_t count = topk_decode(take_tile(v, n, tile), n, v->values, offsets, out);
	clip(v, out, count);
	return count;
}

/* --- Rows */

void section_row_decode(struct section_values *v, size_t n, uint8_t *tile, float *out)
{
	for (size_t at = 0; at < n; at += CODEC_TILE)
		section_tile_decode(v, codec_tile_elements(n, at), tile, out + at);
}

/* Rows of codecs that can be cut at any element are contiguous, so they are read as one. */
static void elements_decode(struct section_values *v, size_t n, uint8_t *tile, float *out)
{
	const size_t element = codec_element_bytes(v->coding.codec);
	const uint8_t *run;
	for (size_t at = 0, m; at < n; at += m) {
		m = cursor_run(&v->data, element, n - at, tile, &run);
		assert(m > 0);
		codec_decode(&v->coding, run, m, out + at);
	}
}

void section_rows_decode(struct section_values *v, size_t rows, size_t width, uint8_t *tile, float *out)
{
	const bool is_plain = codec_element_bytes(v->coding.codec) > 0;
	/* A row is one tile of known size. */
	const bool is_whole = width <= CODEC_TILE && codec_is_fixed(v->coding.codec) && !is_plain;
	const size_t row_bytes = is_whole ? codec_bytes(v->coding.codec, width) : 0;
	const uint8_t *run;
	if (is_plain)
		elements_decode(v, rows * width, tile, out);
	for (size_t i = 0; i < rows && !is_plain && !row_bytes; i++)
		section_row_decode(v, width, tile, out + i * width);
	for (size_t i = 0, m; i < rows && row_bytes; i += m) {
		m = cursor_run(&v->data, row_bytes, rows - i, tile, &run);
		assert(m > 0);
		for (size_t j = 0; j < m; j++)
			codec_decode(&v->coding, run + j * row_bytes, width, out + (i + j) * width);
	}
	clip(v, out, rows * width);
}

void section_row_skip(struct section_values *v, size_t n)
{
	if (v->coding.codec != WEIR_CODEC_TOPK) {
		(void)cursor_take(&v->data, codec_bytes(v->coding.codec, n));
		return;
	}
	for (size_t at = 0; at < n; at += CODEC_TILE)
		(void)cursor_take(&v->data, record_bytes(v));
}

bool section_row_is_finite(struct section_values *v, size_t n, uint8_t *tile)
{
	bool finite = true;
	for (size_t at = 0; at < n; at += CODEC_TILE) { /* checks all tiles, to move behind the row */
		const size_t m = codec_tile_elements(n, at);
		const uint8_t *bytes = take_tile(v, m, tile);
		finite &=
		    v->coding.codec == WEIR_CODEC_TOPK ? topk_is_finite(bytes, m, v->values) : codec_is_finite(&v->coding, bytes, m);
	}
	return finite;
}

static weir_status check_record(struct section_values *v, size_t n, uint8_t *tile, weir_error *err)
{
	size_t bytes = v->data.left >= TOPK_RECORD_HEADER ? record_bytes(v) : 0;
	if (bytes > v->data.left || bytes > SECTION_TILE_BYTES || bytes < TOPK_RECORD_HEADER)
		return weir_fail(err, WEIR_E_CORRUPT, "top-k: a record of %zu bytes, %zu are left", bytes, v->data.left);
	return topk_check(take(&v->data, bytes, tile), bytes, n, v->values, &bytes, err);
}

weir_status section_row_check(struct section_values *v, size_t n, uint8_t *tile, weir_error *err)
{
	if (v->coding.codec != WEIR_CODEC_TOPK) {
		const size_t bytes = codec_bytes(v->coding.codec, n);
		return cursor_skip(&v->data, bytes) ? weir_fail(err, WEIR_E_CORRUPT, "a row of %zu bytes (%s), %zu are left", bytes,
		                                                codec_name(v->coding.codec), v->data.left)
		                                    : WEIR_OK;
	}
	weir_status status = WEIR_OK;
	for (size_t at = 0; at < n && !status; at += CODEC_TILE)
		status = check_record(v, codec_tile_elements(n, at), tile, err);
	return status;
}
