/* Compression ops: rows of tiles, through codec.h and topk.h. */
#include "kernels/cpu/cpu.h"

#include "kernels/topk.h"

void cpu_encode(struct backend *b, const struct coding *coding, const float *in, float *residual, size_t n, uint8_t *out)
{
	(void)b;
	codec_encode(coding, in, residual, n, out);
}

void cpu_encode_rows(struct backend *b, const struct coding *coding, const float *in, size_t rows, size_t width, uint8_t *out)
{
	const size_t row_bytes = codec_bytes(coding->codec, width);
	(void)b;
	for (size_t r = 0; r < rows; r++)
		codec_encode(coding, in + r * width, NULL, width, out + r * row_bytes);
}

void cpu_decode(struct backend *b, const struct coding *coding, const uint8_t *in, size_t n, float *out)
{
	(void)b;
	codec_decode(coding, in, n, out);
}

/* The tile at `at` of a row. */
struct tile {
	const float *grad; /* scaled; NULL as in topk_encode */
	float *residual;
	struct topk_momentum momentum;
	size_t n;
};

/* room (CODEC_TILE) */
static struct tile tile_of(const struct topk_row *row, size_t at, float *room)
{
	struct tile t = {.grad = row->grad ? row->grad + at : NULL,
	                 .residual = row->residual + at,
	                 .momentum = row->momentum,
	                 .n = codec_tile_elements(row->n, at)};
	if (t.momentum.velocity)
		t.momentum.velocity += at;
	if (!t.grad || row->scale == 1)
		return t;
	for (size_t i = 0; i < t.n; i++)
		room[i] = t.grad[i] * row->scale;
	t.grad = room;
	return t;
}

void cpu_topk_accumulate(struct backend *b, const struct topk_row *row)
{
	float room[CODEC_TILE];
	(void)b;
	for (size_t at = 0; at < row->n; at += CODEC_TILE) {
		const struct tile t = tile_of(row, at, room);
		topk_accumulate(t.grad, t.residual, &t.momentum, t.n);
	}
}

weir_status cpu_topk_threshold(struct backend *b, const float *x, size_t n, size_t k, float *out, weir_error *err)
{
	(void)b;
	return topk_threshold(x, n, k, out, err);
}

void cpu_topk_encode(struct backend *b, const struct topk_row *row, float threshold, weir_values values, uint8_t *out,
                     uint32_t *ends, uint32_t *selected)
{
	float room[CODEC_TILE];
	size_t bytes = 0;
	(void)b;
	for (size_t at = 0; at < row->n; at += CODEC_TILE) {
		const struct tile t = tile_of(row, at, room);
		bytes += topk_encode(t.grad, t.residual, &t.momentum, t.n, threshold, values, out + bytes, &selected[at / CODEC_TILE]);
		ends[at / CODEC_TILE] = (uint32_t)bytes;
	}
}

void cpu_topk_decode(struct backend *b, const uint8_t *in, const uint32_t *ends, size_t n, weir_values values, float *out)
{
	(void)b;
	for (size_t at = 0; at < n; at += CODEC_TILE) {
		const size_t tile = at / CODEC_TILE;
		topk_decode_dense(in + (tile > 0 ? ends[tile - 1] : 0), codec_tile_elements(n, at), values, out + at);
	}
}
