/* exp, the logistic function and tanh in a form that compilers can vectorise: polynomials after
 * range reduction (Cody, Waite 1980). Relative error of exp below 2e-7 on [-87, 88]; beyond, it
 * saturates at the ends. NaN stays NaN. */
#ifndef WEIR_VECTOR_MATH_H
#define WEIR_VECTOR_MATH_H

#include <stdint.h>
#include <string.h>

static inline float math_exp(float x)
{
	/* 1.5 * 2^23: adding it rounds to an integer */
	const float low = -87.0f, high = 88.0f, round = 12582912.0f;
	x = x < low ? low : x;
	x = x > high ? high : x;
	float shifted = x * 1.44269504f + round, n = shifted - round;
	float r = x - n * 0.693359375f;
	r = r - n * -2.12194440e-4f;
	float p = 1.9875691500e-4f;
	p = p * r + 1.3981999507e-3f;
	p = p * r + 8.3334519073e-3f;
	p = p * r + 4.1665795894e-2f;
	p = p * r + 1.6666665459e-1f;
	p = p * r + 5.0000001201e-1f;
	p = p * r * r + r + 1;
	uint32_t bits, zero;
	memcpy(&bits, &shifted, sizeof bits);
	memcpy(&zero, &round, sizeof zero);
	uint32_t scale_bits = (bits - zero + 127) << 23; /* 2^n */
	float scale;
	memcpy(&scale, &scale_bits, sizeof scale);
	return p * scale;
}

static inline float math_sigmoid(float x)
{
	return 1 / (1 + math_exp(-x));
}

static inline float math_tanh(float x)
{
	float x2 = x * x;
	/* for x near 0, where 2 s - 1 would cancel */
	float near = x * (1 - x2 * (1.0f / 3 - x2 * (2.0f / 15 - x2 * (17.0f / 315))));
	float far = 2 * math_sigmoid(2 * x) - 1;
	return x2 < 0.01f ? near : far;
}

#endif
