/* Rows of embeddings, each coded on its own (codec.h), all rows of a push in one launch.
 *
 * A warp takes as many rows of up to SPAN elements as it has lanes for, 8 elements a lane; of
 * longer rows it takes a span. A row's bytes may begin at any address: only aligned codes are
 * written by one instruction. */
#include "kernels/cuda/codec_lane.h"

/* A lane's share of a row: `left` elements from `at` of its tile on; 0: no elements. */
struct lane_row {
	size_t row;
	uint32_t column, tile, at, left;
};

static __device__ inline struct lane_row find_row(size_t rows, uint32_t width, uint32_t lanes, uint32_t spans)
{
	const size_t group = thread_number() / lanes;
	struct lane_row l = {quotient(group, spans), 0, 0, 0, 0};
	l.column = (uint32_t)remainder_of(group, spans) * SPAN + threadIdx.x % lanes * EACH;
	l.tile = l.column / CODEC_TILE;
	l.at = l.column % CODEC_TILE;
	if (l.row < rows && l.column < width)
		l.left = width - l.column < CODEC_TILE - l.at ? width - l.column : CODEC_TILE - l.at;
	return l;
}

/* lanes: of a span, or of a whole shorter row, a power of 2; spans: of a row. */
template <weir_codec CODEC, int V>
static __global__ void __launch_bounds__(CUDA_THREADS)
    encode_rows_kernel(const float *in, size_t rows, uint32_t width, uint32_t lanes, uint32_t spans, size_t row_bytes,
                       struct book given, uint8_t *out)
{
	const uint32_t of_block = form<CODEC>::block / EACH;
	SHARED(struct book, book, [1]);
	share_book<CODEC>(book, given);
	const struct lane_row l = find_row(rows, width, lanes, spans);
	float acc[EACH] = {0};
	if (l.left > 0)
		load_each<V>(acc, in + l.row * width + l.column, l.left);
	const uint32_t bits = scale_of_lanes<CODEC>(acc, l.left, lanes < of_block ? lanes : of_block);
	if (l.left == 0)
		return;
	const struct tile_place tile = place_of<CODEC>(l.tile, width);
	uint8_t *to = out + l.row * row_bytes;
	put_each<CODEC>(acc, bits, l.at, l.left, book, to + tile.scales, to + tile.codes);
}

/* codec_bytes */
template <weir_codec CODEC> static size_t bytes_of(size_t n)
{
	const size_t rest = n % CODEC_TILE, blocks = (rest + form<CODEC>::block - 1) / form<CODEC>::block;
	return n / CODEC_TILE * form<CODEC>::tile_bytes + blocks * SCALE_BYTES + (rest * form<CODEC>::bits + 7) / 8;
}

template <weir_codec CODEC>
static void encode_rows(struct cuda_backend *c, const struct coding *coding, const float *in, size_t rows, uint32_t width,
                        uint8_t *out)
{
	const struct book book = book_given(coding);
	const uint32_t spans = (width + SPAN - 1) / SPAN;
	uint32_t lanes = 1;
	while (lanes < CUDA_LANES && lanes * EACH < width)
		lanes *= 2;
	const dim3 grid = blocks_for(c, rows * spans * lanes);
	const size_t row_bytes = bytes_of<CODEC>(width);
	if (pack_width(width, ADDRESS(in)) == 4)
		LAUNCH(c, (encode_rows_kernel<CODEC, 4>), grid, CUDA_THREADS, in, rows, width, lanes, spans, row_bytes, book, out);
	else
		LAUNCH(c, (encode_rows_kernel<CODEC, 1>), grid, CUDA_THREADS, in, rows, width, lanes, spans, row_bytes, book, out);
}

template <weir_codec CODEC>
static void encode_any(struct backend *b, const struct coding *coding, const float *in, size_t rows, uint32_t width, uint8_t *out)
{
	if constexpr (!traits<CODEC>::codes_rows)
		cuda_failed_limit(cuda_of(b), "rows of embeddings coded as sign");
	else if constexpr (form<CODEC>::block > 0)
		encode_rows<CODEC>(cuda_of(b), coding, in, rows, width, out);
	else /* numbers, one after the other */
		cuda_encode(b, coding, in, NULL, rows * width, out);
}

void cuda_encode_rows(struct backend *b, const struct coding *coding, const float *in, size_t rows, size_t width, uint8_t *out)
{
	struct cuda_backend *c = cuda_of(b);
	if (width > CUDA_ROW_WIDTH_MAX) {
		cuda_failed_limit(c, "a row of more elements than a thread counts to");
		return;
	}
	switch (coding->codec) {
#define ENCODE_ROWS(id, name, bits, block, scale_most, special)                 \
	case WEIR_CODEC_##id:                                                       \
		encode_any<WEIR_CODEC_##id>(b, coding, in, rows, (uint32_t)width, out); \
		break;
		CODEC_FORM_MAP(ENCODE_ROWS)
#undef ENCODE_ROWS
	default:
		cuda_failed_limit(c, "rows of embeddings coded as top-k");
		break;
	}
}
