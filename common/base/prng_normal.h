/* The arithmetic behind prng_normal_from (prng.h): the inverse of the normal distribution function
 * (Wichura 1988, AS 241 PPND7) in +, -, *, / and sqrt of doubles, whose bits IEEE 754 fixes. As
 * functions of one number without calls, so that a loop over many numbers becomes vectors. */
#ifndef WEIR_PRNG_NORMAL_H
#define WEIR_PRNG_NORMAL_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* u - 1/2, for u the 52 upper bits and a half, over 2^52: exact, symmetric, u never 0 or 1. */
static inline double prng_normal_offset(uint64_t bits)
{
	const uint64_t with_exponent = bits >> 12 | 0x4330000000000000ull; /* 2^52 + bits */
	double whole;
	memcpy(&whole, &with_exponent, sizeof whole);
	return (whole - 0x1p52 + 0.5) * 0x1p-52 - 0.5;
}

static inline bool prng_normal_is_middle(double q)
{
	return q >= -0.425 && q <= 0.425;
}

static inline double prng_normal_middle(double q)
{
	const double r = 0.180625 - q * q;
	const double up = ((59.109374720 * r + 159.29113202) * r + 50.434271938) * r + 3.3871327179;
	const double down = ((67.187563600 * r + 78.757757664) * r + 17.895169469) * r + 1.0;
	return q * up / down;
}

/* Natural logarithm of 0 < x < 1, accurate to about 1e-12: x = m * 2^e with m in [sqrt(1/2),
 * sqrt(2)), log m = 2 atanh((m-1)/(m+1)). */
static inline double prng_log_unit(double x)
{
	uint64_t bits;
	memcpy(&bits, &x, sizeof bits);
	int32_t exponent = (int32_t)(bits >> 52) - 1023;
	bits = (bits & 0xfffffffffffffull) | 0x3ff0000000000000ull;
	double m;
	memcpy(&m, &bits, sizeof m);
	const bool above = m > 1.4142135623730951;
	m = above ? m * 0.5 : m;
	exponent += above;
	const double s = (m - 1) / (m + 1), z = s * s;
	double series = 1.0 / 13;
	series = series * z + 1.0 / 11;
	series = series * z + 1.0 / 9;
	series = series * z + 1.0 / 7;
	series = series * z + 1.0 / 5;
	series = series * z + 1.0 / 3;
	series = series * z + 1.0;
	return 2 * s * series + (double)exponent * 0.6931471805599453;
}

/* The magnitude, for the distance of u from the nearer of 0 and 1. */
static inline double prng_normal_tail(double distance)
{
	const double root = sqrt(-prng_log_unit(distance)), near = root - 1.6, far = root - 5;
	const double up_near = ((0.17023821103 * near + 1.3067284816) * near + 2.7568153900) * near + 1.4234372777;
	const double down_near = (0.12021132975 * near + 0.73700164250) * near + 1.0;
	const double up_far = ((0.017337203997 * far + 0.42868294337) * far + 3.0812263860) * far + 6.6579051150;
	const double down_far = (0.012258202635 * far + 0.24197894225) * far + 1.0;
	return (root <= 5 ? up_near : up_far) / (root <= 5 ? down_near : down_far);
}

#endif
