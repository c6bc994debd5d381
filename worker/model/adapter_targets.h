/* Finds the projections that an adapter_config.json chooses. Interprets target_modules,
 * exclude_modules, layers_to_transform and layers_pattern as PEFT does. */
#ifndef WEIR_ADAPTER_TARGETS_H
#define WEIR_ADAPTER_TARGETS_H

#include "common/web/json.h"
#include "worker/model/transformer.h"

/* Sets out's targets and modules. root: the root of the file at path. E_UNSUPPORTED and E_INVALID
 * name the key. */
weir_status adapter_targets_read(const char *path, const struct json_value *root, enum transformer_family family,
                                 struct lora_options *out, weir_error *err) WEIR_MUST_CHECK;
/* Returns whether both choose the same modules. */
bool adapter_targets_same(const struct lora_options *a, const struct lora_options *b, uint32_t layers);

#endif
