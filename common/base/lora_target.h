/* What low-rank adapters may be of, as job files, PEFT's folders and models have it: the last part of a projection's name. */
#ifndef WEIR_LORA_TARGET_H
#define WEIR_LORA_TARGET_H

#include <stdbool.h>
#include <stddef.h>

/* X(name) */
#define LORA_TARGETS(X) \
	X(q_proj)           \
	X(k_proj)           \
	X(v_proj)           \
	X(o_proj)           \
	X(gate_proj)        \
	X(up_proj)          \
	X(down_proj)        \
	X(c_attn)           \
	X(c_fc)             \
	X(c_proj) /* both of GPT-2's of that name */
enum lora_target {
#define LORA_ENUM(name) LORA_##name,
	LORA_TARGETS(LORA_ENUM)
#undef LORA_ENUM
	    LORA_TARGETS_COUNT
};

/* The projections of a layer. X(NAME, what follows the layer's number in the names of its
 * tensors, target) */
#define LORA_MODULES(X)                   \
	X(QUERY, "self_attn.q_proj", q_proj)  \
	X(KEY, "self_attn.k_proj", k_proj)    \
	X(VALUE, "self_attn.v_proj", v_proj)  \
	X(OUTPUT, "self_attn.o_proj", o_proj) \
	X(GATE, "mlp.gate_proj", gate_proj)   \
	X(UP, "mlp.up_proj", up_proj)         \
	X(DOWN, "mlp.down_proj", down_proj)   \
	X(GPT2_QKV, "attn.c_attn", c_attn)    \
	X(GPT2_OUTPUT, "attn.c_proj", c_proj) \
	X(GPT2_UP, "mlp.c_fc", c_fc)          \
	X(GPT2_DOWN, "mlp.c_proj", c_proj)
enum lora_module {
#define LORA_ENUM(name, text, target) MODULE_##name,
	LORA_MODULES(LORA_ENUM)
#undef LORA_ENUM
	    LORA_MODULES_COUNT
};

const char *lora_module_name(enum lora_module m);
enum lora_target lora_module_target(enum lora_module m);
bool lora_module_is_gpt2(enum lora_module m);
/* Which has this name of `length` bytes; LORA_MODULES_COUNT: none. */
enum lora_module lora_module_find(const char *name, size_t length);

const char *lora_target_name(enum lora_target t);
/* Which has this name of `length` bytes; LORA_TARGETS_COUNT: none. */
enum lora_target lora_target_find(const char *name, size_t length);

#endif
