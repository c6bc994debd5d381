/* Vector kernels: one source, compiled once per instruction set with WEIR_ISA = base | avx2 |
 * avx512, and collected in a function table that the CPU's features select. Private to kernels/ and
 * its tests.
 *
 * Rules and codecs use only operations that IEEE 754 defines exactly (+ - * / sqrt, integer),
 * element by element or in a fixed number of lanes, without contraction. Every variant therefore
 * gives the same bits, which keeps replicas on different machines equal. */
#ifndef WEIR_VECTOR_H
#define WEIR_VECTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/codec.h"
#include "kernels/optimizer.h"

#define ISA_PASTE(name, isa)  name##_##isa
#define ISA_EXPAND(name, isa) ISA_PASTE(name, isa)
#define ISA(name)             ISA_EXPAND(name, WEIR_ISA) /* adam -> adam_avx2 */

/* fp32 numbers in a message, at any alignment. */
typedef float wire_float __attribute__((aligned(1), may_alias));

/* value, slot0, slot1, grad: n elements each. Slots that a rule does not have are not touched (and
 * may be NULL). */
typedef void (*rule_fn)(const struct optimizer_step *s, float *value, float *slot0, float *slot1, const wire_float *grad,
                        size_t n);

/* Blocks of a codec, without regard to tiles: n elements, their scales (a bf16 per block; NULL if
 * the codec has none) and codes at any alignment. book: (CODEC_BOOK), or NULL. residual: as
 * in codec_encode. */
struct codec_ops {
	void (*encode)(const float *book, const float *in, float *residual, size_t n, uint8_t *scales, uint8_t *codes);
	void (*decode)(const float *book, const uint8_t *scales, const uint8_t *codes, size_t n, float *out);
};

struct vector_ops {
	const char *name; /* "avx2" */
	rule_fn rules[WEIR_OPTIMIZERS];
	struct codec_ops codecs[WEIR_CODECS]; /* of codecs/form.h */
	bool (*all_finite)(const float *in, size_t n);
	/* Whether all n numbers, of any sign and at any alignment, are below a limit in magnitude. */
	bool (*all_below_16)(const uint8_t *in, size_t n, uint16_t limit);
	bool (*all_below_8)(const uint8_t *in, size_t n, uint8_t limit);
	double (*sum_squares)(const float *x, size_t n);
	/* bits[i] = prng_mix(seed, first + i, kind) */
	void (*mix)(uint64_t seed, uint64_t first, uint64_t kind, uint64_t *bits, size_t n);
	/* out[i] = a * prng_normal_from(bits[i]) */
	void (*normals)(const uint64_t *bits, float a, float *out, size_t n);

	/* Top-k (topk.h). velocity may be NULL; otherwise velocity = factor velocity + grad, and the
	 * residual takes the velocity. */
	void (*topk_accumulate)(const float *grad, float *residual, float *velocity, float factor, size_t n);
	/* The same, unless grad is NULL. Then writes the offsets of the elements that reach the
	 * threshold: the first TOPK_TILE_COUNT_MAX of them, and up to TOPK_SLACK numbers beyond.
	 * Returns how many elements reach it. */
	size_t (*topk_select)(const float *grad, float *residual, float *velocity, float factor, size_t n, float threshold,
	                      uint16_t *offsets);
	/* The magnitudes, as bits, that are not below `least`. out: room for all of them and
	 * TOPK_SLACK. */
	size_t (*topk_candidates)(const float *x, size_t n, uint32_t least, uint32_t *out);
};

/* The best table for this CPU. */
const struct vector_ops *vector_ops_best(void);
/* The i-th table that this CPU can run, slowest first; NULL when there are no more. For tests and
 * benchmarks. */
const struct vector_ops *vector_ops_variant(unsigned i);

/* The functions of topk.h with a given table. */
struct topk_momentum;
size_t topk_encode_with(const struct vector_ops *ops, const float *grad, float *residual, const struct topk_momentum *momentum,
                        size_t n, float threshold, weir_values values, uint8_t *out, uint32_t *selected);
weir_status topk_threshold_with(const struct vector_ops *ops, const float *x, size_t n, size_t k, float *out, weir_error *err);

/* optimizer_create with a given table instead of the best. */
struct optimizer *optimizer_create_with(const struct vector_ops *ops, const weir_optimizer *spec, weir_error *err);

/* codec_encode, codec_decode and codec_is_finite with a given table. */
void codec_encode_with(const struct vector_ops *ops, const struct coding *c, const float *in, float *residual, size_t n,
                       uint8_t *out);
void codec_decode_with(const struct vector_ops *ops, const struct coding *c, const uint8_t *in, size_t n, float *out);
bool codec_is_finite_with(const struct vector_ops *ops, const struct coding *c, const uint8_t *in, size_t n);

#endif
