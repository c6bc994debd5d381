#include "worker/model/adapter_folder.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/limits.h"
#include "worker/model/adapter_targets.h"
#include "worker/model/new_folder.h"
#include "worker/model/safetensors/safetensors.h"

bool adapter_folder_is(const char *folder)
{
	char path[WEIR_PATH_BYTES_MAX];
	weir_error ignored;
	return folder_file(folder, "adapter_config.json", path, &ignored) == WEIR_OK && access(path, F_OK) == 0;
}

/* --- adapter_config.json */

static weir_status refuse(const char *path, const char *key, const char *why, weir_error *err)
{
	return weir_fail(err, WEIR_E_UNSUPPORTED, "%s: %s %s", path, key, why);
}

static bool is_empty(const struct json_value *v)
{
	return json_is_absent(v) || ((json_is_map(v) || json_is_list(v)) && json_length(v) == 0);
}

static bool is_text(const struct json_value *v, const char *text)
{
	const char *has = json_value_text(v, NULL);
	return has && strcmp(has, text) == 0;
}

/* Returns whether the adapters started from an unchanged model. Other methods (PiSSA, OLoRA and
 * others) change the model first, and their adapters fit only the changed model. */
static bool began_beside_model(const struct json_value *v)
{
	static const char *const ways[] = {"gaussian", "orthogonal", "eva", "mica"};
	bool known = !json_value_text(v, NULL);
	for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
		known |= is_text(v, ways[i]);
	return known;
}

/* Stops at a "use_" flag that is on: a method of a later PEFT. */
static bool is_plain(void *arg, const char *key, size_t bytes, const struct json_value *v)
{
	const char **on = arg;
	bool value;
	(void)bytes;
	if (strncmp(key, "use_", strlen("use_")) == 0 && json_value_bool(v, false, &value) && value)
		*on = key;
	return !*on;
}

/* Refuses PEFT features beyond plain adapters. An absent, null, false or empty key is fine. */
static weir_status check_plain(const char *path, const struct json_value *root, weir_error *err)
{
	static const char *const flags[] = {"use_rslora", "use_dora",     "lora_bias",   "use_qalora",
	                                    "use_bdlora", "arrow_config", "kasa_config", "monteclora_config"};
	static const char *const more[] = {"rank_pattern",           "alpha_pattern",     "modules_to_save",
	                                   "layer_replication",      "target_parameters", "trainable_token_indices",
	                                   "alora_invocation_tokens"};
	bool on = false;
	if (!is_text(json_member(root, "peft_type"), "LORA"))
		return refuse(path, "peft_type", "is not LORA: only low-rank adapters can be computed", err);
	const struct json_value *task = json_member(root, "task_type");
	if (!json_is_absent(task) && !is_text(task, "CAUSAL_LM"))
		return refuse(path, "task_type", "is not CAUSAL_LM: only adapters of language models can be computed", err);
	const struct json_value *bias = json_member(root, "bias");
	if (!json_is_absent(bias) && !is_text(bias, "none"))
		return refuse(path, "bias", "is not none: biases are not trained beside adapters", err);
	if (!began_beside_model(json_member(root, "init_lora_weights")))
		return refuse(path, "init_lora_weights",
		              "says that the model was changed, too: expected adapters that PEFT has converted", err);
	for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
		if (!json_value_bool(json_member(root, flags[i]), false, &on) || on)
			return refuse(path, flags[i], "is on: only plain adapters can be computed", err);
	const char *other = NULL;
	if (!json_each(root, is_plain, &other))
		return refuse(path, other, "is on: only plain adapters can be computed", err);
	for (size_t i = 0; i < sizeof more / sizeof *more; i++)
		if (!is_empty(json_member(root, more[i])))
			return refuse(path, more[i], "is given: all adapters have one rank and one alpha, and nothing else is trained", err);
	return WEIR_OK;
}

static weir_status read_config(const char *path, const struct json *j, struct lora_options *out, weir_error *err)
{
	uint64_t rank = 0;
	double alpha = 0;
	const weir_status status = check_plain(path, json_root(j), err);
	if (status != WEIR_OK)
		return status;
	if (!json_get_count(j, "r", &rank) || rank == 0 || rank > WEIR_LAYER_WIDTH_MAX)
		return weir_fail(err, WEIR_E_INVALID, "%s: r must be a rank from 1 to %u", path, WEIR_LAYER_WIDTH_MAX);
	if (!json_get_real(j, "lora_alpha", &alpha) || !(alpha > 0 && isfinite((float)alpha)))
		return weir_fail(err, WEIR_E_INVALID, "%s: lora_alpha must be a number above 0", path);
	out->rank = (uint32_t)rank;
	out->alpha = (float)alpha;
	return WEIR_OK;
}

/* --- Tensors */

static const char before[] = "base_model.model.";
static const char *const layers[] = {[TRANSFORMER_GPT2] = "transformer.h.", [TRANSFORMER_LLAMA] = "model.layers."};
static const char *const endings[] = {".lora_A.weight", ".lora_B.weight"};

struct place {
	enum transformer_family family;
	uint32_t layer;
	enum lora_module module;
};

static bool begins(const char **text, const char *with)
{
	const size_t n = strlen(with);
	const bool does = strncmp(*text, with, n) == 0;
	*text += does ? n : 0;
	return does;
}

/* Parses a name such as "base_model.model.model.layers.1.self_attn.q_proj.lora_A.weight". */
static bool place_of(const char *name, struct place *out)
{
	char *end;
	if (!begins(&name, before))
		return false;
	out->family = begins(&name, layers[TRANSFORMER_GPT2]) ? TRANSFORMER_GPT2 : TRANSFORMER_LLAMA;
	if ((out->family == TRANSFORMER_LLAMA && !begins(&name, layers[TRANSFORMER_LLAMA])) || *name < '0' || *name > '9')
		return false;
	const unsigned long layer = strtoul(name, &end, 10);
	const size_t ending = strlen(endings[0]), left = strlen(end);
	if (*end != '.' || layer >= WEIR_LAYERS_MAX || left <= 1 + ending)
		return false;
	out->layer = (uint32_t)layer;
	out->module = lora_module_find(end + 1, left - 1 - ending);
	const char *behind = end + left - ending;
	return (strcmp(behind, endings[0]) == 0 || strcmp(behind, endings[1]) == 0) && out->module < LORA_MODULES_COUNT &&
	       lora_module_is_gpt2(out->module) == (out->family == TRANSFORMER_GPT2);
}

static weir_status find_family(const struct safetensors *file, const char *path, enum transformer_family *out, weir_error *err)
{
	struct place p = {0};
	if (safetensors_count(file) == 0)
		return weir_fail(err, WEIR_E_INVALID, "%s has no tensors", path);
	for (uint32_t i = 0; i < safetensors_count(file); i++) {
		const char *name = safetensors_at(file, i)->name;
		if (!place_of(name, &p) || (i > 0 && p.family != *out))
			return weir_fail(err, WEIR_E_UNSUPPORTED,
			                 "%s: tensor '%s' is of no adapter that can be computed: those are lora_A and lora_B of gpt2's and "
			                 "llama's projections",
			                 path, name);
		*out = p.family;
	}
	return WEIR_OK;
}

/* Refuses tensors of modules that adapter_config.json does not choose: PEFT ignores them. */
static weir_status check_chosen(const struct safetensors *file, const char *path, const struct lora_options *lora,
                                weir_error *err)
{
	struct place p = {0};
	for (uint32_t i = 0; i < safetensors_count(file); i++) {
		const char *name = safetensors_at(file, i)->name;
		if (place_of(name, &p) && !lora_has(lora, p.layer, p.module))
			return weir_fail(
			    err, WEIR_E_INVALID,
			    "%s: tensor '%s' is of a module that adapter_config.json leaves out (target_modules, exclude_modules, "
			    "layers_to_transform): expected both to be of the same adapters",
			    path, name);
	}
	return WEIR_OK;
}

static weir_status read_targets(const char *folder, const struct json_value *root, const char *config, struct lora_options *out,
                                weir_error *err)
{
	char path[WEIR_PATH_BYTES_MAX];
	struct safetensors *file = NULL;
	enum transformer_family family = TRANSFORMER_LLAMA;
	weir_status status = model_folder_weights(folder, "adapter_model", path, err);
	if (status == WEIR_OK)
		status = safetensors_open(&file, path, err);
	if (status == WEIR_OK)
		status = find_family(file, path, &family, err);
	if (status == WEIR_OK)
		status = adapter_targets_read(config, root, family, out, err);
	if (status == WEIR_OK)
		status = check_chosen(file, path, out, err);
	safetensors_close(file);
	return status;
}

weir_status adapter_folder_read(const char *folder, struct lora_options *out, weir_error *err)
{
	char path[WEIR_PATH_BYTES_MAX];
	struct json *j = NULL;
	weir_status status = folder_file(folder, "adapter_config.json", path, err);
	if (status == WEIR_OK)
		status = json_read_file(path, &j, err);
	if (status == WEIR_OK)
		status = read_config(path, j, out, err);
	if (status == WEIR_OK)
		status = read_targets(folder, json_root(j), path, out, err);
	json_destroy(j);
	return status;
}

/* --- Writing */

static void put_alpha(struct json *j, float alpha)
{
	if (alpha == floorf(alpha) && alpha < 1e9f) /* an integer in PEFT */
		json_set_count(j, "lora_alpha", (uint64_t)alpha);
	else
		json_set_real(j, "lora_alpha", (double)alpha);
}

/* Lists the targets or, if only some of their modules have adapters, these modules by full name. */
static void put_targets(struct json *j, const struct lora_options *lora, const struct layout *layout)
{
	for (unsigned t = 0; t < LORA_TARGETS_COUNT && !lora->some; t++)
		if (lora->targets[t])
			json_append_text(j, "target_modules", lora_target_name(t));
	for (uint32_t i = 0; i < layout->count && lora->some; i++) {
		char module[LAYOUT_NAME_BYTES];
		const char *name = layout->tensors[i].name;
		const size_t n = strlen(name), ending = strlen(endings[0]), skipped = strlen(before);
		if (n > skipped + ending && strcmp(name + n - ending, endings[0]) == 0) {
			snprintf(module, sizeof module, "%.*s", (int)(n - ending - skipped), name + skipped);
			json_append_text(j, "target_modules", module);
		}
	}
}

struct json *adapter_config_make(const char *base, enum transformer_family family, const struct lora_options *lora,
                                 const struct layout *layout)
{
	struct json *j = json_create();
	if (!j)
		return NULL;
	json_set_text(j, "peft_type", "LORA");
	json_set_text(j, "task_type", "CAUSAL_LM");
	json_set_text(j, "base_model_name_or_path", base);
	json_set_count(j, "r", lora->rank);
	put_alpha(j, lora->alpha);
	json_set_real(j, "lora_dropout", (double)lora->dropout);
	json_set_text(j, "bias", "none");
	/* GPT-2's weights are (in, out). */
	json_set_bool(j, "fan_in_fan_out", family == TRANSFORMER_GPT2);
	json_set_bool(j, "inference_mode", true);
	put_targets(j, lora, layout);
	return j;
}
