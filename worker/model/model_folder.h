/* A model as Hugging Face keeps it: a folder with config.json (transformer_config.h) and model.safetensors, or its index and its files. */
#ifndef WEIR_MODEL_FOLDER_H
#define WEIR_MODEL_FOLDER_H

#include "worker/model/layout.h"
#include "worker/model/safetensors.h"
#include "worker/model/transformer_config.h"

#define MODEL_FILE_BYTES (4ull << 30) /* of a file of weights that is written, at most, unless one tensor alone has more */

/* Whether a path is one: it has a config.json. */
bool model_folder_is(const char *path);
/* Reads config.json. A head in the weights that differs from the embedding is not tied, whatever
 * config.json says, as in transformers 5. */
weir_status model_folder_config(const char *folder, struct transformer_config *out, weir_error *err) WEIR_MUST_CHECK;
/* The path of the weights that transformers reads: STEM.safetensors, or else its index.
 * E_UNSUPPORTED: the folder has only other files, and the text says how to convert them.
 * E_NOT_FOUND: it has none. */
weir_status model_folder_weights(const char *folder, const char *stem, char path[WEIR_PATH_BYTES_MAX],
                                 weir_error *err) WEIR_MUST_CHECK;
/* A tensor's name without "transformer." or "model.", which files of a bare GPT2Model or
 * LlamaModel do not have. */
const char *model_tensor_short_name(const char *name);
/* Whether a file has a head that differs from its token embedding. */
bool model_head_is_own(const struct safetensors *file);
/* Checks that a file has the layout's tensors and nothing more but masks and a tied head.
 * E_UNSUPPORTED names the first other one. says: who describes the model, "its config.json". */
weir_status model_file_check_none_more(const struct safetensors *file, const struct layout *layout, const char *path,
                                       const char *says, weir_error *err) WEIR_MUST_CHECK;
/* The folder's weights, read tensor by tensor as fp32, under their names or their short ones.
 * E_NOT_FOUND names a tensor that is missing, E_INVALID one of another shape, E_UNSUPPORTED one that the model does not have. */
struct model_weights;
weir_status model_folder_open(struct model_weights **out, const char *folder, const struct layout *layout,
                              weir_error *err) WEIR_MUST_CHECK;
/* The same of the adapters in a folder of PEFT's (adapter_folder.h). */
weir_status adapter_folder_open(struct model_weights **out, const char *folder, const struct layout *layout,
                                weir_error *err) WEIR_MUST_CHECK;
void model_folder_close(struct model_weights *w);
/* That every weight is a number. All of them are read. E_INVALID names the tensor. */
weir_status model_folder_check_finite(const struct model_weights *w, const char *folder, weir_error *err) WEIR_MUST_CHECK;
/* Elements [first, first + n) of the layout's flat space. */
void model_folder_read(const struct model_weights *w, uint64_t first, uint64_t n, float *out);

/* --- Writing */

struct model_folder {
	const char *path;
	bool replace; /* a model folder that is there (new_folder.h) */
	enum safetensor_type type;
	uint64_t file_bytes; /* of a file of weights, as MODEL_FILE_BYTES */
	const char *
	    base; /* the folder that the model began with: its config.json and generation_config.json are kept; NULL: there is none */
	const char *fingerprint; /* of the job that trained the weights (fingerprint.h); NULL: unknown */
	const char *tokenizer;   /* a folder, or a tokenizer.json: it is copied with what goes with it; NULL: there is none */
	uint32_t bos, eos;       /* tokens, where there is no base; UINT32_MAX: none */
};
/* What a config.json says its weights are of. */
void model_config_put_type(struct json *j, enum safetensor_type type);
/* weights: (layout's elements). E_EXISTS: something is in the way; E_INVALID names a tensor that has no place in f->type. */
weir_status model_folder_write(const struct model_folder *f, const struct transformer_config *config, const struct layout *layout,
                               const float *weights, weir_error *err) WEIR_MUST_CHECK;

#endif
