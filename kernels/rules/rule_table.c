/* This variant's function table. */
#include "rule.h"

#define STRING_OF(x)  #x
#define NAME_OF(name) STRING_OF(name)

extern const struct vector_ops ISA(vector_ops);
const struct vector_ops ISA(vector_ops) = {
    .name = NAME_OF(WEIR_ISA),
    .rules =
        {
            [WEIR_OPT_SGD] = ISA(rule_sgd),
            [WEIR_OPT_MOMENTUM] = ISA(rule_momentum),
            [WEIR_OPT_NESTEROV] = ISA(rule_nesterov),
            [WEIR_OPT_ADAGRAD] = ISA(rule_adagrad),
            [WEIR_OPT_ROW_ADAGRAD] = ISA(rule_row_adagrad),
            [WEIR_OPT_ADAM] = ISA(rule_adam),
            [WEIR_OPT_ADAMW] = ISA(rule_adamw),
            [WEIR_OPT_LAMB] = ISA(rule_lamb),
            [WEIR_OPT_FTRL] = ISA(rule_ftrl),
            [WEIR_OPT_DELAYED_NESTEROV] = ISA(rule_delayed_nesterov),
            [WEIR_OPT_AVERAGE] = ISA(rule_average),
        },
    .bf16_encode = ISA(bf16_encode),
    .bf16_decode = ISA(bf16_decode),
    .all_finite = ISA(all_finite),
};
