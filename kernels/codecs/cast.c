/* Codecs of single numbers: fp32; bf16, the upper half of an fp32, rounded to nearest even, NaN
 * stays NaN; fp16, IEEE binary16, where finite numbers beyond its range become its extremes, and
 * NaN and infinity stay. */
#include "kernels/codecs/code.h"
#include "kernels/codecs/minifloat.h"

/* acc of element i; the residual is written after its code is known. */
#define ACC(i) (feedback ? in[i] + residual[i] : in[i])

void ISA(fp32_encode)(const float *book, const float *restrict in, float *restrict residual, size_t n, uint8_t *restrict scales,
                      uint8_t *restrict codes)
{
	(void)book;
	(void)scales;
	wire_u32 *restrict bits = (wire_u32 *)codes;
	if (!residual) {
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
	if (residual)
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
	if (residual)
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
		out[i] = fp16_value(half[i]);
	}
}
