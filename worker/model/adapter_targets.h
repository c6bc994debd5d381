/* Which projections an adapter_config.json chooses: of target_modules, exclude_modules,
 * layers_to_transform and layers_pattern what PEFT makes of them. */
#ifndef WEIR_ADAPTER_TARGETS_H
#define WEIR_ADAPTER_TARGETS_H

#include "common/web/json.h"
#include "worker/model/transformer.h"

/* Sets out's targets and modules. root: of the file at path. E_UNSUPPORTED and E_INVALID name
 * the key. */
weir_status adapter_targets_read(const char *path, const struct json_value *root, enum transformer_family family,
                                 struct lora_options *out, weir_error *err) WEIR_MUST_CHECK;
/* Whether both choose the same. */
bool adapter_targets_same(const struct lora_options *a, const struct lora_options *b, uint32_t layers);

#endif
