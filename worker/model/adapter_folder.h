/* Low-rank adapters (transformer.h) as Hugging Face's PEFT stores them: a folder with
 * adapter_config.json and adapter_model.safetensors.
 *
 * Tensors have the same names and shapes here and in PEFT. The reader refuses PEFT features that
 * are not supported and names the key of adapter_config.json that asks for them. */
#ifndef WEIR_ADAPTER_FOLDER_H
#define WEIR_ADAPTER_FOLDER_H

#include "common/web/json.h"
#include "worker/model/model_folder.h"
#include "worker/model/transformer.h"

/* Returns whether a path is an adapter folder: it contains an adapter_config.json. */
bool adapter_folder_is(const char *path);
/* Reads rank, alpha and the modules that have adapters. Leaves dropout unchanged: each training run
 * chooses its own. */
weir_status adapter_folder_read(const char *folder, struct lora_options *out, weir_error *err) WEIR_MUST_CHECK;
/* Makes an adapter_config.json. base: the location of the base model. layout: the adapters. Returns
 * NULL when out of memory. */
struct json *adapter_config_make(const char *base, enum transformer_family family, const struct lora_options *lora,
                                 const struct layout *layout);
/* Writes a folder of adapters alone. Of f, uses only path, replace, type, base and fingerprint. */
weir_status adapter_folder_write(const struct model_folder *f, enum transformer_family family, const struct lora_options *lora,
                                 const struct layout *layout, const float *weights, weir_error *err) WEIR_MUST_CHECK;

#endif
