#include "common/base/lora_target.h"

#include <string.h>

static const char *const names[] = {
#define LORA_NAME(name) #name,
    LORA_TARGETS(LORA_NAME)
#undef LORA_NAME
};

const char *lora_target_name(enum lora_target t)
{
	return names[t];
}

enum lora_target lora_target_find(const char *name, size_t length)
{
	enum lora_target t = 0;
	while (t < LORA_TARGETS_COUNT && (strlen(names[t]) != length || memcmp(names[t], name, length) != 0))
		t++;
	return t;
}

static const struct {
	const char *name;
	enum lora_target target;
} modules[] = {
#define LORA_MODULE(name, text, target) {text, LORA_##target},
    LORA_MODULES(LORA_MODULE)
#undef LORA_MODULE
};

const char *lora_module_name(enum lora_module m)
{
	return modules[m].name;
}

enum lora_target lora_module_target(enum lora_module m)
{
	return modules[m].target;
}

bool lora_module_is_gpt2(enum lora_module m)
{
	return m >= MODULE_GPT2_QKV;
}

enum lora_module lora_module_find(const char *name, size_t length)
{
	enum lora_module m = 0;
	while (m < LORA_MODULES_COUNT && (strlen(modules[m].name) != length || memcmp(modules[m].name, name, length) != 0))
		m++;
	return m;
}
