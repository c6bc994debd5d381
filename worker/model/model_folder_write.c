/* Writes model folders and adapter folders in the format of Hugging Face's libraries. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/web/json.h"
#include "worker/model/adapter_folder.h"
#include "worker/model/model_folder.h"
#include "worker/model/new_folder.h"

/* --- Weights */

struct converted {
	const float *from;
	enum safetensor_type type;
};

static void convert(const void *arg, uint64_t first, uint64_t n, void *out)
{
	const struct converted *c = arg;
	safetensor_round(c->type, c->from + first, n, out);
}

static weir_status check_range(const struct tensor *t, const float *x, enum safetensor_type type, weir_error *err)
{
	const uint64_t i = safetensor_beyond(type, x, t->elements);
	return i == t->elements ? WEIR_OK
	                        : weir_fail(err, WEIR_E_INVALID, "tensor '%s' has %g, which F16 does not reach: expected BF16 or F32",
	                                    t->name, (double)x[i]);
}

/* Writes the tensors of a flat space to the folder's STEM.safetensors files. */
static weir_status write_weights(const char *folder, const char *stem, const struct layout *layout, const float *weights,
                                 const struct model_folder *f, uint64_t file_bytes, weir_error *err)
{
	const enum safetensor_type type = f->type;
	const char *const metadata[] = {"format", "pt", /* transformers requires it */
	                                f->fingerprint ? SAFETENSORS_FINGERPRINT : NULL, f->fingerprint, NULL};
	struct safetensor *tensors = calloc(layout->count + 1, sizeof *tensors);
	struct converted *converted = calloc(layout->count + 1, sizeof *converted);
	weir_status status =
	    tensors && converted ? WEIR_OK : weir_fail(err, WEIR_E_MEMORY, "out of memory for %u tensors", layout->count);
	for (uint32_t i = 0; i < layout->count && status == WEIR_OK; i++) {
		const struct tensor *t = &layout->tensors[i];
		status = check_range(t, weights + t->offset, type, err);
		converted[i] = (struct converted){.from = weights + t->offset, .type = type};
		tensors[i] = (struct safetensor){.type = type, .dims = t->cols > 0 ? 2 : 1, .shape = {t->rows, t->cols}};
		tensors[i].make = convert;
		tensors[i].arg = &converted[i];
		snprintf(tensors[i].name, sizeof tensors[i].name, "%s", t->name);
	}
	if (status == WEIR_OK)
		status = safetensors_write_folder(disk_system(), folder, stem, tensors, layout->count, file_bytes, metadata, err);
	free(converted);
	free(tensors);
	return status;
}

/* --- Companion files */

static weir_status copy(const char *from, const char *to, const char *as, weir_error *err)
{
	char path[WEIR_PATH_BYTES_MAX];
	const weir_status status = folder_file(to, as, path, err);
	return status == WEIR_OK ? disk_copy_file(disk_system(), from, path, err) : status;
}

static weir_status copy_if_there(const char *from, const char *to, const char *name, weir_error *err)
{
	char path[WEIR_PATH_BYTES_MAX];
	const weir_status status = folder_file(from, name, path, err);
	return status == WEIR_OK && access(path, F_OK) == 0 ? copy(path, to, name, err) : status;
}

/* place: a folder, the tokenizer.json in it, or a tokenizer file with another name, which has no
 * companion files. */
static weir_status copy_tokenizer(const char *place, const char *to, weir_error *err)
{
	static const char tokenizer[] = "tokenizer.json";
	static const char *const files[] = {
	    tokenizer,    "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "vocab.json",
	    "merges.txt", "tokenizer.model",       "chat_template.jinja",     "chat_template.json"};
	char folder[WEIR_PATH_BYTES_MAX];
	struct stat about;
	if (stat(place, &about) != 0)
		return weir_fail(err, WEIR_E_NOT_FOUND, "there is no tokenizer at %s", place);
	snprintf(folder, sizeof folder, "%s", place);
	if (!S_ISDIR(about.st_mode)) {
		const char *slash = strrchr(place, '/'), *name = slash ? slash + 1 : place;
		if (strcmp(name, tokenizer) != 0)
			return copy(place, to, tokenizer, err);
		snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - place) + 1 : 1, slash ? place : ".");
	}
	weir_status status = WEIR_OK;
	for (size_t i = 0; i < sizeof files / sizeof *files && status == WEIR_OK; i++)
		status = copy_if_there(folder, to, files[i], err);
	return status;
}

static const char *torch_type(enum safetensor_type type)
{
	static const char *const names[] = {
	    [SAFETENSOR_F32] = "float32", [SAFETENSOR_BF16] = "bfloat16", [SAFETENSOR_F16] = "float16"};
	return names[type];
}

void model_config_put_type(struct json *j, enum safetensor_type type)
{
	json_set_text(j, "torch_dtype", torch_type(type)); /* transformers 4 */
	json_set_text(j, "dtype", torch_type(type));       /* transformers 5 */
}

static void put_token(struct json *j, const char *key, uint32_t id)
{
	if (id == UINT32_MAX)
		json_set_null(j, key);
	else
		json_set_count(j, key, id);
}

/* Starts from the base's config.json, if any, as it has keys that are not supported here. */
static weir_status make_config(const struct model_folder *f, const struct transformer_config *config, struct json **out,
                               weir_error *err)
{
	char path[WEIR_PATH_BYTES_MAX];
	weir_status status = WEIR_OK;
	if (f->base) {
		status = folder_file(f->base, "config.json", path, err);
		return status == WEIR_OK ? json_read_file(path, out, err) : status;
	}
	*out = json_create();
	if (!*out)
		return weir_fail(err, WEIR_E_MEMORY, "out of memory for a config.json");
	transformer_config_put(config, *out);
	put_token(*out, "bos_token_id", f->bos);
	put_token(*out, "eos_token_id", f->eos);
	return status;
}

static weir_status write_config(const struct model_folder *f, const char *folder, const struct transformer_config *config,
                                weir_error *err)
{
	char path[WEIR_PATH_BYTES_MAX];
	struct json *j = NULL;
	weir_status status = make_config(f, config, &j, err);
	if (status == WEIR_OK)
		status = folder_file(folder, "config.json", path, err);
	if (status == WEIR_OK) {
		/* The base's flag may be wrong about its head. */
		json_set_bool(j, "tie_word_embeddings", config->tied_head);
		model_config_put_type(j, f->type);
		status = json_write_file(j, path, err);
	}
	json_destroy(j);
	return status;
}

/* --- Folders */

static weir_status write_model(const struct model_folder *f, const char *folder, const struct transformer_config *config,
                               const struct layout *layout, const float *weights, weir_error *err)
{
	weir_status status = write_config(f, folder, config, err);
	if (status == WEIR_OK && f->tokenizer)
		status = copy_tokenizer(f->tokenizer, folder, err);
	if (status == WEIR_OK && f->base)
		status = copy_if_there(f->base, folder, "generation_config.json", err);
	return status == WEIR_OK ? write_weights(folder, "model", layout, weights, f, f->file_bytes, err) : status;
}

weir_status model_folder_write(const struct model_folder *f, const struct transformer_config *config, const struct layout *layout,
                               const float *weights, weir_error *err)
{
	struct new_folder folder;
	weir_status status = new_folder_begin(&folder, f->path, f->replace, err);
	if (status != WEIR_OK)
		return status;
	status = write_model(f, folder.temporary, config, layout, weights, err);
	return new_folder_end(&folder, status, err);
}

weir_status adapter_folder_write(const struct model_folder *f, enum transformer_family family, const struct lora_options *lora,
                                 const struct layout *layout, const float *weights, weir_error *err)
{
	struct new_folder folder;
	char path[WEIR_PATH_BYTES_MAX];
	weir_status status = new_folder_begin(&folder, f->path, f->replace, err);
	if (status != WEIR_OK)
		return status;
	struct json *j = adapter_config_make(f->base, family, lora, layout);
	status = folder_file(folder.temporary, "adapter_config.json", path, err);
	if (status == WEIR_OK)
		status = j ? json_write_file(j, path, err) : weir_fail(err, WEIR_E_MEMORY, "out of memory for %s", path);
	if (status == WEIR_OK)
		status = write_weights(folder.temporary, "adapter_model", layout, weights, f, UINT64_MAX, err);
	json_destroy(j);
	return new_folder_end(&folder, status, err);
}
