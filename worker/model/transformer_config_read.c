/* Reads a config.json. A key that is null is one that is absent. The first failure is kept. */
#include <stdio.h>
#include <string.h>

#include "json.h"
#include "limits.h"
#include "transformer_config.h"

struct reader {
	const char *path;
	const struct json *json;
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
	return (uint32_t)n;
}

/* `otherwise` where it is absent. path: dotted. */
static double number(struct reader *r, const char *path, double otherwise)
{
	double x = otherwise;
	char key[64];
	const size_t map = strcspn(path, ".");
	const struct json_value *v = json_member(r->root, path);
	if (path[map] == '.') {
		snprintf(key, sizeof key, "%.*s", (int)map, path);
		v = json_member(json_member(r->root, key), path + map + 1);
	}
	if (!json_is_absent(v) && !json_get_real(r->json, path, &x))
		fail(r, WEIR_E_INVALID, path, "is no number");
	return x;
}

static bool flag(struct reader *r, const char *key, bool otherwise)
{
	bool value = otherwise;
	if (has(r, key) && !json_value_bool(json_member(r->root, key), otherwise, &value))
		fail(r, WEIR_E_INVALID, key, "is neither true nor false");
	return value;
}

/* What only one value of can be computed. */
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
	for (const char *const *a = allowed; text != NULL && *a != NULL; a++)
		if (strcmp(text, *a) == 0)
			return;
	char what[128];
	snprintf(what, sizeof what, "is '%.40s': only %s can be computed", text != NULL ? text : "?", allowed[0]);
	fail(r, WEIR_E_UNSUPPORTED, key, what);
}

static void read_gpt2(struct reader *r, struct transformer_config *c)
{
	static const char *const activations[] = {"gelu_new", "gelu_pytorch_tanh", NULL};
	want_text(r, "activation_function", activations);
	want_flag(r, "scale_attn_weights", true);
	want_flag(r, "scale_attn_by_inverse_layer_idx", false);
	want_flag(r, "add_cross_attention", false);
	c->context = count(r, has(r, "n_ctx") && !has(r, "n_positions") ? "n_ctx" : "n_positions", true);
	c->layers = count(r, "n_layer", true);
	c->heads = count(r, "n_head", true);
	c->width = count(r, "n_embd", true);
	c->hidden = count(r, "n_inner", false);
	c->norm_eps = (float)number(r, "layer_norm_epsilon", 0);
	c->tied_head = flag(r, "tie_word_embeddings", true);
}

/* Of "rope_scaling" (transformers 4), or "rope_parameters" (5), which has theta too. */
static void read_rope(struct reader *r, struct rope_config *out)
{
	const char *map = has(r, "rope_parameters") ? "rope_parameters" : "rope_scaling";
	const struct json_value *v = json_member(r->root, map);
	char path[64];
	size_t bytes;
	out->theta = number(r, "rope_theta", 0);
	if (json_is_absent(v))
		return;
#define INSIDE(key) (snprintf(path, sizeof path, "%s.%s", map, key), path)
	out->theta = number(r, INSIDE("rope_theta"), out->theta);
	if (number(r, INSIDE("partial_rotary_factor"), 1) != 1)
		fail(r, WEIR_E_UNSUPPORTED, path, "is not 1: only whole heads are turned");
	const char *kind = json_value_text(json_member(v, "rope_type"), &bytes);
	if (kind == NULL)
		kind = json_value_text(json_member(v, "type"), &bytes);
	if (kind == NULL || strcmp(kind, "default") == 0)
		return;
	if (strcmp(kind, "linear") == 0) {
		out->kind = ROPE_LINEAR;
	} else if (strcmp(kind, "llama3") == 0) {
		out->kind = ROPE_LLAMA3;
		out->low_factor = number(r, INSIDE("low_freq_factor"), 0);
		out->high_factor = number(r, INSIDE("high_freq_factor"), 0);
		const double original = number(r, INSIDE("original_max_position_embeddings"), 0);
		out->original_context = original >= 1 && original <= WEIR_POSITIONS_MAX ? (uint32_t)original : 0;
	} else {
		char what[128];
		snprintf(what, sizeof what, "is of type '%.40s': default, linear and llama3 can be computed", kind);
		fail(r, WEIR_E_UNSUPPORTED, map, what);
	}
	out->factor = number(r, INSIDE("factor"), 0);
#undef INSIDE
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
	c->norm_eps = (float)number(r, "rms_norm_eps", 0);
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
	if (type != NULL && strcmp(type, "gpt2") == 0) {
		c->family = TRANSFORMER_GPT2;
		read_gpt2(r, c);
	} else if (type != NULL && strcmp(type, "llama") == 0) {
		c->family = TRANSFORMER_LLAMA;
		read_llama(r, c);
	} else {
		char what[128];
		snprintf(what, sizeof what, "is '%.40s': gpt2 and llama can be computed", type != NULL ? type : "");
		fail(r, WEIR_E_UNSUPPORTED, "model_type", what);
	}
	c->vocabulary = count(r, "vocab_size", true);
	c->init_std = (float)number(r, "initializer_range", 0);
}

weir_status transformer_config_read(const char *path, struct transformer_config *out, weir_error *err)
{
	struct json *json = NULL;
	weir_status s = json_read_file(path, &json, err);
	if (s != WEIR_OK)
		return s;
	struct reader r = {.path = path, .json = json, .root = json_root(json), .status = WEIR_OK, .err = err};
	*out = (struct transformer_config){0};
	read_all(&r, out);
	json_destroy(json);
	if (r.status != WEIR_OK)
		return r.status;
	transformer_config_default(out);
	return transformer_config_check(out, path, err);
}
