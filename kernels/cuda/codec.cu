/* Value codecs (codec.h): the same bytes as ../codec.c and ../codecs for the same numbers, with
 * error feedback in the same pass.
 *
 * Codecs with a scale: a warp takes SPAN elements, 8 neighbours a lane; lanes that share a scale
 * find the largest magnitude among them. sign: a warp takes a block, and lane l the elements l,
 * l + 32, ... Each lane's sum is thus one of the CPU's, and a ballot is four bytes of codes. */
#include "kernels/cuda/codec_lane.h"

#define SPANS  (CODEC_TILE / SPAN)
#define ROUNDS (CODEC_SIGN_BLOCK / CUDA_LANES)

/* --- Codecs with a scale, except sign */

/* A lane's share: up to EACH elements from `at` of its tile on. base: of the row; left: elements
 * left in the tile, 0 for a lane without elements. */
struct lane_span {
	struct tile_place tile;
	size_t base;
	uint32_t at, left;
};

/* False, for all lanes of a warp, if their tile does not exist. */
template <weir_codec CODEC> static __device__ inline bool find_span(size_t n, struct lane_span *s)
{
	const size_t span = thread_number() / CUDA_LANES, tile = span / SPANS;
	if (tile * CODEC_TILE >= n)
		return false;
	s->tile = place_of<CODEC>(tile, n);
	s->at = (uint32_t)(span % SPANS) * SPAN + threadIdx.x % CUDA_LANES * EACH;
	s->left = s->at < s->tile.n ? s->tile.n - s->at : 0;
	s->base = tile * CODEC_TILE + s->at;
	return true;
}

template <weir_codec CODEC, int V>
static __global__ void __launch_bounds__(CUDA_THREADS)
    encode_kernel(const float *in, float *residual, size_t n, struct book given, uint8_t *out)
{
	SHARED(struct book, book, [1]);
	share_book<CODEC>(book, given);
	struct lane_span s;
	if (!find_span<CODEC>(n, &s))
		return;
	float acc[EACH] = {0};
	if (in)
		load_each<V>(acc, in + s.base, s.left);
	if (residual) {
		float kept[EACH];
		load_each<V>(kept, residual + s.base, s.left);
		for (uint32_t k = 0; k < EACH; k++)
			acc[k] += kept[k];
	}
	const uint32_t bits = scale_of_lanes<CODEC>(acc, s.left, form<CODEC>::block / EACH);
	if (s.left == 0)
		return;
	put_each<CODEC>(acc, bits, s.at, s.left, book, out + s.tile.scales, out + s.tile.codes);
	if (residual)
		store_each<V>(residual + s.base, acc, s.left);
}

template <weir_codec CODEC, int V>
static __global__ void __launch_bounds__(CUDA_THREADS) decode_kernel(const uint8_t *in, size_t n, struct book given, float *out)
{
	SHARED(struct book, book, [1]);
	share_book<CODEC>(book, given);
	struct lane_span s;
	if (!find_span<CODEC>(n, &s))
		return;
	if (s.left == 0)
		return;
	float x[EACH];
	get_each<CODEC>(x, s.at, s.left, book, in + s.tile.scales, in + s.tile.codes);
	store_each<V>(out + s.base, x, s.left);
}

/* --- sign */

static __global__ void __launch_bounds__(CUDA_THREADS)
    sign_encode_kernel(const float *in, float *residual, size_t n, uint8_t *out)
{
	const uint32_t lane = threadIdx.x % CUDA_LANES, blocks = CODEC_TILE / CODEC_SIGN_BLOCK;
	const size_t block = thread_number() / CUDA_LANES, tile = block / blocks;
	if (block * CODEC_SIGN_BLOCK >= n)
		return;
	const struct tile_place p = place_of<WEIR_CODEC_SIGN>(tile, n);
	const uint32_t first = (uint32_t)(block % blocks) * CODEC_SIGN_BLOCK;
	const uint32_t here = p.n - first < CODEC_SIGN_BLOCK ? p.n - first : CODEC_SIGN_BLOCK;
	const size_t base = tile * CODEC_TILE + first;
	float acc[ROUNDS], sum = 0;
#pragma unroll
	for (uint32_t k = 0; k < ROUNDS; k++) {
		const uint32_t i = k * CUDA_LANES + lane;
		acc[k] = i < here && in ? in[base + i] : 0;
		if (residual && i < here)
			acc[k] += residual[base + i];
		sum += fabsf(acc[k]);
	}
	sum = __shfl_sync(ALL_LANES, lanes_sum(sum, CUDA_LANES), 0, CUDA_LANES);
	const uint32_t bits = scale_bits(sum / (float)here, BF16_MOST);
	const float scale = scale_of(bits).value;
	uint32_t own = 0;
#pragma unroll
	for (uint32_t k = 0; k < ROUNDS; k++) {
		const uint32_t word = __ballot_sync(ALL_LANES, acc[k] < 0), i = k * CUDA_LANES + lane;
		own = k == lane ? word : own;
		if (residual && i < here)
			residual[base + i] = acc[k] - (acc[k] < 0 ? -scale : scale);
	}
	if (lane == 0)
		store_codes<uint16_t>(out + p.scales + first / CODEC_SIGN_BLOCK * SCALE_BYTES, (uint16_t)bits, SCALE_BYTES);
	const uint32_t bytes = (here + 7) / 8, done = lane * 4;
	if (done < bytes)
		store_codes<uint32_t>(out + p.codes + first / 8 + done, own, bytes - done < 4 ? bytes - done : 4);
}

static __global__ void __launch_bounds__(CUDA_THREADS) sign_decode_kernel(const uint8_t *in, size_t n, float *out)
{
	const size_t i = thread_number();
	if (i >= n)
		return;
	const struct tile_place p = place_of<WEIR_CODEC_SIGN>(i / CODEC_TILE, n);
	const uint32_t at = (uint32_t)(i % CODEC_TILE);
	const float scale = scale_at(in + p.scales + at / CODEC_SIGN_BLOCK * SCALE_BYTES);
	out[i] = float_of(bits_of(scale) ^ (uint32_t)(in[p.codes + at / 8] >> at % 8 & 1) << 31);
}

/* --- fp32, bf16, fp16: each number on its own */

template <weir_codec CODEC> static __global__ void cast_kernel(const float *in, float *residual, size_t n, uint8_t *out)
{
	const size_t i = thread_number();
	if (i >= n)
		return;
	const float given = in ? in[i] : 0, acc = residual ? given + residual[i] : given;
	float back = acc;
	static_assert(form<CODEC>::block == 0 && form<CODEC>::bits >= 16, "a codec without a kernel");
	if (CODEC == WEIR_CODEC_FP32) {
		((uint32_t *)out)[i] = bits_of(acc);
	} else if (CODEC == WEIR_CODEC_BF16) {
		const uint32_t code = bf16_of(bits_of(acc));
		((uint16_t *)out)[i] = (uint16_t)code;
		back = float_of(code << 16);
	} else {
		((uint16_t *)out)[i] = (uint16_t)fp16_of(acc, &back);
	}
	if (residual)
		residual[i] = CODEC == WEIR_CODEC_FP32 ? 0 : acc - back;
}

template <weir_codec CODEC> static __global__ void uncast_kernel(const uint8_t *in, size_t n, float *out)
{
	const size_t i = thread_number();
	if (i >= n)
		return;
	if (CODEC == WEIR_CODEC_FP32)
		out[i] = float_of(((const uint32_t *)in)[i]);
	else if (CODEC == WEIR_CODEC_BF16)
		out[i] = float_of((uint32_t)((const uint16_t *)in)[i] << 16);
	else
		out[i] = fp16_value(((const uint16_t *)in)[i]);
}

/* --- Ops */

/* Blocks with one span per warp. */
static dim3 span_blocks(struct cuda_backend *c, size_t n)
{
	return blocks_for(c, codec_tiles(n) * SPANS * CUDA_LANES);
}

template <weir_codec CODEC>
static void encode_spans(struct cuda_backend *c, const struct coding *coding, const float *in, float *residual, size_t n,
                         uint8_t *out)
{
	const struct book book = book_given(coding);
	if ((ADDRESS(in) | ADDRESS(residual)) % sizeof(pack<4>) == 0)
		LAUNCH(c, (encode_kernel<CODEC, 4>), span_blocks(c, n), CUDA_THREADS, in, residual, n, book, out);
	else
		LAUNCH(c, (encode_kernel<CODEC, 1>), span_blocks(c, n), CUDA_THREADS, in, residual, n, book, out);
}

template <weir_codec CODEC>
static void decode_spans(struct cuda_backend *c, const struct coding *coding, const uint8_t *in, size_t n, float *out)
{
	const struct book book = book_given(coding);
	if (ADDRESS(out) % sizeof(pack<4>) == 0)
		LAUNCH(c, (decode_kernel<CODEC, 4>), span_blocks(c, n), CUDA_THREADS, in, n, book, out);
	else
		LAUNCH(c, (decode_kernel<CODEC, 1>), span_blocks(c, n), CUDA_THREADS, in, n, book, out);
}

template <weir_codec CODEC>
static void encode(struct cuda_backend *c, const struct coding *coding, const float *in, float *residual, size_t n, uint8_t *out)
{
	const size_t sign_blocks = (n + CODEC_SIGN_BLOCK - 1) / CODEC_SIGN_BLOCK;
	if constexpr (CODEC == WEIR_CODEC_SIGN)
		LAUNCH(c, sign_encode_kernel, blocks_for(c, sign_blocks * CUDA_LANES), CUDA_THREADS, in, residual, n, out);
	else if constexpr (form<CODEC>::block > 0)
		encode_spans<CODEC>(c, coding, in, residual, n, out);
	else
		LAUNCH(c, cast_kernel<CODEC>, blocks_for(c, n), CUDA_THREADS, in, residual, n, out);
}

template <weir_codec CODEC>
static void decode(struct cuda_backend *c, const struct coding *coding, const uint8_t *in, size_t n, float *out)
{
	if constexpr (CODEC == WEIR_CODEC_SIGN)
		LAUNCH(c, sign_decode_kernel, blocks_for(c, n), CUDA_THREADS, in, n, out);
	else if constexpr (form<CODEC>::block > 0)
		decode_spans<CODEC>(c, coding, in, n, out);
	else
		LAUNCH(c, uncast_kernel<CODEC>, blocks_for(c, n), CUDA_THREADS, in, n, out);
}

void cuda_encode(struct backend *b, const struct coding *coding, const float *in, float *residual, size_t n, uint8_t *out)
{
	struct cuda_backend *c = cuda_of(b);
	switch (coding->codec) {
#define ENCODE(id, name, bits, block, scale_most, special)        \
	case WEIR_CODEC_##id:                                         \
		encode<WEIR_CODEC_##id>(c, coding, in, residual, n, out); \
		break;
		CODEC_FORM_MAP(ENCODE)
#undef ENCODE
	default:
		cuda_failed_limit(c, "top-k coded as a codec of fixed size");
		break;
	}
}

void cuda_decode(struct backend *b, const struct coding *coding, const uint8_t *in, size_t n, float *out)
{
	struct cuda_backend *c = cuda_of(b);
	switch (coding->codec) {
#define DECODE(id, name, bits, block, scale_most, special) \
	case WEIR_CODEC_##id:                                  \
		decode<WEIR_CODEC_##id>(c, coding, in, n, out);    \
		break;
		CODEC_FORM_MAP(DECODE)
#undef DECODE
	default:
		cuda_failed_limit(c, "top-k decoded as a codec of fixed size");
		break;
	}
}
