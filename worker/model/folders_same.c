#include "worker/model/folders_same.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/web/json.h"
#include "worker/model/model_folder.h"
#include "worker/model/new_folder.h"

/* Keys of config.json that do not affect the meaning of weights. */
static const char *const indifferent[] = {"_name_or_path", "architectures",        "auto_map",          "bos_token_id",
                                          "dtype",         "eos_token_id",         "initializer_range", "pad_token_id",
                                          "torch_dtype",   "transformers_version", "use_cache"};
/* Keys of adapter_config.json that affect the meaning of weights. The tensors' names tell which
 * modules have adapters. */
static const char *const of_adapters[] = {"peft_type",
                                          "r",
                                          "lora_alpha",
                                          "use_rslora",
                                          "use_dora",
                                          "rank_pattern",
                                          "alpha_pattern",
                                          "alora_invocation_tokens",
                                          "kasa_config",
                                          "layer_replication",
                                          "lora_bias",
                                          "modules_to_save",
                                          "monteclora_config",
                                          "target_parameters",
                                          "trainable_token_indices",
                                          "use_bdlora",
                                          "use_qalora"};

struct comparison {
	const char *a, *b;
	const struct json_value *of_a, *of_b;
	weir_status status;
	weir_error *err;
};

static bool same_value(const struct json_value *a, const struct json_value *b)
{
	double x, y;
	if (json_value_real(a, &x) && json_value_real(b, &y))
		return !(x < y || x > y);
	return (json_value_is_off(a, INFINITY) && json_value_is_off(b, INFINITY)) || json_value_equal(a, b);
}

static bool compare(struct comparison *c, const char *key)
{
	char a[128], b[128];
	const struct json_value *of_a = json_member(c->of_a, key), *of_b = json_member(c->of_b, key);
	if (same_value(of_a, of_b))
		return true;
	json_value_show(of_a, a, sizeof a);
	json_value_show(of_b, b, sizeof b);
	c->status = weir_fail(c->err, WEIR_E_INVALID, "%s is of another model than %s: its %s is %s, and that one's %s", c->a, c->b,
	                      key, a, b);
	return false;
}

static bool compare_key(void *arg, const char *key, size_t bytes, const struct json_value *v)
{
	(void)bytes;
	(void)v;
	for (size_t i = 0; i < sizeof indifferent / sizeof *indifferent; i++)
		if (strcmp(key, indifferent[i]) == 0)
			return true;
	return compare(arg, key);
}

static weir_status compare_files(const char *a, const char *b, bool adapters, weir_error *err)
{
	const char *const name = adapters ? "adapter_config.json" : "config.json";
	char paths[2][WEIR_PATH_BYTES_MAX];
	struct json *of_a = NULL, *of_b = NULL;
	weir_status status = folder_file(a, name, paths[0], err);
	if (status == WEIR_OK)
		status = folder_file(b, name, paths[1], err);
	if (status == WEIR_OK)
		status = json_read_file(paths[0], &of_a, err);
	if (status == WEIR_OK)
		status = json_read_file(paths[1], &of_b, err);
	struct comparison c = {.a = a, .b = b, .status = status, .err = err};
	if (status == WEIR_OK) {
		c.of_a = json_root(of_a);
		c.of_b = json_root(of_b);
		bool same = true;
		for (size_t i = 0; i < sizeof of_adapters / sizeof *of_adapters && adapters && same; i++)
			same = compare(&c, of_adapters[i]);
		if (!adapters && json_each(c.of_a, compare_key, &c))
			(void)json_each(c.of_b, compare_key, &c);
	}
	json_destroy(of_a);
	json_destroy(of_b);
	return c.status;
}

weir_status folders_same(const char *a, const char *b, bool adapters, weir_error *err)
{
	struct transformer_config of_a, of_b;
	weir_error ignored = {0};
	if (!adapters && !model_folder_is(a) && !model_folder_is(b))
		return WEIR_OK; /* neither folder has the file */
	if (!adapters && (!model_folder_is(a) || !model_folder_is(b)))
		return weir_fail(err, WEIR_E_NOT_FOUND, "%s has no config.json, which tells what its weights mean",
		                 model_folder_is(a) ? b : a);
	if (!adapters && model_folder_config(a, &of_a, &ignored) == WEIR_OK && model_folder_config(b, &of_b, &ignored) == WEIR_OK)
		return transformer_config_same(&of_a, a, &of_b, b, err);
	return compare_files(a, b, adapters, err);
}
