/* The bytes of the codecs of fixed size: one row of a table for each.
 *
 * Bytes of a tile (codec.h) of n elements, little-endian, without padding, at any alignment
 *   fp32      n x f32
 *   bf16      n x u16: the upper half of an fp32, rounded to nearest even
 *   fp16      n x u16: IEEE binary16, rounded to nearest even; finite numbers beyond 65504
 *             saturate, NaN and infinity stay
 *   int8      one scale for each 256 elements (u16, a bf16) | n x i8.
 *             x = code * scale, codes -127 to 127
 *   fp8_e4m3  the same | n x u8: OCP 8-bit floating point, saturating. x = code * scale
 *   fp8_e5m2  the same
 *   int4      one scale for each 64 elements | (n + 1) / 2 bytes: element 2 i in the low half of
 *             byte i, 2 i + 1 in the high half. x = book[code] * scale; the book has 16 values,
 *             rising, from -1 to 1, one of them 0
 *   int2      one pair of magnitudes for each 64 elements (u16: the upper 12 bits are those of the
 *             large one as a bf16, the lower 4 are r) | (n + 3) / 4 bytes: element i in bits
 *             2 (i % 4) of byte i / 4: bit 0 is set for the large magnitude, bit 1 for x < 0.
 *             The small magnitude is the large one times r / 16
 *   sign      one scale for each 1024 elements | (n + 7) / 8 bytes: bit i % 8 of byte i / 8 is set
 *             if x < 0. x = scale or -scale
 *
 * A scale is the largest magnitude of its block divided by the largest code (int8: 127, e4m3: 448,
 * e5m2: 57344, int4: 1); for sign it is the mean magnitude. It is rounded up to a bf16, so that no
 * code leaves its range. If that is 0 or subnormal, the scale is 0 and the block decodes as zeros.
 * If a code times the scale could be infinite, the scale is the largest without such a code
 * (scale.h), and codes saturate. The code is that of the value nearest to x / scale, computed as
 * x * (1 / scale) in fp32, ties to even. With a book, the code is the number of the 15 middles
 * between neighbours, (book[i] + book[i + 1]) * 0.5 in fp32, below that quotient. Unused bits of
 * the last byte are 0.
 *
 * int2's pair makes the squared error small (Lloyd 1982): the elements that reach a threshold have
 * the mean of their magnitudes as the large one, the others theirs as the small one. The threshold
 * is the mean of all magnitudes at first, and then the middle of both means, INT2_ROUNDS times. The
 * fit works on magnitudes in 1024ths of the largest, itself rounded up to a bf16; thresholds are
 * rounded up. The large mean is then rounded to its 12 bits (ties away from 0), and r to the
 * nearest from 0 to 15. The code is that of the nearer magnitude: large if |x| * (1 / large) is
 * above (1 + r / 16) / 2.
 *
 * All instruction sets and GPUs give equal bits: element-wise fp32 operations without contraction;
 * sums of magnitudes in CODEC_SIGN_LANES lanes (element i in lane i % lanes, added in order; lanes
 * then added pairwise, i with i + half). */
#ifndef WEIR_FORM_H
#define WEIR_FORM_H

#include "kernels/codecs/scale.h"

#define CODEC_INT8_BLOCK 256u /* elements of a scale, also for fp8 */
#define CODEC_INT4_BLOCK 64u
#define CODEC_INT2_BLOCK 64u
#define CODEC_SIGN_BLOCK 1024u
#define CODEC_SIGN_LANES 32u

/* X(NAME, name of its functions, bits of a code, elements of a scale, largest scale without
 * infinite numbers, first code, without its sign, that is not a finite number; 0: all are finite) */
#define CODEC_FORM_MAP(X)                                             \
	X(FP32, fp32, 32, 0, 0, 0)                                        \
	X(BF16, bf16, 16, 0, 0, 0x7f80)                                   \
	X(FP16, fp16, 16, 0, 0, 0x7c00)                                   \
	X(INT8, int8, 8, CODEC_INT8_BLOCK, INT8_SCALE_MOST, 0)            \
	X(FP8_E4M3, fp8_e4m3, 8, CODEC_INT8_BLOCK, E4M3_SCALE_MOST, 0x7f) \
	X(FP8_E5M2, fp8_e5m2, 8, CODEC_INT8_BLOCK, E5M2_SCALE_MOST, 0x7c) \
	X(INT4, int4, 4, CODEC_INT4_BLOCK, BF16_MOST, 0)                  \
	X(INT2, int2, 2, CODEC_INT2_BLOCK, BF16_MOST, 0)                  \
	X(SIGN, sign, 1, CODEC_SIGN_BLOCK, BF16_MOST, 0)

#endif
