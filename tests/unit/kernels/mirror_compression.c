/* Ops of codecs on the mirrored device. The bytes of an output are its capacity. */
#include "tests/unit/kernels/mirror_ops.h"

static void mirror_encode(struct backend *b, const struct coding *coding, const float *in, float *residual, size_t n,
                          uint8_t *out)
{
	struct mirror *m = mirror(b);
	uint8_t *to = mirror_array(m, out, codec_bytes(coding->codec, n));
	float *left = mirror_floats(m, residual, n);
	RUN(m, encode, coding, mirror_floats(m, in, n), left, n, to);
}

static void mirror_encode_rows(struct backend *b, const struct coding *coding, const float *in, size_t rows, size_t width,
                               uint8_t *out)
{
	struct mirror *m = mirror(b);
	uint8_t *to = mirror_array(m, out, rows * codec_bytes(coding->codec, width));
	RUN(m, encode_rows, coding, mirror_floats(m, in, rows * width), rows, width, to);
}

static void mirror_decode(struct backend *b, const struct coding *coding, const uint8_t *in, size_t n, float *out)
{
	struct mirror *m = mirror(b);
	float *to = mirror_floats(m, out, n);
	RUN(m, decode, coding, mirror_array(m, in, codec_bytes(coding->codec, n)), n, to);
}

static struct topk_row row_there(struct mirror *m, const struct topk_row *row)
{
	struct topk_row r = *row;
	r.residual = mirror_floats(m, row->residual, row->n);
	r.grad = mirror_floats(m, row->grad, row->n);
	r.momentum.velocity = mirror_floats(m, row->momentum.velocity, row->n);
	return r;
}

static void mirror_topk_accumulate(struct backend *b, const struct topk_row *row)
{
	struct mirror *m = mirror(b);
	const struct topk_row r = row_there(m, row);
	RUN(m, topk_accumulate, &r);
}

static weir_status mirror_topk_threshold(struct backend *b, const float *x, size_t n, size_t k, float *out, weir_error *err)
{
	struct mirror *m = mirror(b);
	RUN_FOR(m, weir_status, topk_threshold, mirror_floats(m, x, n), n, k, out, err);
}

static void mirror_topk_encode(struct backend *b, const struct topk_row *row, float threshold, weir_values values, uint8_t *out,
                               uint32_t *ends, uint32_t *selected)
{
	struct mirror *m = mirror(b);
	const struct topk_row r = row_there(m, row);
	const size_t tiles = codec_tiles(row->n);
	size_t room = 0;
	for (size_t at = 0; at < row->n; at += CODEC_TILE)
		room += topk_record_max(codec_tile_elements(row->n, at), values);
	uint8_t *to = mirror_array(m, out, room);
	uint32_t *to_ends = mirror_words(m, ends, tiles);
	RUN(m, topk_encode, &r, threshold, values, to, to_ends, mirror_words(m, selected, tiles));
}

static void mirror_topk_decode(struct backend *b, const uint8_t *in, const uint32_t *ends, size_t n, weir_values values,
                               float *out)
{
	struct mirror *m = mirror(b);
	float *to = mirror_floats(m, out, n);
	const uint8_t *from = mirror_array(m, in, ends[codec_tiles(n) - 1]);
	RUN(m, topk_decode, from, mirror_words(m, ends, codec_tiles(n)), n, values, to);
}

void mirror_compression(struct backend_ops *ops)
{
	ops->encode = mirror_encode;
	ops->encode_rows = mirror_encode_rows;
	ops->decode = mirror_decode;
	ops->topk_accumulate = mirror_topk_accumulate;
	ops->topk_threshold = mirror_topk_threshold;
	ops->topk_encode = mirror_topk_encode;
	ops->topk_decode = mirror_topk_decode;
}
