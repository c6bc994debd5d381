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
#define RULE_ROW(name, number, rule, slots, traits) [WEIR_OPT_##name] = ISA(rule_##rule),
            WEIR_OPTIMIZER_MAP(RULE_ROW)
#undef RULE_ROW
        },
    .codecs =
        {
#define CODEC_ROW(id, name, bits, block, scale_most, special) [WEIR_CODEC_##id] = {ISA(name##_encode), ISA(name##_decode)},
            CODEC_FORM_MAP(CODEC_ROW)
#undef CODEC_ROW
        },
    .all_finite = ISA(all_finite),
    .all_below_16 = ISA(all_below_16),
    .all_below_8 = ISA(all_below_8),
    .sum_squares = ISA(sum_squares),
    .mix = ISA(mix),
    .normals = ISA(normals),

    .topk_accumulate = ISA(topk_accumulate),
    .topk_select = ISA(topk_select),
    .topk_candidates = ISA(topk_candidates),
};
