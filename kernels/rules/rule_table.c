/* The function table of this variant. */
#include "kernels/codecs/code.h"
#include "kernels/rules/rule.h"

#define STRING_OF(x)  #x
#define NAME_OF(name) STRING_OF(name)

extern const struct vector_ops ISA(vector_ops);
const struct vector_ops ISA(vector_ops) = {
    .name = NAME_OF(WEIR_ISA),
    .rules =
        {
#define RULE_ROW(name, number, rule, slots) [WEIR_OPT_##name] = ISA(rule_##rule),
            WEIR_OPTIMIZER_MAP(RULE_ROW)
#undef RULE_ROW
        },
    .codecs =
        {
            [WEIR_CODEC_FP32] = {ISA(fp32_encode), ISA(fp32_decode)},
            [WEIR_CODEC_BF16] = {ISA(bf16_encode), ISA(bf16_decode)},
            [WEIR_CODEC_FP16] = {ISA(fp16_encode), ISA(fp16_decode)},
            [WEIR_CODEC_INT8] = {ISA(int8_encode), ISA(int8_decode)},
            [WEIR_CODEC_INT4] = {ISA(int4_encode), ISA(int4_decode)},
            [WEIR_CODEC_SIGN] = {ISA(sign_encode), ISA(sign_decode)},
            [WEIR_CODEC_FP8_E4M3] = {ISA(fp8_e4m3_encode), ISA(fp8_e4m3_decode)},
            [WEIR_CODEC_FP8_E5M2] = {ISA(fp8_e5m2_encode), ISA(fp8_e5m2_decode)},
        },
    .all_finite = ISA(all_finite),
    .all_below_16 = ISA(all_below_16),
    .all_below_8 = ISA(all_below_8),
    .sum_squares = ISA(sum_squares),

    .topk_accumulate = ISA(topk_accumulate),
    .topk_select = ISA(topk_select),
    .topk_candidates = ISA(topk_candidates),
};
