#include "adapter_folder.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "limits.h"
#include "new_folder.h"
#include "safetensors.h"

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
	return has != NULL && strcmp(has, text) == 0;
}

/* How adapters began does not matter, but where their model was changed then (PiSSA, OLoRA and others): they are of what was left of it. */
static bool began_beside_model(const struct json_value *v)
{
	static const char *const ways[] = {"gaussian", "orthogonal", "eva", "mica"};
	bool known = json_value_text(v, NULL) == NULL;
	for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
		known |= is_text(v, ways[i]);
	return known;
}

/* What PEFT can do beside it. A key that is absent, null, false or empty asks for nothing. */
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
	const struct json_value *bias = json_member(root, "bias");
	if (!json_is_absent(bias) && !is_text(bias, "none"))
		return refuse(path, "bias", "is not none: biases are not trained beside adapters", err);
	if (!began_beside_model(json_member(root, "init_lora_weights")))
		return refuse(path, "init_lora_weights",
		              "says that the model was changed, too: expected adapters that PEFT has converted", err);
	for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
		if (!json_value_bool(json_member(root, flags[i]), false, &on) || on)
			return refuse(path, flags[i], "is on: only plain adapters can be computed", err);
	for (size_t i = 0; i < sizeof more / sizeof *more; i++)
		if (!is_empty(json_member(root, more[i])))
			return refuse(path, more[i], "is given: all adapters have one rank and one alpha, and nothing else is trained", err);
	return WEIR_OK;
}

static weir_status read_config(const char *path, struct lora_options *out, weir_error *err)
{
	struct json *j = NULL;
	uint64_t rank = 0;
	double alpha = 0;
	weir_status s = json_read_file(path, &j, err);
	if (s == WEIR_OK)
		s = check_plain(path, json_root(j), err);
	if (s == WEIR_OK && (!json_get_count(j, "r", &rank) || rank == 0 || rank > WEIR_LAYER_WIDTH_MAX))
		s = weir_fail(err, WEIR_E_INVALID, "%s: r must be a rank from 1 to %u", path, WEIR_LAYER_WIDTH_MAX);
	if (s == WEIR_OK && (!json_get_real(j, "lora_alpha", &alpha) || !(alpha > 0 && isfinite((float)alpha))))
		s = weir_fail(err, WEIR_E_INVALID, "%s: lora_alpha must be a number above 0", path);
	json_destroy(j);
	out->rank = (uint32_t)rank;
	out->alpha = (float)alpha;
	return s;
}

/* --- Targets, by the tensors: PEFT may name them by a pattern. */

/* "...self_attn.q_proj.lora_A.weight": which; LORA_TARGETS_COUNT: none. */
static enum lora_target target_of(const char *name)
{
	static const char *const endings[] = {".lora_A.weight", ".lora_B.weight"};
	const size_t length = strlen(name), ending = strlen(endings[0]);
	if (length <= ending || (strcmp(name + length - ending, endings[0]) != 0 && strcmp(name + length - ending, endings[1]) != 0))
		return LORA_TARGETS_COUNT;
	size_t begin = length - ending;
	while (begin > 0 && name[begin - 1] != '.')
		begin--;
	return lora_target_find(name + begin, length - ending - begin);
}

static weir_status read_targets(const char *path, struct lora_options *out, weir_error *err)
{
	struct safetensors *file = NULL;
	weir_status s = safetensors_open(&file, path, err);
	if (s == WEIR_OK && safetensors_count(file) == 0)
		s = weir_fail(err, WEIR_E_INVALID, "%s has no tensors", path);
	for (uint32_t i = 0; s == WEIR_OK && i < safetensors_count(file); i++) {
		const char *name = safetensors_at(file, i)->name;
		const enum lora_target t = target_of(name);
		if (t == LORA_TARGETS_COUNT)
			s = weir_fail(err, WEIR_E_UNSUPPORTED,
			              "%s: tensor '%s' is of no adapter that can be computed: those are lora_A and lora_B of gpt2's and "
			              "llama's projections",
			              path, name);
		else
			out->targets[t] = true;
	}
	safetensors_close(file);
	return s;
}

weir_status adapter_folder_read(const char *folder, struct lora_options *out, weir_error *err)
{
	char path[WEIR_PATH_BYTES_MAX];
	memset(out->targets, 0, sizeof out->targets);
	weir_status s = folder_file(folder, "adapter_config.json", path, err);
	if (s == WEIR_OK)
		s = read_config(path, out, err);
	if (s == WEIR_OK)
		s = folder_file(folder, "adapter_model.safetensors", path, err);
	return s == WEIR_OK ? read_targets(path, out, err) : s;
}

/* --- Writing */

static void put_alpha(struct json *j, float alpha)
{
	if (alpha == floorf(alpha) && alpha < 1e9f) /* PEFT counts it */
		json_set_count(j, "lora_alpha", (uint64_t)alpha);
	else
		json_set_real(j, "lora_alpha", (double)alpha);
}

struct json *adapter_config_make(const char *base, enum transformer_family family, const struct lora_options *lora)
{
	struct json *j = json_create();
	if (j == NULL)
		return NULL;
	json_set_text(j, "peft_type", "LORA");
	json_set_text(j, "task_type", "CAUSAL_LM");
	json_set_text(j, "base_model_name_or_path", base);
	json_set_count(j, "r", lora->rank);
	put_alpha(j, lora->alpha);
	json_set_real(j, "lora_dropout", (double)lora->dropout);
	json_set_text(j, "bias", "none");
	json_set_bool(j, "fan_in_fan_out", family == TRANSFORMER_GPT2); /* its weights are (in, out) */
	json_set_bool(j, "inference_mode", true);
	for (unsigned t = 0; t < LORA_TARGETS_COUNT; t++)
		if (lora->targets[t])
			json_append_text(j, "target_modules", lora_target_name(t));
	return j;
}
