/* The values of the elements that top-k selected (topk.h): tens to hundreds at a time, so a plain
 * loop serves every processor. */
#include <assert.h>
#include <string.h>

#include "kernels/bits.h"
#include "kernels/topk_record.h"
#include "kernels/vector.h"

#define MIN_BITS 0x00800000u /* FLT_MIN */

static float get_float(const uint8_t *in)
{
	float x;
	memcpy(&x, in, sizeof x);
	return x;
}

/* The extreme magnitudes: the bits of finite numbers have the same order. */
static void extremes(const float *x, size_t count, float *least, float *most)
{
	uint32_t low = UINT32_MAX, high = 0;
	for (size_t i = 0; i < count; i++) {
		const uint32_t magnitude = bits_of(x[i]) & ABS_MASK;
		low = magnitude < low ? magnitude : low;
		high = magnitude > high ? magnitude : high;
	}
	*least = float_of(low);
	*most = float_of(high);
}

/* --- fp32 */

static void fp32_encode(const float *restrict x, size_t count, uint8_t *restrict out)
{
	memcpy(out, x, count * sizeof *x);
}

static void fp32_decode(const uint8_t *restrict in, size_t count, float *restrict out)
{
	memcpy(out, in, count * sizeof *out);
}

static bool fp32_check(const uint8_t *in, size_t count)
{
	(void)in;
	(void)count;
	return true;
}

static bool fp32_is_finite(const uint8_t *in, size_t count)
{
	uint32_t found = 0;
	for (size_t i = 0; i < count; i++)
		found |= (((const wire_u32 *)in)[i] & ABS_MASK) >= INFINITY_BITS;
	return found == 0;
}

/* --- bf16 */

static void bf16_encode(const float *restrict x, size_t count, uint8_t *restrict out)
{
	wire_u16 *half = (wire_u16 *)out;
	for (size_t i = 0; i < count; i++)
		half[i] = (uint16_t)topk_bf16(x[i]);
}

static void bf16_decode(const uint8_t *restrict in, size_t count, float *restrict out)
{
	const wire_u16 *half = (const wire_u16 *)in;
	for (size_t i = 0; i < count; i++)
		out[i] = float_of((uint32_t)half[i] << 16);
}

static bool bf16_check(const uint8_t *in, size_t count)
{
	(void)in;
	(void)count;
	return true;
}

static bool bf16_is_finite(const uint8_t *in, size_t count)
{
	uint32_t found = 0;
	for (size_t i = 0; i < count; i++)
		found |= (((const wire_u16 *)in)[i] & (ABS_MASK >> 16)) >= INFINITY_BITS >> 16;
	return found == 0;
}

/* --- int8 */

static void int8_encode(const float *restrict x, size_t count, uint8_t *restrict out)
{
	float least, most;
	extremes(x, count, &least, &most);
	const float scale = topk_int8_scale(most);
	const float inverse = scale > 0 ? 1 / scale : 0;
	memcpy(out, &scale, sizeof scale);
	out += sizeof scale;
	for (size_t i = 0; i < count; i++)
		out[i] = (uint8_t)topk_int8_code(x[i], inverse);
}

static void int8_decode(const uint8_t *restrict in, size_t count, float *restrict out)
{
	const float scale = get_float(in);
	for (size_t i = 0; i < count; i++)
		out[i] = (float)(int8_t)in[4 + i] * scale;
}

static bool int8_check(const uint8_t *in, size_t count)
{
	const uint32_t scale = bits_of(get_float(in));
	int wrong = (scale != 0 && scale < MIN_BITS) || scale > ABS_MASK;
	for (size_t i = 0; i < count; i++)
		wrong |= (int8_t)in[4 + i] < -TOPK_INT8_MOST || (scale == 0 && in[4 + i] != 0);
	return !wrong;
}

static bool int8_is_finite(const uint8_t *in, size_t count)
{
	(void)count;
	return get_float(in) * TOPK_INT8_MOST <= FLT_MAX;
}

/* --- log4 */

static void log4_encode(const float *restrict x, size_t count, uint8_t *restrict out)
{
	uint8_t code[TOPK_TILE_COUNT_MAX + 1];
	float level[TOPK_LEVELS], middle[TOPK_LEVELS - 1], extreme[2];
	extremes(x, count, &extreme[0], &extreme[1]);
	topk_levels(extreme[0], extreme[1], level);
	topk_middles(level, middle);
	for (size_t i = 0; i < count; i++)
		code[i] = (uint8_t)topk_log4_code(x[i], middle);
	code[count] = 0;
	memcpy(out, extreme, sizeof extreme);
	out += sizeof extreme;
	for (size_t i = 0; i < count; i += 2)
		out[i / 2] = (uint8_t)(code[i] | code[i + 1] << 4);
}

static void log4_decode(const uint8_t *restrict in, size_t count, float *restrict out)
{
	float book[2 * TOPK_LEVELS];
	topk_levels(get_float(in), get_float(in + 4), book);
	for (unsigned j = 0; j < TOPK_LEVELS; j++)
		book[TOPK_LOG4_SIGN + j] = -book[j];
	in += 8;
	for (size_t i = 0; i < count; i++)
		out[i] = book[in[i / 2] >> i % 2 * 4 & 15];
}

/* Accepts NaN and infinity: these count as not finite, not as corrupt. */
static bool log4_check(const uint8_t *in, size_t count)
{
	const uint32_t least = bits_of(get_float(in)), most = bits_of(get_float(in + 4));
	return least > 0 && least <= most && most <= ABS_MASK && (count % 2 == 0 || in[8 + count / 2] >> 4 == 0);
}

/* No level is above `most`. */
static bool log4_is_finite(const uint8_t *in, size_t count)
{
	(void)count;
	return get_float(in + 4) <= FLT_MAX;
}

/* --- int2: the codec of this name, with padding behind the pairs of magnitudes */

static size_t int2_pairs(size_t count)
{
	return (count + CODEC_INT2_BLOCK - 1) / CODEC_INT2_BLOCK;
}

static void int2_encode(const float *x, size_t count, uint8_t *out)
{
	const uint32_t head = topk_head_bytes((uint32_t)count, WEIR_VALUES_INT2);
	memset(out, 0, head);
	vector_ops_best()->codecs[WEIR_CODEC_INT2].encode(NULL, x, NULL, count, out, out + head);
}

static void int2_decode(const uint8_t *in, size_t count, float *out)
{
	const uint32_t head = topk_head_bytes((uint32_t)count, WEIR_VALUES_INT2);
	vector_ops_best()->codecs[WEIR_CODEC_INT2].decode(NULL, in, in + head, count, out);
}

/* Accepts NaN and infinity, as log4_check does. */
static bool int2_check(const uint8_t *in, size_t count)
{
	const uint32_t head = topk_head_bytes((uint32_t)count, WEIR_VALUES_INT2);
	const wire_u16 *pair = (const wire_u16 *)in;
	const size_t pairs = int2_pairs(count);
	int wrong = pairs % 2 != 0 && pair[pairs] != 0;
	for (size_t i = 0; i < pairs; i++)
		wrong |= pair[i] > ABS_MASK >> 16 || (pair[i] != 0 && pair[i] < SCALE_LEAST);
	return !wrong && (count % 4 == 0 || in[head + count / 4] >> count % 4 * 2 == 0);
}

static bool int2_is_finite(const uint8_t *in, size_t count)
{
	return vector_ops_best()->all_below_16(in, int2_pairs(count), BF16_MOST + 1);
}

/* --- All */

struct values_ops {
	void (*encode)(const float *x, size_t count, uint8_t *out);
	void (*decode)(const uint8_t *in, size_t count, float *out);
	bool (*check)(const uint8_t *in, size_t count); /* the codes; numbers may be NaN or infinite */
	bool (*is_finite)(const uint8_t *in, size_t count);
};

static const struct values_ops ops_of[WEIR_VALUES] = {
#define VALUES_ROW(id, name, bits, head) [WEIR_VALUES_##id] = {name##_encode, name##_decode, name##_check, name##_is_finite},
    TOPK_VALUES_MAP(VALUES_ROW)
#undef VALUES_ROW
};

void topk_values_encode(weir_values values, const float *x, size_t count, uint8_t *out)
{
	assert(count > 0 && count <= TOPK_TILE_COUNT_MAX);
	for (uint32_t end = topk_value_bytes((uint32_t)count, values); end % 4 != 0; end++)
		out[end] = 0;
	ops_of[values].encode(x, count, out);
}

void topk_values_decode(weir_values values, const uint8_t *in, size_t count, float *out)
{
	ops_of[values].decode(in, count, out);
}

bool topk_values_check(weir_values values, const uint8_t *in, size_t count)
{
	for (uint32_t end = topk_value_bytes((uint32_t)count, values); end % 4 != 0; end++)
		if (in[end] != 0)
			return false;
	return ops_of[values].check(in, count);
}

bool topk_values_are_finite(weir_values values, const uint8_t *in, size_t count)
{
	return ops_of[values].is_finite(in, count);
}
