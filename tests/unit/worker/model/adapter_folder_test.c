/* Adapters in PEFT's format: round trips, and a named refusal of unsupported ones. */
#include <stdio.h>
#include <stdlib.h>

#include "common/system/disk.h"
#include "tests/cmocka_check.h"
#include "tests/folder.h"
#include "worker/model/adapter_folder.h"
#include "worker/model/adapter_targets.h"

static char work[FOLDER_BYTES], folder[96];

static int make_folder(void **state)
{
	(void)state;
	folder_create(work);
	snprintf(folder, sizeof folder, "%s/adapters", work);
	return 0;
}

static int remove_folder(void **state)
{
	(void)state;
	return folder_delete(work);
}

enum { RANK = 2, IN = 3, OUT = 5, ELEMENTS = RANK * (IN + OUT) };
static const float weights[ELEMENTS] = {1, -2, 3, -4, 5, -6, 7, -8, 9, -10, 11, -12, 13, -14, 15, -16};

static struct layout layout_of(uint32_t rank, uint32_t in, const char *module)
{
	struct layout l = {0};
	layout_add(&l, rank, in, WEIR_INIT_ZERO, 0, "base_model.model.%s.lora_A.weight", module);
	layout_add(&l, OUT, rank, WEIR_INIT_ZERO, 0, "base_model.model.%s.lora_B.weight", module);
	return l;
}

#define MODULE "model.layers.0.self_attn.v_proj"

static void write_adapters(float alpha, enum transformer_family family)
{
	const struct layout layout = layout_of(RANK, IN, MODULE);
	const struct model_folder f = {.path = folder, .base = "/models/base", .replace = true};
	struct lora_options lora = {.rank = RANK, .alpha = alpha, .dropout = 0.5f};
	weir_error err = {0};
	lora.targets[LORA_v_proj] = true;
	CHECK_OK(adapter_folder_write(&f, family, &lora, &layout, weights, &err), err);
}

static void adapters_come_back(void **state)
{
	(void)state;
	const float alphas[] = {16, 0.75f, 3};
	for (size_t i = 0; i < sizeof alphas / sizeof *alphas; i++) {
		struct lora_options lora = {.dropout = 0.25f};
		struct model_weights *w = NULL;
		const struct layout layout = layout_of(RANK, IN, MODULE);
		float got[ELEMENTS];
		weir_error err = {0};
		write_adapters(alphas[i], TRANSFORMER_LLAMA);
		assert_true(adapter_folder_is(folder) && !adapter_folder_is(work));
		CHECK_OK(adapter_folder_read(folder, &lora, &err), err);
		assert_true(lora.rank == RANK && memcmp(&lora.alpha, &alphas[i], sizeof *alphas) == 0);
		/* the trainer chooses the dropout */
		assert_true(lora.dropout > 0.2f && lora.dropout < 0.3f);
		for (unsigned t = 0; t < LORA_TARGETS_COUNT; t++)
			assert_int_equal(lora.targets[t], t == LORA_v_proj);
		CHECK_OK(adapter_folder_open(&w, folder, &layout, &err), err);
		model_folder_read(w, 0, ELEMENTS, got);
		assert_memory_equal(got, weights, sizeof got);
		model_folder_close(w);
	}
}

static void configurations_are_peft_s(void **state)
{
	(void)state;
	for (int gpt2 = 0; gpt2 < 2; gpt2++) {
		struct lora_options lora = {.rank = 4, .alpha = 16};
		lora.targets[LORA_q_proj] = lora.targets[LORA_up_proj] = true;
		const struct layout none = {0};
		struct json *j = adapter_config_make("/models/base", gpt2 ? TRANSFORMER_GPT2 : TRANSFORMER_LLAMA, &lora, &none);
		uint64_t n = 0;
		assert_string_equal(json_get_text(j, "peft_type"), "LORA");
		assert_string_equal(json_get_text(j, "base_model_name_or_path"), "/models/base");
		assert_true(json_get_count(j, "r", &n) && n == 4 && json_get_count(j, "lora_alpha", &n) && n == 16);
		assert_int_equal(json_get_bool(j, "fan_in_fan_out"), gpt2);
		assert_int_equal(json_list_length(j, "target_modules"), 2);
		json_destroy(j);
	}
}

static void put_config(const char *text)
{
	char path[160];
	weir_error err = {0};
	snprintf(path, sizeof path, "%s/adapter_config.json", folder);
	CHECK_OK(disk_write_file(disk_system(), path, text, strlen(text), &err), err);
}

static void unsupported_settings_are_named(void **state)
{
	(void)state;
#define LORA "{\"peft_type\": \"LORA\", \"r\": 2, \"lora_alpha\": 4"
	static const struct {
		const char *text, *says;
		weir_status status;
	} cases[] = {
	    {"{", "adapter_config.json", WEIR_E_PARSE},
	    {"[]", "peft_type is not LORA", WEIR_E_UNSUPPORTED},
	    {"{\"peft_type\": \"IA3\"}", "peft_type is not LORA", WEIR_E_UNSUPPORTED},
	    {"{\"peft_type\": \"LORA\", \"lora_alpha\": 4}", "r must be a rank", WEIR_E_INVALID},
	    {"{\"peft_type\": \"LORA\", \"r\": 0, \"lora_alpha\": 4}", "r must be a rank", WEIR_E_INVALID},
	    {"{\"peft_type\": \"LORA\", \"r\": -1, \"lora_alpha\": 4}", "r must be a rank", WEIR_E_INVALID},
	    {"{\"peft_type\": \"LORA\", \"r\": 4294967298, \"lora_alpha\": 4}", "r must be a rank", WEIR_E_INVALID},
	    {"{\"peft_type\": \"LORA\", \"r\": 2, \"lora_alpha\": 0}", "lora_alpha must be", WEIR_E_INVALID},
	    {"{\"peft_type\": \"LORA\", \"r\": 2, \"lora_alpha\": 1e300}", "lora_alpha must be", WEIR_E_INVALID},
	    {LORA ", \"use_rslora\": true}", "use_rslora is on", WEIR_E_UNSUPPORTED},
	    {LORA ", \"use_dora\": 1}", "use_dora is on", WEIR_E_UNSUPPORTED},
	    {LORA ", \"use_bdlora\": {\"nblocks\": 2}}", "use_bdlora is on", WEIR_E_UNSUPPORTED},
	    {LORA ", \"init_lora_weights\": \"pissa_niter_16\"}", "init_lora_weights says", WEIR_E_UNSUPPORTED},
	    {LORA ", \"task_type\": \"SEQ_CLS\"}", "task_type is not CAUSAL_LM", WEIR_E_UNSUPPORTED},
	    {LORA ", \"bias\": \"all\"}", "bias is not none", WEIR_E_UNSUPPORTED},
	    {LORA ", \"rank_pattern\": {\"q_proj\": 4}}", "rank_pattern is given", WEIR_E_UNSUPPORTED},
	    {LORA ", \"modules_to_save\": [\"lm_head\"]}", "modules_to_save is given", WEIR_E_UNSUPPORTED},
	    {LORA ", \"use_what_is_not_known\": true}", "use_what_is_not_known is on", WEIR_E_UNSUPPORTED},
	    {LORA ", \"target_modules\": [\"q_proj\"]}", "leaves out (target_modules", WEIR_E_INVALID},
	    {LORA ", \"target_modules\": 7}", "target_modules is neither", WEIR_E_INVALID},
	    {LORA ", \"target_modules\": [7]}", "target_modules has what is no text", WEIR_E_INVALID},
	    {LORA ", \"target_modules\": \"(v_proj\"}", "target_modules: the pattern '(v_proj' is not valid", WEIR_E_PARSE},
	    {LORA ", \"exclude_modules\": \".*v_proj\"}", "leaves out (target_modules, exclude_modules", WEIR_E_INVALID},
	    {LORA ", \"layers_to_transform\": [1]}", "leaves out (target_modules, exclude_modules, layers_to_transform",
	     WEIR_E_INVALID},
	    {LORA ", \"layers_to_transform\": [-1]}", "layers_to_transform has what is no number", WEIR_E_INVALID},
	    {LORA ", \"layers_to_transform\": \"0\"}", "layers_to_transform is neither", WEIR_E_INVALID},
	    {LORA ", \"layers_pattern\": \"layers\"}", "layers_pattern is given without", WEIR_E_INVALID},
	    {LORA ", \"layers_to_transform\": 0, \"layers_pattern\": \"(\"}", "layers_pattern: the pattern", WEIR_E_PARSE},
	    {LORA ", \"layers_to_transform\": 0, \"target_modules\": \".*v_proj\"}", "layers_to_transform is given", WEIR_E_INVALID},
	};
	write_adapters(4, TRANSFORMER_LLAMA);
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct lora_options lora = {0};
		weir_error err = {0};
		put_config(cases[i].text);
		const weir_status got = adapter_folder_read(folder, &lora, &err);
		if (got != cases[i].status || strstr(err.text, cases[i].says) == NULL || strstr(err.text, folder) == NULL)
			fail_msg("%s: %s (%s), expected %s (%s)", cases[i].text, weir_status_name(got), err.text,
			         weir_status_name(cases[i].status), cases[i].says);
	}
	struct lora_options lora = {0};
	weir_error err = {0};
	static const char *const plain[] = {
	    LORA ", \"use_rslora\": false, \"rank_pattern\": {}, \"modules_to_save\": null, \"target_modules\": \".*v_proj\"}",
	    LORA ", \"init_lora_weights\": false, \"use_bdlora\": null}", LORA ", \"init_lora_weights\": \"gaussian\"}"};
	for (size_t i = 0; i < sizeof plain / sizeof *plain; i++) {
		put_config(plain[i]);
		CHECK_OK(adapter_folder_read(folder, &lora, &err), err);
		assert_true(lora.rank == 2 && lora.targets[LORA_v_proj]);
	}
#undef LORA
}

/* "0.q_proj 2.v_proj": the modules of the first three layers for which PEFT's
 * check_target_module_exists is true. */
static void modules_are_chosen_as_peft_does(void **state)
{
	(void)state;
	static const struct {
		const char *keys, *chosen;
		bool gpt2;
	} cases[] = {
	    {"\"target_modules\": [\"q_proj\"], \"layers_to_transform\": [0, 2]", "0.self_attn.q_proj 2.self_attn.q_proj ", false},
	    {"\"target_modules\": [\"q_proj\"], \"layers_to_transform\": 1, \"layers_pattern\": [\"h\", \"layers\"]",
	     "1.self_attn.q_proj ", false},
	    {"\"target_modules\": [\"q_proj\"], \"layers_to_transform\": 1, \"layers_pattern\": \"h\"", "", false},
	    {"\"target_modules\": [\"q_proj\"], \"layers_to_transform\": 1, \"layers_pattern\": \"(blocks|model\\\\.layers)\"",
	     "1.self_attn.q_proj ", false},
	    /* matches whole parts of names */
	    {"\"target_modules\": [\"attn.q_proj\", \"proj\"]", "", false},
	    {"\"target_modules\": [\"1.mlp.up_proj\", \"model.layers.2.self_attn.o_proj\"]", "1.mlp.up_proj 2.self_attn.o_proj ",
	     false},
	    {"\"target_modules\": [\"model.layers.2.self_attn.o_proj\"], \"layers_to_transform\": [0]", "2.self_attn.o_proj ", false},
	    {"\"target_modules\": \"model.layers.[01].self_attn.[qk]_proj\"",
	     "0.self_attn.q_proj 0.self_attn.k_proj 1.self_attn.q_proj 1.self_attn.k_proj ", false},
	    {"\"target_modules\": \"q_proj\"", "", false}, /* matches the whole name */
	    {"\"target_modules\": \".*(?<!mlp)\\\\.(?P<x>v)_proj\", \"exclude_modules\": \".*\\\\.0\\\\..*\"",
	     "1.self_attn.v_proj 2.self_attn.v_proj ", false},
	    {"\"target_modules\": \"all-linear\", \"exclude_modules\": [\"mlp.up_proj\", \"gate_proj\", \"down_proj\", \"o_proj\", "
	     "\"k_proj\"], \"layers_to_transform\": []",
	     "0.self_attn.q_proj 0.self_attn.v_proj 1.self_attn.q_proj 1.self_attn.v_proj 2.self_attn.q_proj 2.self_attn.v_proj ",
	     false},
	    {"\"target_modules\": null, \"layers_to_transform\": [1]", "1.self_attn.q_proj 1.self_attn.v_proj ", false},
	    {"\"target_modules\": null, \"layers_to_transform\": [1]", "1.attn.c_attn ", true},
	    {"\"target_modules\": [\"attn.c_proj\"]", "0.attn.c_proj 1.attn.c_proj 2.attn.c_proj ", true},
	    {"\"target_modules\": [\"c_proj\"], \"layers_to_transform\": [2], \"layers_pattern\": \"h\"",
	     "2.attn.c_proj 2.mlp.c_proj ", true},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct lora_options lora = {0};
		struct json *j = NULL;
		char text[512], chosen[512] = "";
		weir_error err = {0};
		snprintf(text, sizeof text, "{%s}", cases[i].keys);
		CHECK_OK(json_parse(text, strlen(text), "test", &j, &err), err);
		CHECK_OK(adapter_targets_read("test", json_root(j), cases[i].gpt2 ? TRANSFORMER_GPT2 : TRANSFORMER_LLAMA, &lora, &err),
		         err);
		for (uint32_t layer = 0; layer < 3; layer++)
			for (enum lora_module m = 0; m < LORA_MODULES_COUNT; m++)
				if (lora_has(&lora, layer, m))
					snprintf(chosen + strlen(chosen), sizeof chosen - strlen(chosen), "%u.%s ", layer, lora_module_name(m));
		if (strcmp(chosen, cases[i].chosen) != 0)
			fail_msg("%s: %s, expected %s", cases[i].keys, chosen, cases[i].chosen);
		json_destroy(j);
	}
}

static void tensors_that_do_not_fit_are_named(void **state)
{
	(void)state;
	static const struct {
		uint32_t rank, in;
		const char *module, *says;
		weir_status status;
	} cases[] = {
	    {RANK, IN + 1, MODULE, "lora_A.weight' has shape [2, 3], adapter_config.json with the base model says [2, 4]",
	     WEIR_E_INVALID},
	    {RANK + 1, IN, MODULE, "lora_A.weight' has shape [2, 3], adapter_config.json with the base model says [3, 3]",
	     WEIR_E_INVALID},
	    {RANK, IN, "model.layers.1.self_attn.v_proj", "there is no tensor 'base_model.model.model.layers.1.self_attn.v_proj",
	     WEIR_E_NOT_FOUND},
	};
	write_adapters(4, TRANSFORMER_LLAMA);
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		const struct layout layout = layout_of(cases[i].rank, cases[i].in, cases[i].module);
		struct model_weights *w = NULL;
		weir_error err = {0};
		const weir_status got = adapter_folder_open(&w, folder, &layout, &err);
		if (got != cases[i].status || strstr(err.text, cases[i].says) == NULL || w != NULL)
			fail_msg("%s (%s), expected %s (%s)", weir_status_name(got), err.text, weir_status_name(cases[i].status),
			         cases[i].says);
	}
	static const char *const strange[] = {
	    "base_model.model.lm_head.lora_A.weight", "base_model.model.model.embed_tokens.lora_embedding_A",
	    "base_model.model.model.layers.0.self_attn.v_proj.lora_magnitude_vector", "v_proj", ".lora_A.weight"};
	for (size_t i = 0; i < sizeof strange / sizeof *strange; i++) {
		struct lora_options lora = {0};
		char path[160];
		struct safetensor t = {.dims = 2, .shape = {RANK, IN}, .data = weights};
		weir_error err = {0};
		snprintf(t.name, sizeof t.name, "%s", strange[i]);
		snprintf(path, sizeof path, "%s/adapter_model.safetensors", folder);
		CHECK_OK(safetensors_write(disk_system(), path, &t, 1, NULL, &err), err);
		assert_int_equal(adapter_folder_read(folder, &lora, &err), WEIR_E_UNSUPPORTED);
		CHECK_CONTAINS(err.text, strange[i]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(adapters_come_back),
	    cmocka_unit_test(configurations_are_peft_s),
	    cmocka_unit_test(unsupported_settings_are_named),
	    cmocka_unit_test(modules_are_chosen_as_peft_does),
	    cmocka_unit_test(tensors_that_do_not_fit_are_named),
	};
	return cmocka_run_group_tests_name("adapter_folder", tests, make_folder, remove_folder);
}
