/* Writes a config.json that transformers and transformer_config_read understand. */
#include <stdio.h>
#include <stdlib.h>

#include "worker/model/transformer_config.h"

#define FLOAT_DIGITS_MAX 9 /* digits that distinguish every fp32 */

/* Returns the shortest decimal number that is x as fp32: 1e-05, not 9.99999974737875e-06. */
static double short_number(float x)
{
	char text[32];
	for (int digits = 1; digits <= FLOAT_DIGITS_MAX; digits++) {
		snprintf(text, sizeof text, "%.*g", digits, (double)x);
		if (strtof(text, NULL) == x)
			break;
	}
	return strtod(text, NULL);
}

static void put_gpt2(const struct transformer_config *c, struct json *j)
{
	static const char *const dropouts[] = {"attn_pdrop", "embd_pdrop", "resid_pdrop"};
	json_set_text(j, "model_type", "gpt2");
	json_append_text(j, "architectures", "GPT2LMHeadModel");
	json_set_text(j, "activation_function", "gelu_new");
	json_set_count(j, "n_positions", c->context);
	json_set_count(j, "n_layer", c->layers);
	json_set_count(j, "n_head", c->heads);
	json_set_count(j, "n_embd", c->width);
	json_set_count(j, "n_inner", c->hidden);
	json_set_real(j, "layer_norm_epsilon", short_number(c->norm_eps));
	for (size_t i = 0; i < sizeof dropouts / sizeof *dropouts; i++)
		json_set_real(j, dropouts[i], 0);
}

static void put_rope(const struct rope_config *r, struct json *j)
{
	json_set_real(j, "rope_theta", r->theta);
	json_set_null(j, "rope_scaling");
	if (r->kind == ROPE_PLAIN)
		return;
	struct json *scaling = json_create();
	json_set_text(scaling, "rope_type", r->kind == ROPE_LINEAR ? "linear" : "llama3");
	json_set_real(scaling, "factor", r->factor);
	if (r->kind == ROPE_LLAMA3) {
		json_set_real(scaling, "low_freq_factor", r->low_factor);
		json_set_real(scaling, "high_freq_factor", r->high_factor);
		json_set_count(scaling, "original_max_position_embeddings", r->original_context);
	}
	json_set_object(j, "rope_scaling", scaling);
}

static void put_llama(const struct transformer_config *c, struct json *j)
{
	json_set_text(j, "model_type", "llama");
	json_append_text(j, "architectures", "LlamaForCausalLM");
	json_set_text(j, "hidden_act", "silu");
	json_set_count(j, "max_position_embeddings", c->context);
	json_set_count(j, "num_hidden_layers", c->layers);
	json_set_count(j, "num_attention_heads", c->heads);
	json_set_count(j, "num_key_value_heads", c->kv_heads);
	json_set_count(j, "head_dim", c->head_dim);
	json_set_count(j, "hidden_size", c->width);
	json_set_count(j, "intermediate_size", c->hidden);
	json_set_real(j, "rms_norm_eps", short_number(c->norm_eps));
	json_set_bool(j, "attention_bias", c->attention_bias);
	json_set_bool(j, "mlp_bias", c->mlp_bias);
	json_set_real(j, "attention_dropout", 0);
	put_rope(&c->rope, j);
}

void transformer_config_put(const struct transformer_config *c, struct json *j)
{
	if (c->family == TRANSFORMER_GPT2)
		put_gpt2(c, j);
	else
		put_llama(c, j);
	json_set_count(j, "vocab_size", c->vocabulary);
	json_set_real(j, "initializer_range", short_number(c->init_std));
	json_set_bool(j, "tie_word_embeddings", c->tied_head);
}
