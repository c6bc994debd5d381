/* A section's values from a stranger: refused, or rows that read alike however the message is cut,
 * with a correct note of whether each is finite.
 *
 * Input: u8 codec, u8 aux, u8 bytes per span, u8 rows, u16 elements per row less 1, u8 (bit 0:
 * elements that are not finite count as 0), the section's data. */
#include "tests/fuzz/fuzz.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/book.h"
#include "server/partition/section_values.h"
#include "tests/unit/proto/pieces.h"

#define HEADER       7u
#define ROWS_MAX     8u
#define ELEMENTS_MAX (2u * CODEC_TILE)

struct shape {
	struct section section;
	size_t rows, n;
	bool clip;
};

static uint8_t tile[SECTION_TILE_BYTES];

/* Returns the rows (rows, n) from malloc; NULL: refused. finite: (rows). */
static float *read_rows(const struct shape *shape, const struct message *m, bool *finite)
{
	struct section s = shape->section;
	struct section_values v, at;
	float book[CODEC_BOOK];
	weir_error err = {0};
	s.data = cursor_at(m);
	weir_status status = section_values_open(&v, &s, book, &err);
	at = v;
	for (size_t row = 0; !status && row < shape->rows; row++)
		status = section_row_check(&at, shape->n, tile, &err);
	if (status) {
		assert(err.text[0]);
		return NULL;
	}
	float *out = malloc((shape->rows * shape->n + 1) * sizeof *out);
	assert(out);
	at = v;
	for (size_t row = 0; row < shape->rows; row++)
		finite[row] = section_row_is_finite(&at, shape->n, tile);
	v.clip = shape->clip;
	section_rows_decode(&v, shape->rows, shape->n, tile, out);
	return out;
}

/* Reads one row after another, skipping the first. For top-k, compares the elements sent. */
static void read_one_by_one(const struct shape *shape, const struct message *m, const float *want)
{
	struct section s = shape->section;
	struct section_values v;
	float book[CODEC_BOOK];
	static float out[ELEMENTS_MAX], sent[CODEC_TILE + TOPK_SLACK];
	static uint16_t offsets[CODEC_TILE + TOPK_SLACK];
	weir_error err = {0};
	s.data = cursor_at(m);
	weir_status status = section_values_open(&v, &s, book, &err);
	assert(status == WEIR_OK);
	(void)status;
	v.clip = shape->clip;
	if (shape->rows)
		section_row_skip(&v, shape->n);
	for (size_t row = 1; row < shape->rows; row++) {
		struct section_values sparse = v;
		section_row_decode(&v, shape->n, tile, out);
		assert(memcmp(out, want + row * shape->n, shape->n * sizeof *out) == 0);
		for (size_t at = 0, n; s.codec == WEIR_CODEC_TOPK && at < shape->n; at += n) {
			n = shape->n - at < CODEC_TILE ? shape->n - at : CODEC_TILE;
			const size_t count = section_tile_sparse(&sparse, n, tile, offsets, sent);
			for (size_t i = 0; i < count; i++)
				assert(offsets[i] < n && memcmp(&sent[i], &out[at + offsets[i]], sizeof *sent) == 0);
		}
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	bool finite[ROWS_MAX + 1], finite_cut[ROWS_MAX + 1];
	if (size < HEADER)
		return 0;
	const size_t bytes = size - HEADER, cut = data[2] ? data[2] : 4096;
	const struct shape shape = {.section = {.table = 1, .codec = data[0], .aux = data[1], .data_bytes = (uint32_t)bytes},
	                            .rows = data[3] % (ROWS_MAX + 1),
	                            .n = 1 + ((size_t)data[4] | (size_t)data[5] << 8) % ELEMENTS_MAX,
	                            .clip = data[6] & 1};
	struct message *one = pieces_of(data + HEADER, bytes, bytes + 1), *many = pieces_of(data + HEADER, bytes, cut);
	float *rows = read_rows(&shape, one, finite), *rows_cut = read_rows(&shape, many, finite_cut);
	assert(!rows == !rows_cut);
	for (size_t row = 0; rows && row < shape.rows; row++) {
		bool is_finite = true;
		for (size_t i = row * shape.n; i < (row + 1) * shape.n; i++)
			is_finite &= isfinite(rows[i]) != 0;
		assert(finite[row] == finite_cut[row] && (is_finite || !(finite[row] || shape.clip)));
	}
	if (rows) {
		assert(memcmp(rows, rows_cut, shape.rows * shape.n * sizeof *rows) == 0);
		read_one_by_one(&shape, many, rows);
	}
	free(rows);
	free(rows_cut);
	message_release(one);
	message_release(many);
	return 0;
}

static size_t encode_topk(const float *x, size_t n, weir_values values, uint8_t *out)
{
	size_t bytes = 0;
	for (size_t at = 0, m; at < n; at += m) {
		static float residual[CODEC_TILE];
		uint32_t selected;
		m = n - at < CODEC_TILE ? n - at : CODEC_TILE;
		memset(residual, 0, sizeof residual);
		bytes += topk_encode(x + at, residual, NULL, m, 0.99f, values, out + bytes, &selected);
	}
	return bytes;
}

/* Two rows of each codec with each of its aux values; for top-k and int8 also long rows of more
 * than a tile. */
uint8_t *fuzz_seed(uint32_t i, size_t *size)
{
	static const struct {
		weir_codec codec;
		uint8_t aux;
		size_t n;
	} kinds[] = {{WEIR_CODEC_FP32, 0, 40},     {WEIR_CODEC_BF16, 0, 40},   {WEIR_CODEC_FP16, 0, 40},
	             {WEIR_CODEC_INT8, 0, 300},    {WEIR_CODEC_SIGN, 0, 1100}, {WEIR_CODEC_FP8_E4M3, 0, 40},
	             {WEIR_CODEC_FP8_E5M2, 0, 40}, {WEIR_CODEC_INT4, 0, 90},   {WEIR_CODEC_INT4, 1, 90},
	             {WEIR_CODEC_INT4, 2, 90},     {WEIR_CODEC_TOPK, 0, 900},  {WEIR_CODEC_TOPK, 1, 900},
	             {WEIR_CODEC_TOPK, 2, 900},    {WEIR_CODEC_TOPK, 3, 900},  {WEIR_CODEC_TOPK, 3, 17000},
	             {WEIR_CODEC_INT8, 0, 17000},  {WEIR_CODEC_INT2, 0, 90},   {WEIR_CODEC_TOPK, 4, 900}};
	static float x[ELEMENTS_MAX];
	if (i >= sizeof kinds / sizeof *kinds)
		return NULL;
	const size_t n = kinds[i].n;
	const bool has_book = kinds[i].codec == WEIR_CODEC_INT4 && kinds[i].aux == WEIR_BOOK_SEGMENTED;
	const float *book = book_known(has_book ? WEIR_BOOK_LOG : (weir_book)kinds[i].aux);
	const struct coding c = {.codec = kinds[i].codec, .book = kinds[i].codec == WEIR_CODEC_INT4 ? book : NULL};
	uint8_t *seed = malloc(HEADER + CODEC_BOOK * sizeof *book + 2 * (4 * n + 4096));
	assert(seed);
	for (size_t k = 0; k < n; k++)
		x[k] = sinf((float)k);
	memcpy(seed,
	       (const uint8_t[HEADER]){(uint8_t)kinds[i].codec, kinds[i].aux, (uint8_t)(3 + 29 * i), 2, (uint8_t)(n - 1),
	                               (uint8_t)((n - 1) >> 8), i & 1},
	       HEADER);
	size_t at = HEADER;
	if (has_book) {
		memcpy(seed + at, book, CODEC_BOOK * sizeof *book);
		at += CODEC_BOOK * sizeof *book;
	}
	for (int row = 0; row < 2; row++) {
		if (c.codec == WEIR_CODEC_TOPK) {
			at += encode_topk(x, n, (weir_values)kinds[i].aux, seed + at);
			continue;
		}
		codec_encode(&c, x, NULL, n, seed + at);
		at += codec_bytes(c.codec, n);
	}
	*size = at;
	return seed;
}
