#include "worker/model/model_folder.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "worker/model/adapter_folder.h"
#include "worker/model/new_folder.h"

#define FINITE_BLOCK 4096u /* elements checked at once */

struct model_weights {
	const struct layout *layout; /* borrowed */
	const char *says;            /* names the description of the tensors: "its config.json" */
	struct safetensors *file;
	const struct safetensor **tensors; /* (layout->count) */
};

bool model_folder_is(const char *folder)
{
	char path[WEIR_PATH_BYTES_MAX];
	weir_error ignored;
	return folder_file(folder, "config.json", path, &ignored) == WEIR_OK && access(path, F_OK) == 0;
}

/* --- Which file */

/* Reports weights in other formats and how to convert them. */
static weir_status refuse_others(const char *folder, const char *stem, weir_error *err)
{
	static const char model[] = "python3 -c \"from transformers import AutoModelForCausalLM as M; "
	                            "M.from_pretrained('FOLDER').save_pretrained('NEW')\"",
	                  adapters[] = "python3 -c \"import torch, safetensors.torch as s; "
	                               "s.save_file(torch.load('adapter_model.bin'), 'adapter_model.safetensors')\" in the folder",
	                  other[] = "expected a folder as transformers' save_pretrained writes it";
	static const struct {
		const char *name, *how;
	} others[] = {{"pytorch_model.bin", model},        {"pytorch_model.bin.index.json", model}, {"adapter_model.bin", adapters},
	              {"consolidated.safetensors", other}, {"consolidated.00.pth", other},          {"tf_model.h5", other},
	              {"flax_model.msgpack", other}};
	char path[WEIR_PATH_BYTES_MAX];
	for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
		const weir_status status = folder_file(folder, others[i].name, path, err);
		if (status != WEIR_OK)
			return status;
		if (access(path, F_OK) == 0)
			return weir_fail(err, WEIR_E_UNSUPPORTED, "%s has no %s.safetensors, and its %s is not read; convert it: %s", folder,
			                 stem, others[i].name, others[i].how);
	}
	return weir_fail(err, WEIR_E_NOT_FOUND, "%s has no %s.safetensors, nor %s.safetensors.index.json", folder, stem, stem);
}

weir_status model_folder_weights(const char *folder, const char *stem, char path[WEIR_PATH_BYTES_MAX], weir_error *err)
{
	static const char *const endings[] = {".safetensors", ".safetensors.index.json"};
	char name[SAFETENSORS_NAME_BYTES];
	for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
		snprintf(name, sizeof name, "%s%s", stem, endings[i]);
		const weir_status status = folder_file(folder, name, path, err);
		if (status != WEIR_OK || access(path, F_OK) == 0)
			return status;
	}
	return refuse_others(folder, stem, err);
}

/* --- Which tensors */

const char *model_tensor_short_name(const char *name)
{
	static const char *const prefixes[] = {"transformer.", "model."};
	for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
		if (strncmp(name, prefixes[i], strlen(prefixes[i])) == 0)
			return name + strlen(prefixes[i]);
	return name;
}

static const struct safetensor *find(const struct safetensors *file, const char *name)
{
	const struct safetensor *t = safetensors_find(file, name);
	return t ? t : safetensors_find(file, model_tensor_short_name(name));
}

static const char head_name[] = "lm_head.weight";

static const struct safetensor *find_embedding(const struct safetensors *file)
{
	static const char *const tokens[] = {"transformer.wte.weight", "model.embed_tokens.weight"};
	const struct safetensor *embedding = NULL;
	for (size_t i = 0; i < sizeof tokens / sizeof *tokens && !embedding; i++)
		embedding = find(file, tokens[i]);
	return embedding;
}

/* Finds a tensor of the layout. If head and embedding are one tensor, some writers keep only the
 * head's name (safetensors.torch.save_model). */
static const struct safetensor *find_wanted(const struct safetensors *file, const struct layout *layout, const char *name)
{
	const struct safetensor *t = find(file, name);
	const char *shorter = model_tensor_short_name(name);
	const bool embeds = strcmp(shorter, "wte.weight") == 0 || strcmp(shorter, "embed_tokens.weight") == 0;
	return !t && embeds && !layout_find(layout, head_name) ? safetensors_find(file, head_name) : t;
}

bool model_head_is_own(const struct safetensors *file)
{
	const struct safetensor *head = safetensors_find(file, head_name), *embedding = find_embedding(file);
	return head && embedding && !safetensor_equal(head, embedding);
}

/* An own head in the weights overrides config.json, which may call it the embedding, as in
 * transformers 5. A folder without weights follows its config.json. */
static weir_status settle_head(const char *folder, struct transformer_config *c, weir_error *err)
{
	char path[WEIR_PATH_BYTES_MAX];
	struct safetensors *file = NULL;
	weir_error ignored = {0};
	if (!c->tied_head || model_folder_weights(folder, "model", path, &ignored) != WEIR_OK)
		return WEIR_OK;
	const weir_status status = safetensors_open(&file, path, err);
	if (status == WEIR_OK)
		c->tied_head = !model_head_is_own(file);
	safetensors_close(file);
	return status;
}

weir_status model_folder_config(const char *folder, struct transformer_config *out, weir_error *err)
{
	char path[WEIR_PATH_BYTES_MAX];
	weir_status status = folder_file(folder, "config.json", path, err);
	if (status == WEIR_OK)
		status = transformer_config_read(path, out, err);
	return status == WEIR_OK ? settle_head(folder, out, err) : status;
}

static weir_status check_shape(const struct model_weights *w, const struct safetensor *t, const struct tensor *want,
                               const char *folder, weir_error *err)
{
	const bool vector = want->cols == 0;
	if (!safetensor_is_real(t->type))
		return weir_fail(err, WEIR_E_INVALID, "%s: tensor '%s' is of %s: expected F32, BF16 or F16", folder, t->name,
		                 safetensor_type_name(t->type));
	if (t->dims == (vector ? 1 : 2) && t->shape[0] == want->rows && (vector || t->shape[1] == want->cols))
		return WEIR_OK;
	char got[96] = "";
	for (uint32_t i = 0; i < t->dims && strlen(got) < sizeof got - 24; i++)
		snprintf(got + strlen(got), sizeof got - strlen(got), "%s%" PRIu64, i > 0 ? ", " : "", t->shape[i]);
	if (vector)
		return weir_fail(err, WEIR_E_INVALID, "%s: tensor '%s' has shape [%s], %s says [%u]", folder, t->name, got, w->says,
		                 want->rows);
	return weir_fail(err, WEIR_E_INVALID, "%s: tensor '%s' has shape [%s], %s says [%u, %u]", folder, t->name, got, w->says,
	                 want->rows, want->cols);
}

/* Returns whether files may have this tensor beside the weights: attention's mask, frequencies of
 * rotary positions, or a head that is the embedding. */
static bool is_beside(const struct safetensors *file, const char *name)
{
	static const char *const endings[] = {".attn.bias", ".attn.masked_bias", ".rotary_emb.inv_freq"};
	const size_t length = strlen(name);
	for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
		if (length >= strlen(endings[i]) && strcmp(name + length - strlen(endings[i]), endings[i]) == 0)
			return true;
	return strcmp(name, head_name) == 0 && !model_head_is_own(file);
}

weir_status model_file_check_none_more(const struct safetensors *file, const struct layout *layout, const char *path,
                                       const char *says, weir_error *err)
{
	for (uint32_t i = 0; i < safetensors_count(file); i++) {
		const char *name = safetensors_at(file, i)->name;
		bool known = false;
		for (uint32_t k = 0; k < layout->count && !known; k++)
			known =
			    strcmp(layout->tensors[k].name, name) == 0 || strcmp(model_tensor_short_name(layout->tensors[k].name), name) == 0;
		if (!known && !is_beside(file, name))
			return weir_fail(err, WEIR_E_UNSUPPORTED, "%s: tensor '%s' does not belong to this model: %s does not mention it",
			                 path, name, says);
	}
	return WEIR_OK;
}

static weir_status match(struct model_weights *w, const char *folder, weir_error *err)
{
	const struct layout *layout = w->layout;
	weir_status status = WEIR_OK;
	for (uint32_t i = 0; i < layout->count && status == WEIR_OK; i++) {
		const struct tensor *want = &layout->tensors[i];
		const char *shorter = model_tensor_short_name(want->name);
		w->tensors[i] = find_wanted(w->file, layout, want->name);
		if (w->tensors[i] && shorter != want->name && w->tensors[i] != safetensors_find(w->file, shorter) &&
		    safetensors_find(w->file, shorter))
			return weir_fail(err, WEIR_E_INVALID, "%s: there are two tensors for one, '%s' and '%s'", folder, want->name,
			                 shorter);
		status =
		    !w->tensors[i]
		        ? weir_fail(err, WEIR_E_NOT_FOUND,
		                    "%s: there is no tensor '%s', which %s asks for: expected all of a model's files, and of one model",
		                    folder, want->name, w->says)
		        : check_shape(w, w->tensors[i], want, folder, err);
	}
	return status == WEIR_OK ? model_file_check_none_more(w->file, layout, folder, w->says, err) : status;
}

static weir_status open_weights(struct model_weights **out, const char *folder, const char *stem, const char *says,
                                const struct layout *layout, weir_error *err)
{
	char path[WEIR_PATH_BYTES_MAX];
	weir_status status = model_folder_weights(folder, stem, path, err);
	if (status != WEIR_OK)
		return status;
	struct model_weights *w = calloc(1, sizeof *w);
	if (w)
		w->tensors = calloc(layout->count + 1, sizeof *w->tensors);
	if (!w || !w->tensors) {
		free(w);
		return weir_fail(err, WEIR_E_MEMORY, "out of memory for %s", folder);
	}
	w->layout = layout;
	w->says = says;
	status = safetensors_open(&w->file, path, err);
	if (status == WEIR_OK)
		status = match(w, folder, err);
	if (status == WEIR_OK)
		*out = w;
	else
		model_folder_close(w);
	return status;
}

weir_status model_folder_open(struct model_weights **out, const char *folder, const struct layout *layout, weir_error *err)
{
	return open_weights(out, folder, "model", "its config.json", layout, err);
}

weir_status adapter_folder_open(struct model_weights **out, const char *folder, const struct layout *layout, weir_error *err)
{
	return open_weights(out, folder, "adapter_model", "adapter_config.json with the base model", layout, err);
}

void model_folder_close(struct model_weights *w)
{
	if (!w)
		return;
	safetensors_close(w->file);
	free(w->tensors);
	free(w);
}

/* Reads the tensor in blocks. */
static bool is_finite(const struct safetensor *t)
{
	float block[FINITE_BLOCK];
	const uint64_t elements = safetensor_elements(t);
	for (uint64_t at = 0; at < elements; at += FINITE_BLOCK) {
		const uint64_t n = elements - at < FINITE_BLOCK ? elements - at : FINITE_BLOCK;
		float nothing = 0;
		safetensor_floats(t, at, n, block);
		for (uint64_t i = 0; i < n; i++)
			nothing += block[i] * 0; /* 0, or NaN for NaN and infinities */
		if (nothing != 0)
			return false;
	}
	return true;
}

weir_status model_folder_check_finite(const struct model_weights *w, const char *folder, weir_error *err)
{
	for (uint32_t i = 0; i < w->layout->count; i++)
		if (!is_finite(w->tensors[i]))
			return weir_fail(
			    err, WEIR_E_INVALID,
			    "%s: tensor '%s' has a NaN or an infinity: nothing can be trained from it; the file is damaged, or its "
			    "training had failed",
			    folder, w->tensors[i]->name);
	return WEIR_OK;
}

void model_folder_read(const struct model_weights *w, uint64_t first, uint64_t n, float *out)
{
	const struct layout *layout = w->layout;
	assert(first + n <= layout->elements);
	for (uint32_t i = 0; i < layout->count && n > 0; i++) {
		const struct tensor *t = &layout->tensors[i];
		if (first >= t->offset + t->elements)
			continue;
		const uint64_t at = first - t->offset, count = t->elements - at < n ? t->elements - at : n;
		safetensor_floats(w->tensors[i], at, count, out);
		first += count;
		n -= count;
		out += count;
	}
}
