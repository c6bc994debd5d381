/* A model folder as Hugging Face stores it: config.json (transformer_config.h) and
 * model.safetensors, or an index and the files that it names. */
#ifndef WEIR_MODEL_FOLDER_H
#define WEIR_MODEL_FOLDER_H

#include "worker/model/layout.h"
#include "worker/model/safetensors/safetensors.h"
#include "worker/model/transformer_config.h"

/* Size limit of a weights file; a single larger tensor gets its own. */
#define MODEL_FILE_BYTES (4ull << 30)

/* Returns whether a path is a model folder: it contains a config.json. */
bool model_folder_is(const char *path);
/* Reads config.json. A head in the weights that differs from the embedding is not tied, whatever
 * config.json says, as in transformers 5. */
weir_status model_folder_config(const char *folder, struct transformer_config *out, weir_error *err) WEIR_MUST_CHECK;
/* Finds the weights file that transformers reads: STEM.safetensors, or else its index.
 * E_UNSUPPORTED: the folder has weights only in other formats, and the error says how to convert
 * them. E_NOT_FOUND: it has no weights. */
weir_status model_folder_weights(const char *folder, const char *stem, char path[WEIR_PATH_BYTES_MAX],
                                 weir_error *err) WEIR_MUST_CHECK;
/* Returns a tensor's name without "transformer." or "model.". Files of a bare GPT2Model or
 * LlamaModel lack these prefixes. */
const char *model_tensor_short_name(const char *name);
/* Returns whether a file has a head that differs from its token embedding. */
bool model_head_is_own(const struct safetensors *file);
/* Checks that a file has the layout's tensors and no others, except masks, rotary frequencies and a
 * tied head. E_UNSUPPORTED names the first other tensor. `says` names the description of the model
 * for errors: "its config.json". */
weir_status model_file_check_none_more(const struct safetensors *file, const struct layout *layout, const char *path,
                                       const char *says, weir_error *err) WEIR_MUST_CHECK;
/* The folder's weights, read tensor by tensor as fp32, under their full or short names. E_NOT_FOUND
 * names a missing tensor, E_INVALID one of another shape, E_UNSUPPORTED one that the model does not
 * have. */
struct model_weights;
weir_status model_folder_open(struct model_weights **out, const char *folder, const struct layout *layout,
                              weir_error *err) WEIR_MUST_CHECK;
/* The same for the adapters in a PEFT folder (adapter_folder.h). */
weir_status adapter_folder_open(struct model_weights **out, const char *folder, const struct layout *layout,
                                weir_error *err) WEIR_MUST_CHECK;
void model_folder_close(struct model_weights *w);
/* Checks that every weight is a finite number. Reads all of them. E_INVALID names the tensor. */
weir_status model_folder_check_finite(const struct model_weights *w, const char *folder, weir_error *err) WEIR_MUST_CHECK;
/* Elements [first, first + n) of the layout's flat space. */
void model_folder_read(const struct model_weights *w, uint64_t first, uint64_t n, float *out);

/* --- Writing */

struct model_folder {
	const char *path;
	bool replace; /* may replace an existing model folder (new_folder.h) */
	enum safetensor_type type;
	uint64_t file_bytes; /* size limit of a weights file; see MODEL_FILE_BYTES */
	/* The folder that the model started from; its config.json and generation_config.json are kept.
	 * NULL: there is no base. */
	const char *base;
	/* Of the job that trained the weights (fingerprint.h); NULL: unknown. */
	const char *fingerprint;
	/* A folder or a tokenizer.json, copied together with its companion files. NULL: there is no
	 * tokenizer. */
	const char *tokenizer;
	uint32_t bos, eos; /* token ids to write when there is no base; UINT32_MAX: none */
};
/* Sets the element type of the weights in a config.json. */
void model_config_put_type(struct json *j, enum safetensor_type type);
/* weights: (elements of the layout). E_EXISTS: something occupies the path. E_INVALID names a
 * tensor with a value outside the range of f->type. */
weir_status model_folder_write(const struct model_folder *f, const struct transformer_config *config, const struct layout *layout,
                               const float *weights, weir_error *err) WEIR_MUST_CHECK;

#endif
