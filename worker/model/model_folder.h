/* A model as Hugging Face keeps it: a folder with config.json (transformer_config.h) and model.safetensors, or its index and its files. */
#ifndef WEIR_MODEL_FOLDER_H
#define WEIR_MODEL_FOLDER_H

#include "layout.h"
#include "transformer_config.h"

/* Whether a path is one: it has a config.json. */
bool model_folder_is(const char *path);
weir_status model_folder_config(const char *folder, struct transformer_config *out, weir_error *err) WEIR_MUST_CHECK;
/* The folder's weights, read tensor by tensor as fp32. GPT-2's may lack "transformer." before their names, as those first published do. E_NOT_FOUND names a tensor
 * that is missing, E_INVALID one of another shape, E_UNSUPPORTED one that the model does not have. */
struct model_weights;
weir_status model_folder_open(struct model_weights **out, const char *folder, const struct layout *layout,
                              weir_error *err) WEIR_MUST_CHECK;
void model_folder_close(struct model_weights *w);
/* Elements [first, first + n) of the layout's flat space. */
void model_folder_read(const struct model_weights *w, uint64_t first, uint64_t n, float *out);

#endif
