/* Model folders: supported config.json files, errors for others, and the tensors of
 * model.safetensors. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/system/disk.h"
#include "tests/folder.h"
#include "worker/model/model_folder.h"
#include "worker/model/safetensors/safetensors.h"

static char folder[FOLDER_BYTES], config_path[96], weights_path[96];

static int make_folder(void **state)
{
	(void)state;
	folder_create(folder);
	snprintf(config_path, sizeof config_path, "%s/config.json", folder);
	snprintf(weights_path, sizeof weights_path, "%s/model.safetensors", folder);
	return 0;
}

static int remove_folder(void **state)
{
	(void)state;
	return folder_delete(folder);
}

#define GPT2 \
	"\"model_type\": \"gpt2\", \"vocab_size\": 50257, \"n_positions\": 1024, \"n_layer\": 12, \"n_head\": 12, \"n_embd\": 768"
#define LLAMA                                                                                                             \
	"\"model_type\": \"llama\", \"vocab_size\": 128256, \"max_position_embeddings\": 131072, \"num_hidden_layers\": 16, " \
	"\"num_attention_heads\": 32, \"num_key_value_heads\": 8, \"hidden_size\": 2048, \"intermediate_size\": 8192, "       \
	"\"head_dim\": 64"

static weir_status read_config(const char *text, struct transformer_config *out, weir_error *err)
{
	FILE *f = fopen(config_path, "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
	return model_folder_config(folder, out, err);
}

static struct transformer_config config_of(const char *text)
{
	struct transformer_config c;
	weir_error err = {0};
	if (read_config(text, &c, &err) != WEIR_OK)
		fail_msg("%s", err.text);
	return c;
}

static void configurations_are_read(void **state)
{
	(void)state;
	struct transformer_config c = config_of("{" GPT2 ", \"n_inner\": null, \"activation_function\": \"gelu_new\"}");
	assert_int_equal(c.family, TRANSFORMER_GPT2);
	assert_true(c.hidden == 3072 && c.head_dim == 64 && c.kv_heads == 12 && c.context == 1024 && c.vocabulary == 50257);
	assert_true(c.tied_head && c.attention_bias && c.mlp_bias && c.norm_eps == 1e-5f && c.init_std == 0.02f);
	c = config_of("{" LLAMA
	              ", \"rope_theta\": 500000.0, \"rms_norm_eps\": 1e-05, \"tie_word_embeddings\": true, \"rope_scaling\": "
	              "{\"factor\": 32.0, \"high_freq_factor\": 4.0, \"low_freq_factor\": 1.0, \"original_max_position_embeddings\": "
	              "8192, \"rope_type\": \"llama3\"}}");
	assert_int_equal(c.family, TRANSFORMER_LLAMA);
	assert_true(c.heads == 32 && c.kv_heads == 8 && c.head_dim == 64 && c.hidden == 8192 && c.tied_head && !c.attention_bias);
	assert_true(c.rope.kind == ROPE_LLAMA3 && c.rope.theta == 500000 && c.rope.factor == 32 && c.rope.low_factor == 1 &&
	            c.rope.high_factor == 4 && c.rope.original_context == 8192);
	c = config_of("{" LLAMA
	              ", \"original_max_position_embeddings\": 4096, \"rope_scaling\": {\"factor\": 8, \"high_freq_factor\": 4, "
	              "\"low_freq_factor\": 1, \"rope_type\": \"llama3\"}}");
	assert_int_equal(c.rope.original_context, 4096);
	c = config_of("{" LLAMA ", \"rope_parameters\": {\"rope_theta\": 10000, \"type\": \"linear\", \"factor\": 2}}");
	assert_true(c.rope.kind == ROPE_LINEAR && c.rope.theta == 10000 && c.rope.factor == 2);
	c = config_of("{" LLAMA
	              ", \"sliding_window\": 131072, \"quantization_config\": {}, \"logits_scaling\": 1, \"pruned_heads\": {}, "
	              "\"is_causal\": true, \"per_layer_config\": null}");
	assert_int_equal(c.rope.kind, ROPE_PLAIN);
	c = config_of("{" LLAMA ", \"sliding_window\": 4096, \"use_sliding_window\": false}");
	c = config_of("{" GPT2 ", \"num_attention_heads\": 12, \"hidden_size\": 768, \"n_ctx\": 512}");
	assert_true(c.heads == 12 && c.width == 768 && c.context == 1024);
	c = config_of("{" LLAMA ", \"rope_scaling\": null, \"attention_bias\": true}");
	assert_true(c.rope.kind == ROPE_PLAIN && c.rope.theta == 10000 && c.attention_bias && !c.mlp_bias && !c.tied_head);
}

static void unsupported_settings_are_named(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		weir_status status;
		const char *says;
	} cases[] = {
	    {"{", WEIR_E_PARSE, "config.json"},
	    {"[]", WEIR_E_UNSUPPORTED, "model_type is ''"},
	    {"{\"model_type\": \"mamba\"}", WEIR_E_UNSUPPORTED, "model_type is 'mamba': gpt2 and llama"},
	    {"{\"model_type\": \"gpt2\"}", WEIR_E_INVALID, "n_positions is missing"},
	    {"{" GPT2 ", \"n_head\": 7}", WEIR_E_PARSE, "n_head"},
	    {"{" GPT2 ", \"activation_function\": \"gelu\"}", WEIR_E_UNSUPPORTED, "activation_function is 'gelu': only gelu_new"},
	    {"{" GPT2 ", \"scale_attn_by_inverse_layer_idx\": true}", WEIR_E_UNSUPPORTED, "scale_attn_by_inverse_layer_idx is true"},
	    {"{" GPT2 ", \"n_inner\": -4}", WEIR_E_INVALID, "n_inner is no whole number"},
	    {"{" GPT2 ", \"n_inner\": 4294967296}", WEIR_E_INVALID, "n_inner is no whole number"},
	    {"{" GPT2 ", \"n_inner\": 4294967295}", WEIR_E_LIMIT, "n_inner is 4294967295: from 1"},
	    {"{" GPT2 ", \"layer_norm_epsilon\": \"x\"}", WEIR_E_INVALID, "layer_norm_epsilon is no number"},
	    {"{" GPT2 ", \"layer_norm_epsilon\": -1}", WEIR_E_INVALID, "epsilon is -1"},
	    {"{" GPT2 ", \"tie_word_embeddings\": 1}", WEIR_E_INVALID, "tie_word_embeddings is neither true nor false"},
	    {"{" LLAMA ", \"hidden_act\": \"gelu\"}", WEIR_E_UNSUPPORTED, "hidden_act is 'gelu': only silu"},
	    {"{" LLAMA ", \"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 4}}", WEIR_E_UNSUPPORTED,
	     "rope_scaling is of type 'yarn'"},
	    {"{" LLAMA ", \"rope_scaling\": {\"rope_type\": \"linear\"}}", WEIR_E_INVALID, "factor is 0"},
	    {"{" LLAMA
	     ", \"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 8, \"low_freq_factor\": 4, \"high_freq_factor\": 1}}",
	     WEIR_E_INVALID, "expected 0 < low < high"},
	    {"{" LLAMA
	     ", \"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 8, \"low_freq_factor\": 1, \"high_freq_factor\": 4}}",
	     WEIR_E_INVALID, "rope_scaling.original_max_position_embeddings is missing or 0"},
	    {"{" LLAMA ", \"rope_parameters\": {\"partial_rotary_factor\": 0.5}}", WEIR_E_UNSUPPORTED,
	     "partial_rotary_factor is not 1"},
	    {"{" LLAMA ", \"rope_theta\": 0.5}", WEIR_E_INVALID, "rope_theta is 0.5"},
	    {"{" LLAMA ", \"rope_theta\": 0}", WEIR_E_INVALID, "rope_theta is 0: expected above 0"},
	    {"{" LLAMA ", \"rms_norm_eps\": 1e-60}", WEIR_E_INVALID, "rms_norm_eps is 0: expected above 0"},
	    {"{" LLAMA ", \"rope_scaling\": 2}", WEIR_E_INVALID, "rope_scaling is no map"},
	    {"{" LLAMA ", \"rope_scaling\": {\"rope_type\": 2}}", WEIR_E_INVALID, "rope_scaling.rope_type is no text"},
	    {"{" LLAMA ", \"rope_scaling\": {\"factor\": \"2\", \"type\": \"linear\"}}", WEIR_E_INVALID,
	     "rope_scaling.factor is no number"},
	    {"{" LLAMA ", \"rope_parameters\": {\"full_attention\": {\"rope_type\": \"default\"}}}", WEIR_E_UNSUPPORTED,
	     "rope_parameters.full_attention is given"},
	    {"{" LLAMA ", \"original_max_position_embeddings\": 4096, \"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 8, "
	     "\"low_freq_factor\": 1, \"high_freq_factor\": 4, \"original_max_position_embeddings\": 8192}}",
	     WEIR_E_INVALID, "rope_scaling.original_max_position_embeddings is not what"},
	    {"{" LLAMA ", \"is_causal\": false}", WEIR_E_UNSUPPORTED, "is_causal is false"},
	    {"{" GPT2 ", \"is_causal\": false}", WEIR_E_UNSUPPORTED, "is_causal is false"},
	    {"{" LLAMA ", \"per_layer_config\": {\"1\": {\"rms_norm_eps\": 0.5}}}", WEIR_E_UNSUPPORTED, "per_layer_config is {"},
	    {"{" LLAMA ", \"sliding_window\": 4096}", WEIR_E_UNSUPPORTED, "sliding_window is 4096"},
	    {"{" LLAMA ", \"embedding_multiplier\": 12.0}", WEIR_E_UNSUPPORTED, "embedding_multiplier is 12"},
	    {"{" GPT2 ", \"add_cross_attention\": true}", WEIR_E_UNSUPPORTED, "add_cross_attention is true"},
	    {"{" GPT2 ", \"num_attention_heads\": 6}", WEIR_E_INVALID, "n_head is not what num_attention_heads says"},
	    {"{" GPT2 ", \"hidden_size\": \"768\"}", WEIR_E_INVALID, "hidden_size is no whole number"},
	    {"{" GPT2 ", \"n_inner\": 0}", WEIR_E_INVALID, "n_inner is 0"},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct transformer_config c;
		weir_error err = {0};
		const weir_status got = read_config(cases[i].text, &c, &err);
		if (got != cases[i].status || strstr(err.text, cases[i].says) == NULL || strstr(err.text, folder) == NULL)
			fail_msg("%s: %s (%s), expected %s (%s)", cases[i].text, weir_status_name(got), err.text,
			         weir_status_name(cases[i].status), cases[i].says);
	}
	static const char *const shapes[] = {
	    "{\"model_type\": \"gpt2\", \"vocab_size\": 9, \"n_positions\": 4, \"n_layer\": 1, \"n_head\": 3, \"n_embd\": 8}",
	    "{\"model_type\": \"llama\", \"vocab_size\": 9, \"max_position_embeddings\": 4, \"num_hidden_layers\": 1, "
	    "\"num_attention_heads\": 3, \"num_key_value_heads\": 2, \"hidden_size\": 12, \"intermediate_size\": 4}",
	    "{\"model_type\": \"llama\", \"vocab_size\": 9, \"max_position_embeddings\": 4, \"num_hidden_layers\": 1, "
	    "\"num_attention_heads\": 5, \"hidden_size\": 12, \"intermediate_size\": 4}",
	    "{\"model_type\": \"llama\", \"vocab_size\": 9, \"max_position_embeddings\": 4, \"num_hidden_layers\": 1, "
	    /* the head size, 3, is odd */
	    "\"num_attention_heads\": 4, \"hidden_size\": 12, \"intermediate_size\": 4}",
	};
	for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
		struct transformer_config c;
		weir_error err = {0};
		if (read_config(shapes[i], &c, &err) != WEIR_E_INVALID)
			fail_msg("%s: %s", shapes[i], err.text);
	}
}

/* Short, medium and long waves of Llama 3.1, by the published formula in double. */
static void frequencies_are_scaled_as_llama_3_1_does(void **state)
{
	(void)state;
	const struct rope_config r = {
	    .theta = 500000, .kind = ROPE_LLAMA3, .factor = 8, .low_factor = 1, .high_factor = 4, .original_context = 8192};
	float got[64];
	unsigned kinds[3] = {0};
	rope_frequencies(&r, 128, got);
	for (int i = 0; i < 64; i++) {
		const double f = pow(500000, -2.0 * i / 128), wave = 2 * M_PI / f;
		double want = f;
		if (wave > 8192) {
			want = f / 8;
			kinds[2]++;
		} else if (wave >= 2048) {
			const double smooth = (8192 / wave - 1) / 3;
			want = (1 - smooth) * f / 8 + smooth * f;
			kinds[1]++;
		} else {
			kinds[0]++;
		}
		if (!(fabs((double)got[i] - want) <= 1e-5 * want))
			fail_msg("frequency %d is %.9g, expected %.9g", i, (double)got[i], want);
	}
	assert_true(kinds[0] > 0 && kinds[1] > 0 && kinds[2] > 0);
}

/* --- Weights */

static const float numbers[8] = {1, 2, 3, 4, 5, 6, 7, 8};

static struct layout small_layout(void)
{
	struct layout l = {0};
	layout_add(&l, 2, 3, WEIR_INIT_ZERO, 0, "transformer.wte.weight");
	layout_add(&l, 2, 0, WEIR_INIT_ZERO, 0, "transformer.ln_f.bias");
	return l;
}

static void write_weights(const struct safetensor *tensors, uint32_t count)
{
	weir_error err = {0};
	assert_int_equal(safetensors_write(disk_system(), weights_path, tensors, count, NULL, &err), WEIR_OK);
}

static void weights_are_found_by_either_name(void **state)
{
	(void)state;
	const struct layout layout = small_layout();
	static const enum safetensor_type masks[] = {SAFETENSOR_F32, SAFETENSOR_U8,
	                                             /* the library's versions differ in the masks'
	                                              * type */
	                                             SAFETENSOR_BOOL};
	for (int i = 0; i < 6; i++) {
		const int shorter = i % 2;
		struct safetensor tensors[] = {
		    {.name = "transformer.ln_f.bias", .dims = 1, .shape = {2}, .data = numbers + 6},
		    {.name = "transformer.wte.weight", .dims = 2, .shape = {2, 3}, .data = numbers},
		    {.name = "h.0.attn.bias", .type = masks[i / 2], .dims = 1, .shape = {1}, .data = numbers},
		    {.name = "lm_head.weight", .dims = 2, .shape = {2, 3}, .data = numbers},
		};
		for (int k = 0; shorter && k < 2; k++)
			memmove(tensors[k].name, tensors[k].name + strlen("transformer."),
			        strlen(tensors[k].name) - strlen("transformer.") + 1);
		write_weights(tensors, 4);
		struct model_weights *w;
		weir_error err = {0};
		if (model_folder_open(&w, folder, &layout, &err) != WEIR_OK)
			fail_msg("%s", err.text);
		float out[8];
		for (uint64_t first = 0; first < 8; first++)
			for (uint64_t n = 0; n <= 8 - first; n++) {
				model_folder_read(w, first, n, out);
				assert_memory_equal(out, numbers + first, n * sizeof *out);
			}
		model_folder_close(w);
	}
}

/* config.json ties the head, but a head in the weights overrides it. */
static void a_head_that_differs_is_its_own(void **state)
{
	(void)state;
	static const float other[6] = {1, 2, 3, 4, 5, 7}, none[6] = {1, 2, NAN, 4, 5, 6};
	static const struct {
		const char *embedding;
		const float *head; /* NULL: not in the file */
		enum safetensor_type type;
		bool tied;
	} cases[] = {{"transformer.wte.weight", NULL, SAFETENSOR_F32, true},
	             {"transformer.wte.weight", numbers, SAFETENSOR_F32, true},
	             {"wte.weight", numbers, SAFETENSOR_BF16, true},
	             {"wte.weight", other, SAFETENSOR_F32, false},
	             {"transformer.wte.weight", other, SAFETENSOR_BF16, false},
	             {"wte.weight", none, SAFETENSOR_F32, false}};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		uint16_t halves[6];
		struct safetensor tensors[2] = {{.dims = 2, .shape = {2, 3}, .data = numbers},
		                                {.name = "lm_head.weight", .type = cases[i].type, .dims = 2, .shape = {2, 3}}};
		snprintf(tensors[0].name, sizeof tensors[0].name, "%s", cases[i].embedding);
		if (cases[i].head != NULL && cases[i].type == SAFETENSOR_BF16)
			safetensor_round(SAFETENSOR_BF16, cases[i].head, 6, halves);
		tensors[1].data = cases[i].type == SAFETENSOR_BF16 ? (const void *)halves : cases[i].head;
		write_weights(tensors, cases[i].head != NULL ? 2 : 1);
		const struct transformer_config c =
		    config_of("{\"model_type\": \"gpt2\", \"vocab_size\": 2, \"n_positions\": 4, \"n_layer\": 1, "
		              "\"n_head\": 1, \"n_embd\": 3}");
		if (c.tied_head != cases[i].tied)
			fail_msg("case %zu: tied is %d", i, c.tied_head);
	}
	unlink(weights_path);
	assert_true(config_of("{" GPT2 "}").tied_head); /* without weights, config.json decides */
}

static void models_that_differ_are_told_by_key(void **state)
{
	(void)state;
	static const struct {
		const char *a, *b, *says; /* a, b: NULL if the same */
	} cases[] = {
	    {"{" LLAMA "}",
	     "{" LLAMA ", \"rms_norm_eps\": 1e-6, \"rope_theta\": 10000, \"rope_parameters\": {\"rope_type\": \"default\"}}", NULL},
	    {"{" LLAMA "}", "{" LLAMA ", \"rms_norm_eps\": 1e-5}", "its rms_norm_eps is 1e-06, and that one's 1e-05"},
	    {"{" LLAMA "}", "{" LLAMA ", \"mlp_bias\": true}", "its mlp_bias is 0, and that one's 1"},
	    {"{" LLAMA "}", "{" LLAMA ", \"tie_word_embeddings\": true}",
	     "its head (tie_word_embeddings) is its own, and that one's the embedding"},
	    {"{" LLAMA ", \"rope_theta\": 500000}", "{" LLAMA "}", "default, theta 500000, and that one's default, theta 10000"},
	    {"{" LLAMA ", \"rope_scaling\": {\"type\": \"linear\", \"factor\": 2}}",
	     "{" LLAMA ", \"rope_scaling\": {\"type\": \"linear\", \"factor\": 4}}",
	     "factor 2, and that one's linear, theta 10000, factor 4"},
	    {"{" GPT2 "}", "{" LLAMA "}", "its model_type is gpt2, and that one's llama"},
	    {"{" GPT2 ", \"layer_norm_epsilon\": 1e-5}", "{" GPT2 "}", NULL},
	    {"{" GPT2 ", \"n_inner\": 768}", "{" GPT2 "}", "its n_inner is 768, and that one's 3072"},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		const struct transformer_config a = config_of(cases[i].a), b = config_of(cases[i].b);
		weir_error err = {0};
		const weir_status got = transformer_config_same(&a, "THIS", &b, "THAT", &err);
		if (got != (cases[i].says != NULL ? WEIR_E_INVALID : WEIR_OK) ||
		    (cases[i].says != NULL && strstr(err.text, cases[i].says) == NULL))
			fail_msg("case %zu: %s, expected %s", i, err.text, cases[i].says != NULL ? cases[i].says : "the same");
	}
}

static void expect_refused(const struct safetensor *tensors, uint32_t count, weir_status status, const char *says)
{
	const struct layout layout = small_layout();
	struct model_weights *w = NULL;
	weir_error err = {0};
	write_weights(tensors, count);
	const weir_status got = model_folder_open(&w, folder, &layout, &err);
	if (got != status || strstr(err.text, says) == NULL || strstr(err.text, folder) == NULL || w != NULL)
		fail_msg("%s (%s), expected %s (%s)", weir_status_name(got), err.text, weir_status_name(status), says);
}

static void weights_that_do_not_fit_are_named(void **state)
{
	(void)state;
	const struct safetensor bias = {.name = "ln_f.bias", .dims = 1, .shape = {2}, .data = numbers},
	                        table = {.name = "wte.weight", .dims = 2, .shape = {2, 3}, .data = numbers};
	expect_refused(&bias, 1, WEIR_E_NOT_FOUND, "'transformer.wte.weight', which its config.json asks for");
	struct safetensor wrong[] = {bias, table, table};
	wrong[1].shape[0] = 3;
	wrong[1].shape[1] = 2;
	expect_refused(wrong, 2, WEIR_E_INVALID, "'wte.weight' has shape [3, 2], its config.json says [2, 3]");
	wrong[1] = table;
	wrong[0].shape[0] = 1;
	expect_refused(wrong, 2, WEIR_E_INVALID, "'ln_f.bias' has shape [1], its config.json says [2]");
	wrong[0] = bias;
	wrong[0].dims = 2;
	wrong[0].shape[1] = 1;
	expect_refused(wrong, 2, WEIR_E_INVALID, "has shape [2, 1], its config.json says [2]");
	wrong[0] = bias;
	wrong[0].type = SAFETENSOR_U8;
	expect_refused(wrong, 2, WEIR_E_INVALID, "'ln_f.bias' is of U8: expected F32, BF16 or F16");
	wrong[0] = bias;
	snprintf(wrong[2].name, sizeof wrong[2].name, "h.7.mlp.weight");
	expect_refused(wrong, 3, WEIR_E_UNSUPPORTED, "'h.7.mlp.weight' does not belong to this model");
	struct safetensor twice[] = {bias, table, table};
	snprintf(twice[2].name, sizeof twice[2].name, "transformer.wte.weight");
	expect_refused(twice, 3, WEIR_E_INVALID, "two tensors for one, 'transformer.wte.weight' and 'wte.weight'");
	unlink(weights_path);
	const struct layout layout = small_layout();
	struct model_weights *w = NULL;
	weir_error err = {0};
	assert_int_equal(model_folder_open(&w, folder, &layout, &err), WEIR_E_NOT_FOUND);
	assert_non_null(strstr(err.text, "model.safetensors"));
}

static void weights_that_are_no_numbers_are_named(void **state)
{
	(void)state;
	const struct layout layout = small_layout();
	for (int i = 0; i < 9; i++) {
		float odd[8];
		memcpy(odd, numbers, sizeof odd);
		if (i < 8)
			odd[i] = i % 2 == 0 ? NAN : -INFINITY;
		const struct safetensor tensors[] = {{.name = "ln_f.bias", .dims = 1, .shape = {2}, .data = odd + 6},
		                                     {.name = "wte.weight", .dims = 2, .shape = {2, 3}, .data = odd}};
		struct model_weights *w;
		weir_error err = {0};
		write_weights(tensors, 2);
		assert_int_equal(model_folder_open(&w, folder, &layout, &err), WEIR_OK);
		assert_int_equal(model_folder_check_finite(w, folder, &err), i < 8 ? WEIR_E_INVALID : WEIR_OK);
		assert_true(i == 8 || strstr(err.text, i < 6 ? "'wte.weight' has a NaN" : "'ln_f.bias' has a NaN") != NULL);
		model_folder_close(w);
	}
	unlink(weights_path);
}

/* A read must not block until a writer opens the pipe. */
static void a_pipe_is_no_file_of_weights(void **state)
{
	(void)state;
	const struct layout layout = small_layout();
	struct model_weights *w = NULL;
	weir_error err = {0};
	assert_int_equal(mkfifo(weights_path, 0600), 0);
	assert_int_equal(model_folder_open(&w, folder, &layout, &err), WEIR_E_INVALID);
	assert_non_null(strstr(err.text, "model.safetensors is not a file"));
	unlink(weights_path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(configurations_are_read),
	    cmocka_unit_test(unsupported_settings_are_named),
	    cmocka_unit_test(frequencies_are_scaled_as_llama_3_1_does),
	    cmocka_unit_test(weights_are_found_by_either_name),
	    cmocka_unit_test(a_head_that_differs_is_its_own),
	    cmocka_unit_test(models_that_differ_are_told_by_key),
	    cmocka_unit_test(weights_that_do_not_fit_are_named),
	    cmocka_unit_test(weights_that_are_no_numbers_are_named),
	    cmocka_unit_test(a_pipe_is_no_file_of_weights),
	};
	return cmocka_run_group_tests_name("model_folder", tests, make_folder, remove_folder);
}
