/* What low-rank adapters may be of, as job files, PEFT's folders and models have it: the last part of a projection's name. */
#ifndef WEIR_LORA_TARGET_H
#define WEIR_LORA_TARGET_H

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

const char *lora_target_name(enum lora_target t);
/* Which has this name of `length` bytes; LORA_TARGETS_COUNT: none. */
enum lora_target lora_target_find(const char *name, size_t length);

#endif
