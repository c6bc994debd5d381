/* The ops of one variant. Included by the files that are compiled once per instruction set. */
#ifndef WEIR_OPS_H
#define WEIR_OPS_H

#include "kernels/cpu/cpu.h"
#include "kernels/rules/rule.h"

#define CPU_VARIANT_OPS(X)      \
	X(bias_act)                 \
	X(bias_act_backward)        \
	X(fill)                     \
	X(axpy)                     \
	X(scale)                    \
	X(lerp)                     \
	X(subtract)                 \
	X(concat)                   \
	X(split)                    \
	X(sum_squares)              \
	X(clip)                     \
	X(all_finite)               \
	X(zero_not_finite)          \
	X(scale_by)                 \
	X(unscale)                  \
	X(gather_pool)              \
	X(scatter_sum)              \
	X(gather_max)               \
	X(scatter_chosen)           \
	X(copy_rows)                \
	X(fm)                       \
	X(fm_backward)              \
	X(row_sum)                  \
	X(cross)                    \
	X(cross_backward)           \
	X(dot_interaction)          \
	X(dot_interaction_backward) \
	X(row_dots)                 \
	X(pair_features)            \
	X(pair_features_backward)   \
	X(softmax)                  \
	X(softmax_backward)         \
	X(batch_norm)               \
	X(batch_norm_backward)      \
	X(dropout)                  \
	X(click_loss)               \
	X(cross_entropy)            \
	X(in_batch)                 \
	X(sigmoid)                  \
	X(cast_bf16)                \
	X(cast_fp32)                \
	X(update)                   \
	X(copy)                     \
	X(add)                      \
	X(column_sum)               \
	X(layer_norm)               \
	X(layer_norm_backward)      \
	X(rms_norm)                 \
	X(rms_norm_backward)        \
	X(rope)                     \
	X(attention)                \
	X(attention_backward)       \
	X(swiglu)                   \
	X(swiglu_backward)          \
	X(gelu)                     \
	X(embed)                    \
	X(embed_backward)           \
	X(classifier)

/* Each has the type that backend_ops gives it. */
#define CPU_DECLARE(op) __typeof__(*((struct backend_ops *)0)->op) ISA(cpu_##op);
CPU_VARIANT_OPS(CPU_DECLARE)
#undef CPU_DECLARE

void ISA(cpu_own_gemm)(const struct gemm_args *g, void *scratch);

/* Precedes a loop whose output may be its input, element for element: tells the compiler that this
 * aliasing is harmless. */
#if defined(__clang__)
#define IN_PLACE_LOOP _Pragma("clang loop vectorize(assume_safety)")
#else
#define IN_PLACE_LOOP _Pragma("GCC ivdep")
#endif

/* Floats of one register, at any float address. Values that must stay in registers use this type:
 * compilers keep the parts of wider vectors in memory. */
#if defined(__AVX512F__)
enum { REGISTER_LANES = 16 };
#elif defined(__AVX2__)
enum { REGISTER_LANES = 8 };
#else
enum { REGISTER_LANES = 4 };
#endif
typedef float vregister __attribute__((vector_size(REGISTER_LANES * sizeof(float)), aligned(4), may_alias));

static inline size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* Adds the lanes of a vector pairwise, as lanes_sum does. */
static inline float vf16_sum(const vf16 *v)
{
	float s[16];
	VF16_PUT(s, *v);
	for (int half = 8; half > 0; half /= 2)
		for (int i = 0; i < half; i++)
			s[i] += s[i + half];
	return s[0];
}

#endif
