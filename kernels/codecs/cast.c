/* A number each: fp32; bf16, the upper half of an fp32, rounded to nearest even, NaN kept a NaN; fp16, IEEE binary16, finite numbers beyond its range at its
 * ends, NaN and infinity kept. */
#include "minifloat.h"

#define QUIET_BIT     0x40u /* of a bf16: a NaN whose payload is cut off stays a NaN */
#define FP16_MANTISSA 10
#define FP16_LOW      (-14)
#define FP16_MOST     0x477fe000 /* 65504, as the bits of a float */
#define FP16_INFINITY 0x7c00u
#define FP16_QUIET    0x200u

/* acc of element i; the residual is written when its code is known. */
#define ACC(i) (feedback ? in[i] + residual[i] : in[i])

void ISA(fp32_encode)(const float *book, const float *restrict in, float *restrict residual, size_t n, uint8_t *restrict scales,
                      uint8_t *restrict codes)
{
	(void)book;
	(void)scales;
	wire_u32 *restrict bits = (wire_u32 *)codes;
	if (residual == NULL) {
		memcpy(codes, in, n * sizeof *in);
		return;
	}
	for (size_t i = 0; i < n; i++) {
		bits[i] = bits_of(in[i] + residual[i]);
		residual[i] = 0;
	}
}

void ISA(fp32_decode)(const float *book, const uint8_t *restrict scales, const uint8_t *restrict codes, size_t n,
                      float *restrict out)
{
	(void)book;
	(void)scales;
	memcpy(out, codes, n * sizeof *out);
}

ALWAYS_INLINE uint32_t bf16_of(uint32_t b)
{
	uint32_t rounded = (b + 0x7fffu + ((b >> 16) & 1u)) >> 16;
	uint32_t nan = (b >> 16) | QUIET_BIT;
	return choose((b & ABS_MASK) > INFINITY_BITS, nan, rounded);
}

ALWAYS_INLINE void bf16_run(const float *restrict in, float *restrict residual, size_t n, bool feedback, wire_u16 *restrict half)
{
	for (size_t i = 0; i < n; i++) {
		float acc = ACC(i);
		uint32_t code = bf16_of(bits_of(acc));
		half[i] = (uint16_t)code;
		if (feedback)
			residual[i] = acc - float_of(code << 16);
	}
}

void ISA(bf16_encode)(const float *book, const float *restrict in, float *restrict residual, size_t n, uint8_t *restrict scales,
                      uint8_t *restrict codes)
{
	(void)book;
	(void)scales;
	if (residual != NULL)
		bf16_run(in, residual, n, true, (wire_u16 *)codes);
	else
		bf16_run(in, NULL, n, false, (wire_u16 *)codes);
}

void ISA(bf16_decode)(const float *book, const uint8_t *restrict scales, const uint8_t *restrict codes, size_t n,
                      float *restrict out)
{
	(void)book;
	(void)scales;
	const wire_u16 *restrict half = (const wire_u16 *)codes;
	wire_u32 *restrict bits = (wire_u32 *)out;
	for (size_t i = 0; i < n; i++)
		bits[i] = (uint32_t)half[i] << 16;
}

ALWAYS_INLINE uint32_t fp16_of(float x, float *back)
{
	uint32_t sign = bits_of(x) & SIGN_MASK, abs = bits_of(x) & ABS_MASK;
	float rounded;
	uint32_t finite = minifloat_encode(float_of((uint32_t)least_of((int32_t)abs, FP16_MOST)), FP16_MANTISSA, FP16_LOW, &rounded);
	uint32_t nan = choose(abs > INFINITY_BITS, FP16_QUIET | ((abs >> 13) & 0x3ffu), 0);
	*back = float_of(sign | choose(abs >= INFINITY_BITS, abs, bits_of(rounded)));
	return sign >> 16 | choose(abs >= INFINITY_BITS, FP16_INFINITY | nan, finite);
}

ALWAYS_INLINE void fp16_run(const float *restrict in, float *restrict residual, size_t n, bool feedback, wire_u16 *restrict half)
{
	for (size_t i = 0; i < n; i++) {
		float acc = ACC(i), back;
		half[i] = (uint16_t)fp16_of(acc, &back);
		if (feedback)
			residual[i] = acc - back;
	}
}

void ISA(fp16_encode)(const float *book, const float *restrict in, float *restrict residual, size_t n, uint8_t *restrict scales,
                      uint8_t *restrict codes)
{
	(void)book;
	(void)scales;
	if (residual != NULL)
		fp16_run(in, residual, n, true, (wire_u16 *)codes);
	else
		fp16_run(in, NULL, n, false, (wire_u16 *)codes);
}

void ISA(fp16_decode)(const float *book, const uint8_t *restrict scales, const uint8_t *restrict codes, size_t n,
                      float *restrict out)
{
	(void)book;
	(void)scales;
	const wire_u16 *restrict half = (const wire_u16 *)codes;
	for (size_t i = 0; i < n; i++) {
		uint32_t code = half[i];
		float magnitude = minifloat_decode(code & 0x7fffu, FP16_MANTISSA, FP16_LOW, FP16_INFINITY);
		out[i] = float_of(bits_of(magnitude) | (code & 0x8000u) << 16);
	}
}
