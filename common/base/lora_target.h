/* The projections that can have low-rank adapters, by the names that job files, PEFT folders and
 * models use: the last part of the projection's name. */
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
	X(c_proj) /* both GPT-2 projections of this name */
enum lora_target {
#define LORA_ENUM(name) LORA_##name,
	LORA_TARGETS(LORA_ENUM)
#undef LORA_ENUM
	    LORA_TARGETS_COUNT
};

/* The projections of a layer. X(NAME, the part after the layer's number in its tensors' names,
 * target) */
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
/* The module with this name of `length` bytes; LORA_MODULES_COUNT: no module. */
enum lora_module lora_module_find(const char *name, size_t length);

const char *lora_target_name(enum lora_target t);
/* The target with this name of `length` bytes; LORA_TARGETS_COUNT: no target. */
enum lora_target lora_target_find(const char *name, size_t length);

#endif
