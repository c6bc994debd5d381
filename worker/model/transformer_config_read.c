/* Reads a config.json. A null key counts as absent. Keeps the first failure. */
#include <stdio.h>
#include <string.h>

#include "common/base/limits.h"
#include "common/web/json.h"
#include "worker/model/transformer_config.h"

struct reader {
	const char *path;
	const struct json_value *root;
	weir_status status;
	weir_error *err;
};

static bool has(const struct reader *r, const char *key)
{
	return !json_is_absent(json_member(r->root, key));
}

static void fail(struct reader *r, weir_status status, const char *key, const char *what)
{
	if (r->status == WEIR_OK)
		r->status = weir_fail(r->err, status, "%s: %s %s", r->path, key, what);
}

static uint32_t count(struct reader *r, const char *key, bool needed)
{
	uint64_t n = 0;
	if (!has(r, key)) {
		if (needed)
			fail(r, WEIR_E_INVALID, key, "is missing: it must say how many");
		return 0;
	}
	if (!json_value_count(json_member(r->root, key), &n) || n > UINT32_MAX)
		fail(r, WEIR_E_INVALID, key, "is no whole number of 32 bits");
	else if (n == 0 && !needed) /* 0 must not count as absent */
		fail(r, WEIR_E_INVALID, key, "is 0: expected at least 1, or null");
	return (uint32_t)n;
}

/* Returns `otherwise` if the key is absent. name: for errors. */
static double value_number(struct reader *r, const struct json_value *v, const char *name, double otherwise)
{
	double x = otherwise;
	if (!json_is_absent(v) && !json_value_real(v, &x))
		fail(r, WEIR_E_INVALID, name, "is no number");
	return x;
}

/* Returns 0 if the key is absent. */
static double positive(struct reader *r, const struct json_value *v, const char *name)
{
	const double x = value_number(r, v, name, 0);
	if (!json_is_absent(v) && (float)x == 0)
		fail(r, WEIR_E_INVALID, name, "is 0: expected above 0");
	return x;
}

static bool flag(struct reader *r, const char *key, bool otherwise)
{
	bool value = otherwise;
	if (has(r, key) && !json_value_bool(json_member(r->root, key), otherwise, &value))
		fail(r, WEIR_E_INVALID, key, "is neither true nor false");
	return value;
}

/* Only the value `only` can be computed. */
static void want_flag(struct reader *r, const char *key, bool only)
{
	if (flag(r, key, only) != only)
		fail(r, WEIR_E_UNSUPPORTED, key, only ? "is false: only true can be computed" : "is true: only false can be computed");
}

static void want_text(struct reader *r, const char *key, const char *const *allowed)
{
	size_t bytes = 0;
	const char *text = json_value_text(json_member(r->root, key), &bytes);
	if (!has(r, key))
		return;
	for (const char *const *a = allowed; text && *a != NULL; a++)
		if (strcmp(text, *a) == 0)
			return;
	char what[128];
	snprintf(what, sizeof what, "is '%.40s': only %s can be computed", text ? text : "?", allowed[0]);
	fail(r, WEIR_E_UNSUPPORTED, key, what);
}

/* --- Unsupported features */

/* Keys that change how a model computes, and their neutral numbers. An absent, null, false or empty
 * key is neutral too. */
static const struct {
	const char *key;
	double neutral;
} not_computed[] = {{"add_cross_attention", 0},
                    {"alibi", 0},
                    {"attention_multiplier", 0},
                    {"attn_logit_softcapping", 0},
                    {"clip_qkv", 0},
                    {"compression_config", 0},
                    {"embedding_multiplier", 1},
                    {"final_logit_softcapping", 0},
                    {"is_encoder_decoder", 0},
                    {"logit_scale", 1},
                    {"logits_scaling", 1},
                    {"no_rope_layers", 0},
                    {"partial_rotary_factor", 1},
                    {"per_layer_config", 0},
                    {"pruned_heads", 0},
                    {"qk_layernorm", 0},
                    {"quantization_config", 0},
                    {"query_pre_attn_scalar", 0},
                    {"residual_multiplier", 1},
                    {"rope_interleaved", 0},
                    {"rotary_pct", 1},
                    {"transformers_weights", 0},
                    {"use_parallel_residual", 0},
                    {"use_qk_norm", 0}};

static void refuse_value(struct reader *r, const char *key, const char *why)
{
	char value[64], what[160];
	json_value_show(json_member(r->root, key), value, sizeof value);
	snprintf(what, sizeof what, "is %s: %s", value, why);
	fail(r, WEIR_E_UNSUPPORTED, key, what);
}

static void refuse_not_computed(struct reader *r, uint32_t context)
{
	double window;
	bool uses_window = true;
	const struct json_value *v = json_member(r->root, "sliding_window"), *layers = json_member(r->root, "layer_types");
	for (size_t i = 0; i < sizeof not_computed / sizeof *not_computed; i++)
		if (!json_value_is_off(json_member(r->root, not_computed[i].key), not_computed[i].neutral))
			refuse_value(r, not_computed[i].key, "it is not computed");
	if (json_value_bool(json_member(r->root, "use_sliding_window"), true, &uses_window) && uses_window &&
	    !json_value_is_off(v, 0) && !(json_value_real(v, &window) && window >= context))
		refuse_value(r, "sliding_window", "only attention to all tokens can be computed");
	for (size_t i = 0; i < json_length(layers); i++) {
		const char *type = json_value_text(json_element(layers, i), NULL);
		if (!type || strcmp(type, "full_attention") != 0)
			refuse_value(r, "layer_types", "only full_attention can be computed");
	}
}

/* --- Families */

/* Reads a key that has two names. Both may be given if they agree. */
static uint32_t count_either(struct reader *r, const char *key, const char *other)
{
	if (!has(r, other))
		return count(r, key, true);
	const uint32_t n = count(r, other, true);
	if (has(r, key) && count(r, key, true) != n) {
		char what[96];
		snprintf(what, sizeof what, "is not what %s says: expected one of them", other);
		fail(r, WEIR_E_INVALID, key, what);
	}
	return n;
}

static void read_gpt2(struct reader *r, struct transformer_config *c)
{
	static const char *const activations[] = {"gelu_new", "gelu_pytorch_tanh", NULL};
	want_text(r, "activation_function", activations);
	want_flag(r, "scale_attn_weights", true);
	want_flag(r, "scale_attn_by_inverse_layer_idx", false);
	const bool older = has(r, "n_ctx") && !has(r, "n_positions");
	c->context = count_either(r, older ? "n_ctx" : "n_positions", "max_position_embeddings");
	c->layers = count_either(r, "n_layer", "num_hidden_layers");
	c->heads = count_either(r, "n_head", "num_attention_heads");
	c->width = count_either(r, "n_embd", "hidden_size");
	c->hidden = count(r, "n_inner", false);
	c->norm_eps = (float)positive(r, json_member(r->root, "layer_norm_epsilon"), "layer_norm_epsilon");
	c->tied_head = flag(r, "tie_word_embeddings", true);
}

/* --- Rotary positions */

/* A map and its name, and the full name of one of its members. */
struct rope_map {
	const char *name;
	const struct json_value *v;
	char key[64];
};

static const struct json_value *inside(struct rope_map *m, const char *key)
{
	snprintf(m->key, sizeof m->key, "%s.%s", m->name, key);
	return json_member(m->v, key);
}

static double number_inside(struct reader *r, struct rope_map *m, const char *key)
{
	const struct json_value *v = inside(m, key);
	return value_number(r, v, m->key, 0);
}

static const char *rope_type(struct reader *r, struct rope_map *m)
{
	const struct json_value *older = json_member(m->v, "type"), *type = inside(m, "rope_type");
	if (!json_is_absent(older) && !json_is_absent(type) && !json_value_equal(older, type))
		fail(r, WEIR_E_INVALID, m->key, "is not what its type says: expected one of them");
	if (json_is_absent(type))
		type = older;
	if (json_is_absent(type) && !json_is_absent(json_member(m->v, "factor")))
		fail(r, WEIR_E_INVALID, m->key, "is missing, and there is a factor");
	if (json_is_absent(type))
		return "default";
	const char *text = json_value_text(type, NULL);
	if (!text)
		fail(r, WEIR_E_INVALID, m->key, "is no text");
	return text ? text : "default";
}

/* Reads the key inside the map, or else the one beside it. 0: both are missing; versions of
 * transformers disagree about that case. */
static void read_original_context(struct reader *r, struct rope_map *m, struct rope_config *out)
{
	static const char key[] = "original_max_position_embeddings";
	const uint32_t beside = has(r, key) ? count(r, key, true) : 0;
	const double original = number_inside(r, m, key);
	out->original_context = original >= 1 && original <= WEIR_POSITIONS_MAX ? (uint32_t)original : 0;
	if (json_is_absent(json_member(m->v, key)))
		out->original_context = beside;
	else if (has(r, key) && beside != out->original_context)
		fail(r, WEIR_E_INVALID, m->key, "is not what the key of that name beside the map says: expected one of them");
}

static void read_llama3(struct reader *r, struct rope_map *m, struct rope_config *out)
{
	out->low_factor = number_inside(r, m, "low_freq_factor");
	out->high_factor = number_inside(r, m, "high_freq_factor");
	read_original_context(r, m, out);
}

static void read_rope_map(struct reader *r, struct rope_map *m, struct rope_config *out)
{
	const struct json_value *theta = inside(m, "rope_theta");
	if (!json_is_absent(theta)) {
		const double outside = out->theta;
		out->theta = positive(r, theta, m->key);
		if (has(r, "rope_theta") && (outside < out->theta || outside > out->theta))
			fail(r, WEIR_E_INVALID, m->key, "is not what the rope_theta beside the map says: expected one of them");
	}
	if (!json_value_is_off(inside(m, "partial_rotary_factor"), 1))
		fail(r, WEIR_E_UNSUPPORTED, m->key, "is not 1: only whole heads are turned");
	static const char *const layers[] = {"full_attention", "sliding_attention"};
	for (size_t i = 0; i < sizeof layers / sizeof *layers; i++)
		if (!json_is_absent(inside(m, layers[i])))
			fail(r, WEIR_E_UNSUPPORTED, m->key, "is given: all layers are turned alike");
	const char *type = rope_type(r, m);
	if (strcmp(type, "default") == 0)
		return;
	if (strcmp(type, "linear") == 0) {
		out->kind = ROPE_LINEAR;
	} else if (strcmp(type, "llama3") == 0) {
		out->kind = ROPE_LLAMA3;
		read_llama3(r, m, out);
	} else {
		char what[128];
		snprintf(what, sizeof what, "is of type '%.40s': default, linear and llama3 can be computed", type);
		fail(r, WEIR_E_UNSUPPORTED, m->name, what);
	}
	out->factor = number_inside(r, m, "factor");
}

/* Reads "rope_scaling" (transformers 4) or "rope_parameters" (5), which has theta too. If both are
 * given they must agree, as the versions disagree about which one counts. */
static void read_rope(struct reader *r, struct rope_config *out)
{
	struct rope_map maps[] = {{.name = "rope_scaling"}, {.name = "rope_parameters"}};
	struct rope_config read[2];
	uint32_t given = 0;
	const double theta = positive(r, json_member(r->root, "rope_theta"), "rope_theta");
	out->theta = has(r, "rope_theta") ? theta : ROPE_THETA_DEFAULT;
	for (size_t i = 0; i < sizeof maps / sizeof *maps; i++) {
		maps[i].v = json_member(r->root, maps[i].name);
		if (!json_is_absent(maps[i].v) && !json_is_map(maps[i].v))
			fail(r, WEIR_E_INVALID, maps[i].name, "is no map");
		if (json_length(maps[i].v) == 0)
			continue;
		read[given] = *out;
		read_rope_map(r, &maps[i], &read[given++]);
	}
	if (given == 2 && !rope_same(&read[0], &read[1]))
		fail(r, WEIR_E_INVALID, "rope_scaling", "is not what rope_parameters says: expected one of them");
	if (given > 0)
		*out = read[0];
}

static void read_llama(struct reader *r, struct transformer_config *c)
{
	static const char *const activations[] = {"silu", "swish", NULL};
	want_text(r, "hidden_act", activations);
	c->context = count(r, "max_position_embeddings", true);
	c->layers = count(r, "num_hidden_layers", true);
	c->heads = count(r, "num_attention_heads", true);
	c->kv_heads = count(r, "num_key_value_heads", false);
	c->head_dim = count(r, "head_dim", false);
	c->width = count(r, "hidden_size", true);
	c->hidden = count(r, "intermediate_size", true);
	c->norm_eps = (float)positive(r, json_member(r->root, "rms_norm_eps"), "rms_norm_eps");
	c->tied_head = flag(r, "tie_word_embeddings", false);
	c->attention_bias = flag(r, "attention_bias", false);
	c->mlp_bias = flag(r, "mlp_bias", false);
	if (c->head_dim == 0 && c->heads > 0 && c->width % c->heads != 0)
		fail(r, WEIR_E_INVALID, "hidden_size", "is no multiple of num_attention_heads, and there is no head_dim");
	read_rope(r, &c->rope);
}

static void read_all(struct reader *r, struct transformer_config *c)
{
	size_t bytes = 0;
	const char *type = json_value_text(json_member(r->root, "model_type"), &bytes);
	if (type && strcmp(type, "gpt2") == 0) {
		c->family = TRANSFORMER_GPT2;
		read_gpt2(r, c);
	} else if (type && strcmp(type, "llama") == 0) {
		c->family = TRANSFORMER_LLAMA;
		read_llama(r, c);
	} else {
		char what[128];
		snprintf(what, sizeof what, "is '%.40s': gpt2 and llama can be computed", type ? type : "");
		fail(r, WEIR_E_UNSUPPORTED, "model_type", what);
	}
	want_flag(r, "is_causal", true); /* if false, transformers 5 attends to later tokens too */
	c->vocabulary = count(r, "vocab_size", true);
	c->init_std = (float)value_number(r, json_member(r->root, "initializer_range"), "initializer_range", 0);
	refuse_not_computed(r, c->context);
}

weir_status transformer_config_read(const char *path, struct transformer_config *out, weir_error *err)
{
	struct json *json = NULL;
	weir_status status = json_read_file(path, &json, err);
	if (status != WEIR_OK)
		return status;
	struct reader r = {.path = path, .root = json_root(json), .status = WEIR_OK, .err = err};
	*out = (struct transformer_config){0};
	read_all(&r, out);
	json_destroy(json);
	if (r.status != WEIR_OK)
		return r.status;
	transformer_config_default(out);
	return transformer_config_check(out, path, err);
}
