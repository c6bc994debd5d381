/* Value codecs (codec.h) at the level of a lane: places of a tile's scales and codes, loads and
 * stores of neighbours together, and the code of a number. Included by the files with the
 * kernels. */
#ifndef WEIR_CODEC_LANE_H
#define WEIR_CODEC_LANE_H

#include "kernels/cuda/launch.h"

#include "kernels/codecs/minifloat.h"

#define SPAN 256u /* elements of a warp */
#define EACH 8u   /* of a lane */

/* The layout of tiles: rows of codecs/form.h. */
template <weir_codec CODEC> struct form;

static constexpr uint32_t scales_bytes(uint32_t n, uint32_t block)
{
	return block > 0 ? n / block * SCALE_BYTES : 0;
}

#define FORM(id, name, width, scaled, scale_most, special)                                              \
	template <> struct form<WEIR_CODEC_##id> {                                                          \
		static const uint32_t bits = width, block = scaled;                                             \
		static const uint32_t tile_bytes = scales_bytes(CODEC_TILE, scaled) + CODEC_TILE / 8 * (width); \
	};
CODEC_FORM_MAP(FORM)
#undef FORM

template <weir_codec CODEC> struct traits;
#define TRAITS(id, number, text, feedback, uses)                       \
	template <> struct traits<WEIR_CODEC_##id> {                       \
		static const bool has_book = ((uses)&WEIR_CODES_BY_BOOK) != 0; \
		static const bool codes_rows = ((uses)&WEIR_CODES_ROWS) != 0;  \
	};
WEIR_CODEC_MAP(TRAITS)
#undef TRAITS

/* Places of a tile's scales and codes, and its number of elements. */
struct tile_place {
	size_t scales, codes;
	uint32_t n;
};

template <weir_codec CODEC> static __device__ inline struct tile_place place_of(size_t tile, size_t n)
{
	const size_t left = n - tile * CODEC_TILE;
	struct tile_place p = {tile * form<CODEC>::tile_bytes, 0, (uint32_t)(left < CODEC_TILE ? left : CODEC_TILE)};
	p.codes = p.scales + (p.n + form<CODEC>::block - 1) / form<CODEC>::block * SCALE_BYTES;
	return p;
}

/* --- A lane's neighbours */

template <int V> static __device__ inline void load_each(float x[EACH], const float *p, uint32_t n)
{
	if (V == 4 && n >= EACH) {
		const pack<4> low = load<4>(p), high = load<4>(p + 4);
		for (uint32_t k = 0; k < 4; k++) {
			x[k] = low.v[k];
			x[4 + k] = high.v[k];
		}
		return;
	}
	for (uint32_t k = 0; k < EACH; k++)
		x[k] = k < n ? p[k] : 0;
}

template <int V> static __device__ inline void store_each(float *p, const float x[EACH], uint32_t n)
{
	if (V == 4 && n >= EACH) {
		store<4>(p, pack<4>{{x[0], x[1], x[2], x[3]}});
		store<4>(p + 4, pack<4>{{x[4], x[5], x[6], x[7]}});
		return;
	}
	for (uint32_t k = 0; k < EACH && k < n; k++)
		p[k] = x[k];
}

/* The codes of a lane's elements: a word of as many bytes as bits of a code. */
template <uint32_t BITS> struct codes_word_of;
template <> struct codes_word_of<8> {
	typedef uint64_t type;
};
template <> struct codes_word_of<4> {
	typedef uint32_t type;
};
template <> struct codes_word_of<2> {
	typedef uint16_t type;
};
template <uint32_t BITS> using codes_word = typename codes_word_of<BITS>::type;
static_assert(EACH == 8, "codes_word_of is for eight elements");

/* Stores `bytes` of codes, with one instruction if aligned. */
template <typename T> static __device__ inline void store_codes(uint8_t *at, T codes, uint32_t bytes)
{
	if (bytes == sizeof codes && (uintptr_t)at % sizeof codes == 0) {
		*(T *)at = codes;
		return;
	}
	for (uint32_t i = 0; i < bytes; i++)
		at[i] = (uint8_t)(codes >> 8 * i);
}

template <typename T> static __device__ inline T load_codes(const uint8_t *at, uint32_t bytes)
{
	if (bytes == sizeof(T) && (uintptr_t)at % sizeof(T) == 0)
		return *(const T *)at;
	T codes = 0;
	for (uint32_t i = 0; i < bytes; i++)
		codes |= (T)at[i] << 8 * i;
	return codes;
}

/* --- Codecs with a scale, except sign */

static __device__ inline float scale_at(const uint8_t *at)
{
	return float_of((uint32_t) * (const uint16_t *)at << 16);
}

/* The scale for a block with this largest magnitude. */
template <weir_codec CODEC> static __device__ inline uint32_t scale_for(float most)
{
	switch (CODEC) {
	case WEIR_CODEC_FP8_E4M3:
		return scale_bits(most / fp8_e4m3().most, E4M3_SCALE_MOST);
	case WEIR_CODEC_FP8_E5M2:
		return scale_bits(most / fp8_e5m2().most, E5M2_SCALE_MOST);
	case WEIR_CODEC_INT4:
		return scale_bits(most, BF16_MOST);
	default:
		return scale_bits(most / (float)INT8_MOST, INT8_SCALE_MOST);
	}
}

/* The scale among the bits that a block has of one: all, or of int2 the large magnitude. */
template <weir_codec CODEC> static __device__ inline uint32_t scale_part(uint32_t bits)
{
	return CODEC == WEIR_CODEC_INT2 ? bits & ~INT2_RATIO : bits;
}

/* The code of acc in a block of this scale; *back is its value as a multiple of the scale. */
template <weir_codec CODEC>
static __device__ inline uint32_t code_of(const struct book *book, uint32_t bits, float acc, float inverse, float *back)
{
	uint32_t code;
	switch (CODEC) {
	case WEIR_CODEC_INT2:
		return int2_code(int2_magnitudes_of(bits), acc, back);
	case WEIR_CODEC_FP8_E4M3:
		return fp8_code(fp8_e4m3(), acc * inverse, back);
	case WEIR_CODEC_FP8_E5M2:
		return fp8_code(fp8_e5m2(), acc * inverse, back);
	case WEIR_CODEC_INT4:
		code = int4_code(book, acc * inverse);
		*back = book->value[code];
		return code;
	default:
		code = (uint32_t)int8_code(acc, inverse);
		*back = (float)(int32_t)code;
		return code & 0xffu;
	}
}

template <weir_codec CODEC> static __device__ inline float value_of(const struct book *book, uint32_t bits, uint32_t code)
{
	switch (CODEC) {
	case WEIR_CODEC_INT2:
		return int2_multiple(int2_magnitudes_of(bits), code);
	case WEIR_CODEC_FP8_E4M3:
		return fp8_value(fp8_e4m3(), code);
	case WEIR_CODEC_FP8_E5M2:
		return fp8_value(fp8_e5m2(), code);
	case WEIR_CODEC_INT4:
		return book->value[code];
	default:
		return (float)(int8_t)code;
	}
}

/* Puts the book in shared memory. All threads of a block take part. */
template <weir_codec CODEC> static __device__ inline void share_book(struct book *shared, const struct book &given)
{
	if (!traits<CODEC>::has_book)
		return;
	if (threadIdx.x == 0)
		*shared = given;
	__syncthreads();
}

static inline struct book book_given(const struct coding *coding)
{
	static const float none[CODEC_BOOK] = {0};
	return book_of(coding->book ? coding->book : none);
}

/* The sum, or the largest, of what `lanes` neighbouring lanes have; for all of them. */
static __device__ inline uint32_t sum_of_lanes(uint32_t x, uint32_t lanes)
{
	for (uint32_t step = lanes / 2; step > 0; step /= 2)
		x += __shfl_xor_sync(ALL_LANES, x, step, CUDA_LANES);
	return x;
}

static __device__ inline uint32_t most_of_lanes(uint32_t x, uint32_t lanes)
{
	for (uint32_t step = lanes / 2; step > 0; step /= 2)
		x = max(x, __shfl_xor_sync(ALL_LANES, x, step, CUDA_LANES));
	return x;
}

/* The sums of the elements that have at least so many steps. */
static __device__ inline uint32_t int2_sums_from(const uint32_t steps[EACH], uint32_t left, uint32_t least, uint32_t lanes)
{
	uint32_t sums = 0;
	for (uint32_t k = 0; k < EACH; k++)
		sums += k < left && steps[k] >= least ? steps[k] + INT2_ELEMENT : 0;
	return sum_of_lanes(sums, lanes);
}

/* int2's pair of magnitudes, as ../codecs/int2.c fits it. */
static __device__ inline uint32_t int2_pair_of_lanes(const float acc[EACH], uint32_t left, float most, uint32_t lanes)
{
	const struct scale scale = scale_of(scale_bits(most, BF16_MOST));
	uint32_t steps[EACH];
	for (uint32_t k = 0; k < EACH; k++)
		steps[k] = int2_steps(acc[k], scale.inverse);
	const uint32_t all = int2_sums_from(steps, left, 0, lanes);
	uint32_t large = int2_sums_from(steps, left, int2_mean(all), lanes);
	for (uint32_t round = 0; round < INT2_ROUNDS; round++)
		large = int2_sums_from(steps, left, int2_middle(all, large), lanes);
	return int2_pair(all, large, scale.value);
}

/* The scale of the elements of `lanes` neighbouring lanes, a power of 2, that share a scale. All
 * lanes of the warp take part. left: elements left in the tile; the others of acc are 0. */
template <weir_codec CODEC> static __device__ inline uint32_t scale_of_lanes(const float acc[EACH], uint32_t left, uint32_t lanes)
{
	uint32_t own = 0;
	for (uint32_t k = 0; k < EACH; k++)
		own = max(own, bits_of(acc[k]) & ABS_MASK);
	const float most = float_of(most_of_lanes(own, lanes));
	if constexpr (CODEC == WEIR_CODEC_INT2)
		return int2_pair_of_lanes(acc, left, most, lanes);
	else
		return scale_for<CODEC>(most);
}

/* Writes the codes of a lane's elements, which begin at `at` of their tile, and the scale if they
 * begin its block. acc becomes the error. left: elements left in the tile, at least 1. */
template <weir_codec CODEC>
static __device__ inline void put_each(float acc[EACH], uint32_t bits, uint32_t at, uint32_t left, const struct book *book,
                                       uint8_t *scales, uint8_t *codes)
{
	const struct scale scale = scale_of(scale_part<CODEC>(bits));
	if (at % form<CODEC>::block == 0)
		store_codes<uint16_t>(scales + at / form<CODEC>::block * SCALE_BYTES, (uint16_t)bits, SCALE_BYTES);
	uint64_t all = 0;
	for (uint32_t k = 0; k < EACH; k++) {
		float back;
		const uint32_t code = code_of<CODEC>(book, bits, acc[k], scale.inverse, &back);
		all |= (uint64_t)(k < left ? code : 0) << k * form<CODEC>::bits;
		acc[k] -= back * scale.value;
	}
	const uint32_t here = left < EACH ? left : EACH, bytes = (here * form<CODEC>::bits + 7) / 8;
	codes += at * form<CODEC>::bits / 8;
	store_codes(codes, (codes_word<form<CODEC>::bits>)all, bytes);
}

/* Reads a lane's elements, which begin at `at` of their tile. left: as in put_each. */
template <weir_codec CODEC>
static __device__ inline void get_each(float x[EACH], uint32_t at, uint32_t left, const struct book *book, const uint8_t *scales,
                                       const uint8_t *codes)
{
	const uint32_t here = left < EACH ? left : EACH, bytes = (here * form<CODEC>::bits + 7) / 8;
	const codes_word<form<CODEC>::bits> all =
	    load_codes<codes_word<form<CODEC>::bits>>(codes + at * form<CODEC>::bits / 8, bytes);
	const uint32_t bits = *(const uint16_t *)(scales + at / form<CODEC>::block * SCALE_BYTES);
	const float scale = float_of(scale_part<CODEC>(bits) << 16);
	for (uint32_t k = 0; k < EACH; k++)
		x[k] = value_of<CODEC>(book, bits, (uint32_t)(all >> k * form<CODEC>::bits) & ((1u << form<CODEC>::bits) - 1)) * scale;
}

#endif
