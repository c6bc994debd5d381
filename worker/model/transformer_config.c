#include "worker/model/transformer_config.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "common/base/limits.h"
#include "kernels/backend.h"

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
	c->rope.theta = c->rope.theta == 0 ? ROPE_THETA_DEFAULT : c->rope.theta;
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
		return weir_fail(
		    err, WEIR_E_INVALID,
		    "%s: rope_scaling.original_max_position_embeddings is missing or 0: expected the tokens that the scaling is of",
		    name);
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

/* --- Equal models */

static bool same_number(double a, double b)
{
	return !(a < b || a > b);
}

bool rope_same(const struct rope_config *a, const struct rope_config *b)
{
	if (a->kind != b->kind || !same_number(a->theta, b->theta))
		return false;
	if (a->kind != ROPE_PLAIN && !same_number(a->factor, b->factor))
		return false;
	return a->kind != ROPE_LLAMA3 || (same_number(a->low_factor, b->low_factor) && same_number(a->high_factor, b->high_factor) &&
	                                  a->original_context == b->original_context);
}

static const char *family_name(const struct transformer_config *c)
{
	return c->family == TRANSFORMER_GPT2 ? "gpt2" : "llama";
}

static void show_rope(const struct rope_config *r, char out[160])
{
	static const char *const names[] = {[ROPE_PLAIN] = "default", [ROPE_LINEAR] = "linear", [ROPE_LLAMA3] = "llama3"};
	int n = snprintf(out, 160, "%s, theta %.9g", names[r->kind], r->theta);
	if (r->kind != ROPE_PLAIN)
		n += snprintf(out + n, 160 - (size_t)n, ", factor %.9g", r->factor);
	if (r->kind == ROPE_LLAMA3)
		snprintf(out + n, 160 - (size_t)n, ", from %.9g to %.9g of %u", r->low_factor, r->high_factor, r->original_context);
}

static weir_status differ(const char *key, const char *a_name, const char *a, const char *b_name, const char *b, weir_error *err)
{
	return weir_fail(err, WEIR_E_INVALID,
	                 "%s is of another model than %s: its %s is %s, and that one's %s; expected a folder of the same model",
	                 a_name, b_name, key, a, b);
}

weir_status transformer_config_same(const struct transformer_config *a, const char *a_name, const struct transformer_config *b,
                                    const char *b_name, weir_error *err)
{
	const bool gpt2 = a->family == TRANSFORMER_GPT2;
	const struct {
		const char *key;
		double a, b;
	} numbers[] = {
	    {"vocab_size", a->vocabulary, b->vocabulary},
	    /* Llama: not compared, as nothing depends on it. */
	    {"n_positions", gpt2 ? a->context : 0, gpt2 ? b->context : 0},
	    {gpt2 ? "n_layer" : "num_hidden_layers", a->layers, b->layers},
	    {gpt2 ? "n_embd" : "hidden_size", a->width, b->width},
	    {gpt2 ? "n_head" : "num_attention_heads", a->heads, b->heads},
	    {"num_key_value_heads", a->kv_heads, b->kv_heads},
	    {"head_dim", a->head_dim, b->head_dim},
	    {gpt2 ? "n_inner" : "intermediate_size", a->hidden, b->hidden},
	    {gpt2 ? "layer_norm_epsilon" : "rms_norm_eps", (double)a->norm_eps, (double)b->norm_eps},
	    {"attention_bias", a->attention_bias, b->attention_bias},
	    {"mlp_bias", a->mlp_bias, b->mlp_bias},
	};
	char of_a[160], of_b[160];
	if (a->family != b->family)
		return differ("model_type", a_name, family_name(a), b_name, family_name(b), err);
	for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
		if (same_number(numbers[i].a, numbers[i].b))
			continue;
		snprintf(of_a, sizeof of_a, "%.7g", numbers[i].a);
		snprintf(of_b, sizeof of_b, "%.7g", numbers[i].b);
		return differ(numbers[i].key, a_name, of_a, b_name, of_b, err);
	}
	if (a->tied_head != b->tied_head)
		return differ("head (tie_word_embeddings)", a_name, a->tied_head ? "the embedding" : "its own", b_name,
		              b->tied_head ? "the embedding" : "its own", err);
	if (gpt2 || rope_same(&a->rope, &b->rope))
		return WEIR_OK;
	show_rope(&a->rope, of_a);
	show_rope(&b->rope, of_b);
	return differ("rope (rope_theta, rope_scaling, rope_parameters)", a_name, of_a, b_name, of_b, err);
}

/* --- Rotary positions */

/* Llama 3.1: divides the frequency of long waves by `factor`, keeps that of short ones, and
 * interpolates between them. */
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
