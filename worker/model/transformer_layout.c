/* Lays out a transformer's tensors under Hugging Face's names. */
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/base/limits.h"
#include "worker/model/transformer_parts.h"

/* One of the projections that are computed as one product. */
struct part {
	enum lora_module module;
	uint32_t out;
};

struct placing {
	struct transformer *t;
	struct layout *weights;
	const char *layer; /* "model.layers" */
	uint32_t index;
	float std; /* of initial weights */
	bool found[LORA_TARGETS_COUNT];
};

static struct norm place_norm(struct placing *p, const char *name)
{
	struct norm n = {0};
	const uint32_t width = p->t->config.width;
	n.weight = layout_add(p->weights, width, 0, WEIR_INIT_CONSTANT, 1, "%s.%u.%s.weight", p->layer, p->index, name);
	if (is_gpt2(p->t))
		n.bias = layout_add(p->weights, width, 0, WEIR_INIT_ZERO, 0, "%s.%u.%s.bias", p->layer, p->index, name);
	return n;
}

bool lora_has(const struct lora_options *o, uint32_t layer, enum lora_module m)
{
	return o->targets[lora_module_target(m)] && (!o->some || (o->modules[layer] >> m & 1));
}

/* A starts like nn.Linear and B at zero, so that the model starts unchanged. */
static void place_adapter(struct placing *p, struct projection *j, const struct part *part, uint32_t column)
{
	static const char base[] = "base_model.model.";
	const struct lora_options *lora = &p->t->options.lora;
	const char *name = lora_module_name(part->module);
	p->found[lora_module_target(part->module)] = true;
	if (lora->rank == 0 || !lora_has(lora, p->index, part->module))
		return;
	struct adapter *a = &j->adapters[j->adapters_count++];
	*a = (struct adapter){.column = column, .out = part->out, .salt = p->t->trained->count};
	a->a = layout_add(p->t->trained, lora->rank, j->in, WEIR_INIT_UNIFORM, 1 / sqrtf((float)j->in), "%s%s.%u.%s.lora_A.weight",
	                  base, p->layer, p->index, name);
	a->b = layout_add(p->t->trained, part->out, lora->rank, WEIR_INIT_ZERO, 0, "%s%s.%u.%s.lora_B.weight", base, p->layer,
	                  p->index, name);
}

/* The parts lie one after another: all weights, then all biases. */
static struct projection place(struct placing *p, const struct part *parts, uint32_t count, uint32_t in, bool biased, float std)
{
	struct projection j = {.in = in, .input_major = is_gpt2(p->t), .biased = biased};
	assert(count == 1 || !j.input_major); /* columns of (in, out) are not contiguous */
	for (uint32_t i = 0; i < count; i++) {
		const uint32_t rows = j.input_major ? in : parts[i].out, cols = j.input_major ? parts[i].out : in;
		const uint64_t at = layout_add(p->weights, rows, cols, WEIR_INIT_NORMAL, std, "%s.%u.%s.weight", p->layer, p->index,
		                               lora_module_name(parts[i].module));
		j.weight = i == 0 ? at : j.weight;
		place_adapter(p, &j, &parts[i], j.out);
		j.out += parts[i].out;
	}
	for (uint32_t i = 0; i < count && biased; i++) {
		const uint64_t at = layout_add(p->weights, parts[i].out, 0, WEIR_INIT_ZERO, 0, "%s.%u.%s.bias", p->layer, p->index,
		                               lora_module_name(parts[i].module));
		j.bias = i == 0 ? at : j.bias;
	}
	return j;
}

/* The initial output of a layer's branches shrinks with the number of layers (Radford et al. 2019,
 * sec. 2.3). */
static float residual_std(const struct transformer_config *c)
{
	return c->init_std / sqrtf(2 * (float)c->layers);
}

static void place_gpt2_layer(struct placing *p, struct transformer_layer *l)
{
	const struct transformer_config *c = &p->t->config;
	const struct part qkv = {MODULE_GPT2_QKV, 3 * c->width}, o = {MODULE_GPT2_OUTPUT, c->width};
	const struct part up = {MODULE_GPT2_UP, c->hidden}, down = {MODULE_GPT2_DOWN, c->width};
	l->attention_norm = place_norm(p, "ln_1");
	l->qkv = place(p, &qkv, 1, c->width, true, p->std);
	l->o = place(p, &o, 1, c->width, true, residual_std(c));
	l->mlp_norm = place_norm(p, "ln_2");
	l->up = place(p, &up, 1, c->width, true, p->std);
	l->down = place(p, &down, 1, c->hidden, true, residual_std(c));
}

static void place_llama_layer(struct placing *p, struct transformer_layer *l)
{
	const struct transformer_config *c = &p->t->config;
	const uint32_t queries = c->heads * c->head_dim, keys = c->kv_heads * c->head_dim;
	const struct part qkv[] = {{MODULE_QUERY, queries}, {MODULE_KEY, keys}, {MODULE_VALUE, keys}};
	const struct part o = {MODULE_OUTPUT, c->width}, down = {MODULE_DOWN, c->width};
	const struct part up[] = {{MODULE_GATE, c->hidden}, {MODULE_UP, c->hidden}};
	l->attention_norm = place_norm(p, "input_layernorm");
	l->qkv = place(p, qkv, 3, c->width, c->attention_bias, p->std);
	l->o = place(p, &o, 1, queries, c->attention_bias, p->std);
	l->mlp_norm = place_norm(p, "post_attention_layernorm");
	l->up = place(p, up, 2, c->width, c->mlp_bias, p->std);
	l->down = place(p, &down, 1, c->hidden, c->mlp_bias, p->std);
}

static weir_status check_targets(const struct placing *p, weir_error *err)
{
	const struct lora_options *lora = &p->t->options.lora;
	char known[128] = "";
	bool any = false;
	for (unsigned i = 0; i < LORA_TARGETS_COUNT; i++) {
		const size_t at = strlen(known);
		any |= lora->targets[i];
		if (p->found[i])
			snprintf(known + at, sizeof known - at, "%s%s", at > 0 ? ", " : "", lora_target_name(i));
	}
	for (unsigned i = 0; i < LORA_TARGETS_COUNT && lora->rank > 0; i++)
		if (lora->targets[i] && !p->found[i])
			return weir_fail(err, WEIR_E_UNSUPPORTED, "adapters of %s: this model has %s", lora_target_name(i), known);
	if (lora->rank > 0 && any && p->t->trained->count == 0)
		return weir_fail(err, WEIR_E_INVALID, "adapters of no layer: this model has layers 0 to %u", p->t->config.layers - 1);
	if (lora->rank > 0 && !any)
		return weir_fail(err, WEIR_E_INVALID, "adapters of no projection: this model has %s", known);
	return WEIR_OK;
}

weir_status transformer_place(struct transformer *t, weir_error *err)
{
	const struct transformer_config *c = &t->config;
	const bool gpt2 = is_gpt2(t);
	struct placing p = {.t = t, .std = c->init_std, .layer = gpt2 ? "transformer.h" : "model.layers"};
	struct layout *w = p.weights = t->frozen_layout ? t->frozen_layout : t->trained;
	t->tokens = layout_add(w, c->vocabulary, c->width, WEIR_INIT_NORMAL, p.std,
	                       gpt2 ? "transformer.wte.weight" : "model.embed_tokens.weight");
	if (gpt2)
		t->positions = layout_add(w, c->context, c->width, WEIR_INIT_NORMAL, p.std, "transformer.wpe.weight");
	for (; p.index < c->layers; p.index++) {
		struct transformer_layer *l = &t->layers[p.index];
		if (gpt2)
			place_gpt2_layer(&p, l);
		else
			place_llama_layer(&p, l);
	}
	t->last_norm.weight =
	    layout_add(w, c->width, 0, WEIR_INIT_CONSTANT, 1, gpt2 ? "transformer.ln_f.weight" : "model.norm.weight");
	if (gpt2)
		t->last_norm.bias = layout_add(w, c->width, 0, WEIR_INIT_ZERO, 0, "transformer.ln_f.bias");
	t->head = c->tied_head ? t->tokens : layout_add(w, c->vocabulary, c->width, WEIR_INIT_NORMAL, p.std, "lm_head.weight");
	if (w->elements > WEIR_TABLE_ELEMENTS_MAX)
		return weir_fail(err, WEIR_E_LIMIT, "a model of %llu weights: at most %llu can be had", (unsigned long long)w->elements,
		                 (unsigned long long)WEIR_TABLE_ELEMENTS_MAX);
	return check_targets(&p, err);
}
