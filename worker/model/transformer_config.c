#include "transformer_config.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "backend.h"
#include "json.h"
#include "limits.h"

#define GPT2_HIDDEN_TIMES 4

void transformer_config_default(struct transformer_config *c)
{
	const bool gpt2 = c->family == TRANSFORMER_GPT2;
	c->kv_heads = c->kv_heads == 0 ? c->heads : c->kv_heads;
	if (c->head_dim == 0 && c->heads > 0)
		c->head_dim = c->width / c->heads;
	if (c->hidden == 0)
		c->hidden = GPT2_HIDDEN_TIMES * c->width;
	c->norm_eps = c->norm_eps == 0 ? gpt2 ? 1e-5f : 1e-6f : c->norm_eps;
	c->init_std = c->init_std == 0 ? 0.02f : c->init_std;
	c->attention_bias |= gpt2;
	c->mlp_bias |= gpt2;
	c->rope.theta = c->rope.theta == 0 ? 10000 : c->rope.theta;
}

static weir_status check_rope(const struct transformer_config *c, const char *name, weir_error *err)
{
	const struct rope_config *r = &c->rope;
	if (c->head_dim % 2 != 0)
		return weir_fail(err, WEIR_E_INVALID, "%s: head_dim is %u: rotary positions turn pairs, it must be even", name,
		                 c->head_dim);
	if (!(r->theta > 1 && isfinite(r->theta)))
		return weir_fail(err, WEIR_E_INVALID, "%s: rope_theta is %g: expected above 1", name, r->theta);
	if (r->kind != ROPE_PLAIN && !(r->factor >= 1 && isfinite(r->factor)))
		return weir_fail(err, WEIR_E_INVALID, "%s: rope_scaling.factor is %g: expected at least 1", name, r->factor);
	if (r->kind == ROPE_LLAMA3 && !(r->low_factor > 0 && r->high_factor > r->low_factor && isfinite(r->high_factor)))
		return weir_fail(err, WEIR_E_INVALID,
		                 "%s: rope_scaling.low_freq_factor is %g and high_freq_factor %g: expected 0 < low < high", name,
		                 r->low_factor, r->high_factor);
	if (r->kind == ROPE_LLAMA3 && r->original_context == 0)
		return weir_fail(err, WEIR_E_INVALID, "%s: rope_scaling.original_max_position_embeddings is 0", name);
	return WEIR_OK;
}

weir_status transformer_config_check(const struct transformer_config *c, const char *name, weir_error *err)
{
	const bool gpt2 = c->family == TRANSFORMER_GPT2;
	const struct {
		const char *key;
		uint64_t value, most;
	} sizes[] = {
	    {"vocab_size", c->vocabulary, WEIR_VOCABULARY_MAX},
	    {gpt2 ? "n_positions" : "max_position_embeddings", c->context, WEIR_POSITIONS_MAX},
	    {gpt2 ? "n_layer" : "num_hidden_layers", c->layers, WEIR_LAYERS_MAX},
	    {gpt2 ? "n_head" : "num_attention_heads", c->heads, WEIR_LAYER_WIDTH_MAX},
	    {"num_key_value_heads", c->kv_heads, WEIR_LAYER_WIDTH_MAX},
	    {gpt2 ? "n_embd" : "hidden_size", c->width, WEIR_LAYER_WIDTH_MAX},
	    {"head_dim", c->head_dim, ATTENTION_DIM_MAX},
	    {gpt2 ? "n_inner" : "intermediate_size", c->hidden, 4 * WEIR_LAYER_WIDTH_MAX},
	};
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
		if (sizes[i].value == 0 || sizes[i].value > sizes[i].most)
			return weir_fail(err, WEIR_E_LIMIT, "%s: %s is %" PRIu64 ": from 1 to %" PRIu64 " can be had", name, sizes[i].key,
			                 sizes[i].value, sizes[i].most);
	if (c->heads % c->kv_heads != 0)
		return weir_fail(err, WEIR_E_INVALID, "%s: %u heads cannot be shared out over num_key_value_heads %u", name, c->heads,
		                 c->kv_heads);
	if (gpt2 && (c->kv_heads != c->heads || (uint64_t)c->heads * c->head_dim != c->width))
		return weir_fail(err, WEIR_E_INVALID, "%s: n_embd is %u: expected a multiple of n_head (%u)", name, c->width, c->heads);
	if (!(c->norm_eps > 0 && c->norm_eps < 1))
		return weir_fail(err, WEIR_E_INVALID, "%s: the norms' epsilon is %g: expected above 0 and below 1", name,
		                 (double)c->norm_eps);
	if (!(c->init_std >= 0 && c->init_std < 10))
		return weir_fail(err, WEIR_E_INVALID, "%s: initializer_range is %g: expected from 0 to below 10", name,
		                 (double)c->init_std);
	return gpt2 ? WEIR_OK : check_rope(c, name, err);
}

/* --- Reading. A key that is null is one that is absent. The first failure is kept. */

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

/* --- Rotary positions */

/* Llama 3.1's: long waves are slowed down by `factor`, short ones not, and those between by a share of each. */
static float llama3_frequency(const struct rope_config *r, float f)
{
	const float context = (float)r->original_context, low = (float)r->low_factor, high = (float)r->high_factor,
	            factor = (float)r->factor;
	const float wave = (float)(2 * M_PI) / f;
	if (wave > context / low)
		return f / factor;
	if (wave < context / high)
		return f;
	const float smooth = (context / wave - low) / (high - low);
	return (1 - smooth) * f / factor + smooth * f;
}

void rope_frequencies(const struct rope_config *r, uint32_t head_dim, float *inverse_frequencies)
{
	for (uint32_t i = 0; i < head_dim / 2; i++) {
		const float f = 1.0f / powf((float)r->theta, (float)(2 * i) / (float)head_dim);
		switch (r->kind) {
		case ROPE_LINEAR:
			inverse_frequencies[i] = f / (float)r->factor;
			break;
		case ROPE_LLAMA3:
			inverse_frequencies[i] = llama3_frequency(r, f);
			break;
		default:
			assert(r->kind == ROPE_PLAIN);
			inverse_frequencies[i] = f;
		}
	}
}
