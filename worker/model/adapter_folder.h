/* Low-rank adapters (transformer.h) as Hugging Face's PEFT keeps them: a folder with adapter_config.json and adapter_model.safetensors, whose tensors have the names and
 * shapes that adapters have here. What of PEFT is not computed here is refused by the key of adapter_config.json that asks for it. */
#ifndef WEIR_ADAPTER_FOLDER_H
#define WEIR_ADAPTER_FOLDER_H

#include "common/web/json.h"
#include "worker/model/model_folder.h"
#include "worker/model/transformer.h"

/* Whether a path is one: it has an adapter_config.json. */
bool adapter_folder_is(const char *path);
/* rank, alpha, and the modules that adapters are of; dropout is for who trains to choose, and
 * stays as it is. */
weir_status adapter_folder_read(const char *folder, struct lora_options *out, weir_error *err) WEIR_MUST_CHECK;
/* An adapter_config.json. base: where the model is that they are of. layout: the adapters. NULL:
 * out of memory. */
struct json *adapter_config_make(const char *base, enum transformer_family family, const struct lora_options *lora,
                                 const struct layout *layout);
/* Adapters alone, as a folder; of f, base and type and path and replace count. */
weir_status adapter_folder_write(const struct model_folder *f, enum transformer_family family, const struct lora_options *lora,
                                 const struct layout *layout, const float *weights, weir_error *err) WEIR_MUST_CHECK;

#endif
