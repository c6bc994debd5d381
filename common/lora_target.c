#include "lora_target.h"

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
