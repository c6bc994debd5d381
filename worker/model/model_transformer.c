/* The family of transformers. A transformer's shape comes from the job's keys or from the folder in
 * model.from, which also has the frozen weights. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker/model/adapter_folder.h"
#include "worker/model/model_folder.h"
#include "worker/model/model_parts.h"

#define READ_ELEMENTS         ((uint64_t)1 << 20) /* of frozen weights per read */
#define FEED_FORWARD_MULTIPLE 32u

/* The transformers among the kinds of models. */
static const struct kind_of_transformer {
	enum transformer_family family;
	bool gated;       /* the feed-forward part has three matrices */
	uint32_t targets; /* default of model.lora.targets: bits, 1 << enum lora_target */
} transformers[MODEL_KINDS] = {
    [MODEL_GPT2] = {TRANSFORMER_GPT2, false, 1u << LORA_c_attn},
    [MODEL_LLAMA] = {TRANSFORMER_LLAMA, true, 1u << LORA_q_proj | 1u << LORA_v_proj},
};
_Static_assert(LORA_TARGETS_COUNT <= 32, "a bit each");

static const struct kind_of_transformer *kind_of(const struct job *job)
{
	assert(job_is_transformer(job));
	return &transformers[job->model.kind];
}

static const char *family_name(enum transformer_family family)
{
	for (enum model_kind k = 0; k < MODEL_KINDS; k++)
		if (model_kind_has(k, PART_TRANSFORMER) && transformers[k].family == family)
			return model_kind_name(k);
	return "another transformer";
}

/* A gated feed-forward part has three matrices instead of two, so its hidden size is two thirds of
 * four times the width (Shazeer 2020, sec. 3). */
static uint32_t feed_forward_of(const struct job *job)
{
	if (job->model.feed_forward > 0 || !kind_of(job)->gated)
		return job->model.feed_forward;
	const uint32_t exact = (8 * job->model.width + 2) / 3;
	return (exact + FEED_FORWARD_MULTIPLE - 1) / FEED_FORWARD_MULTIPLE * FEED_FORWARD_MULTIPLE;
}

static weir_status shape_by_keys(const struct job *job, uint32_t vocabulary, struct transformer_config *out, weir_error *err)
{
	*out = (struct transformer_config){.family = kind_of(job)->family,
	                                   .vocabulary = job->model.vocabulary > 0 ? job->model.vocabulary : vocabulary,
	                                   .context = job->model.positions > 0 ? job->model.positions : job->data.sequence,
	                                   .layers = job->model.layers,
	                                   .heads = job->model.heads,
	                                   .kv_heads = job->model.kv_heads,
	                                   .width = job->model.width,
	                                   .hidden = feed_forward_of(job),
	                                   .norm_eps = job->model.norm_eps,
	                                   .tied_head = job->model.tied_head,
	                                   .rope = {.theta = (double)job->model.rope_theta}};
	transformer_config_default(out);
	return transformer_config_check(out, "model", err);
}

static weir_status shape_by_folder(const struct job *job, struct transformer_config *out, weir_error *err)
{
	if (adapter_folder_is(job->model.from) && strcmp(job->model.from, job->model.lora.from) != 0)
		return weir_fail(
		    err, WEIR_E_INVALID,
		    "model.from: %s has adapter_config.json, too: transformers would put those adapters into the model; expected "
		    "model.lora.from with the same folder, or a folder without them",
		    job->model.from);
	weir_error why = {0};
	const weir_status status = model_folder_config(job->model.from, out, &why);
	if (status == WEIR_E_NOT_FOUND)
		return weir_fail(err, status, "model.from: %s; it says what the model is, also of weights that are elsewhere", why.text);
	if (status != WEIR_OK)
		return weir_fail(err, status, "%s", why.text);
	if (out->family != kind_of(job)->family)
		return weir_fail(err, WEIR_E_INVALID, "model.from: %s is of a %s, and model.kind is %s", job->model.from,
		                 family_name(out->family), model_kind_name(job->model.kind));
	return status;
}

static weir_status shape_of(const struct job *job, uint32_t vocabulary, struct transformer_config *out, weir_error *err)
{
	const bool from = job->model.from[0] != '\0';
	const weir_status status = from ? shape_by_folder(job, out, err) : shape_by_keys(job, vocabulary, out, err);
	if (status != WEIR_OK)
		return status;
	if (vocabulary > out->vocabulary)
		return weir_fail(err, WEIR_E_INVALID, "data.tokenizer has %u tokens, and the model embeds %u (%s)", vocabulary,
		                 out->vocabulary, from ? "vocab_size in model.from's config.json" : "model.vocabulary");
	if (job->data.sequence > out->context)
		return weir_fail(err, WEIR_E_INVALID, "data.sequence is %u, and the model has positions for %u (%s)", job->data.sequence,
		                 out->context, from ? "in model.from's config.json" : "model.positions");
	return WEIR_OK;
}

static void take_targets(const struct job *job, struct lora_options *out)
{
	for (uint32_t i = 0; i < job->model.lora.targets_count; i++) {
		const char *name = job->model.lora.targets[i];
		/* Found, as the job file was checked. */
		out->targets[lora_target_find(name, strlen(name))] = true;
	}
	if (job->model.lora.targets_count > 0)
		return;
	for (uint32_t t = 0; t < LORA_TARGETS_COUNT; t++)
		out->targets[t] = (kind_of(job)->targets >> t & 1u) != 0;
}

/* model.lora.from, if given, determines everything except dropout. */
static weir_status take_lora(const struct job *job, struct lora_options *out, weir_error *err)
{
	out->dropout = job->model.lora.dropout;
	if (job->model.lora.from[0] != '\0')
		return adapter_folder_read(job->model.lora.from, out, err);
	out->rank = job->model.lora.rank;
	out->alpha = job->model.lora.alpha;
	take_targets(job, out);
	return WEIR_OK;
}

static weir_status load_frozen(struct model *m, weir_error *err)
{
	float *to = transformer_frozen(m->transformer);
	if (!to)
		return WEIR_OK;
	struct backend *b = m->backend;
	struct model_weights *w = NULL;
	const struct layout *layout = transformer_weights(m->transformer);
	float *part = malloc(READ_ELEMENTS * sizeof *part);
	if (!part)
		return weir_fail(err, WEIR_E_MEMORY, "out of memory for the weights of %s", m->job->model.from);
	weir_status status = model_folder_open(&w, m->job->model.from, layout, err);
	if (status == WEIR_OK)
		status = model_folder_check_finite(w, m->job->model.from, err);
	for (uint64_t at = 0, n; status == WEIR_OK && at < layout->elements; at += n) {
		n = layout->elements - at < READ_ELEMENTS ? layout->elements - at : READ_ELEMENTS;
		model_folder_read(w, at, n, part);
		b->ops->to_device(b, to + at, part, n * sizeof *part);
	}
	model_folder_close(w);
	free(part);
	return status;
}

/* Finds shape and options from the job. */
static weir_status settle(const struct job *job, uint32_t vocabulary, struct transformer_config *config,
                          struct transformer_options *options, weir_error *err)
{
	*options = (struct transformer_options){.dropout = job->model.dropout, .recompute = job->model.recompute == RECOMPUTE_LAYERS};
	const weir_status status = take_lora(job, &options->lora, err);
	return status == WEIR_OK ? shape_of(job, vocabulary, config, err) : status;
}

weir_status model_settle_transformer(const struct job *job, uint32_t vocabulary, struct transformer_config *config,
                                     struct lora_options *lora, weir_error *err)
{
	struct transformer_options options;
	const weir_status status = settle(job, vocabulary, config, &options, err);
	*lora = options.lora;
	return status;
}

/* Checks that the job's folder has all weights of the model. */
static weir_status check_folder(const struct transformer *t, const char *folder, bool finite, weir_error *err)
{
	struct model_weights *w = NULL;
	weir_status status = model_folder_open(&w, folder, transformer_weights(t), err);
	if (status == WEIR_OK && finite)
		status = model_folder_check_finite(w, folder, err);
	model_folder_close(w);
	return status;
}

static weir_status check_as(const struct job *job, const struct transformer_config *config, struct transformer_options options,
                            bool finite, weir_error *err)
{
	struct transformer *t = NULL;
	struct layout *trained = calloc(1, sizeof *trained);
	options.bare = true;
	weir_status status = trained ? transformer_create(&t, NULL, config, &options, trained, err)
	                             : weir_fail(err, WEIR_E_MEMORY, "out of memory for a model's layout");
	if (status == WEIR_OK && job->model.from[0] != '\0')
		status = check_folder(t, job->model.from, finite, err);
	transformer_destroy(t);
	free(trained);
	return status;
}

/* Checks that frozen weights are finite. Whoever sets the trained weights checks those. */
static weir_status check_files(const struct job *job, const struct model_data *data, weir_error *err)
{
	struct transformer_config config;
	struct transformer_options options;
	const weir_status status = settle(job, data->vocabulary, &config, &options, err);
	return status == WEIR_OK ? check_as(job, &config, options, options.lora.rank > 0, err) : status;
}

static weir_status create(struct model *m, const struct model_data *data, weir_error *err)
{
	const struct job *job = m->job;
	struct transformer_config config;
	struct transformer_options options;
	weir_status status = settle(job, data->vocabulary, &config, &options, err);
	/* Check the folder before allocating memory for what it claims. */
	if (status == WEIR_OK && options.lora.rank > 0)
		status = check_as(job, &config, options, false, err);
	if (status == WEIR_OK)
		status = transformer_create(&m->transformer, m->backend, &config, &options, &m->params, err);
	return status == WEIR_OK ? load_frozen(m, err) : status;
}

static void destroy(struct model *m)
{
	transformer_destroy(m->transformer);
}

/* Returns how many of `rows` one part of a training batch has (train.accumulate). */
static uint32_t rows_at_once(const struct model *m, uint32_t rows)
{
	const uint32_t parts = m->job->train.accumulate, most = parts > 1 ? (m->job->data.batch + parts - 1) / parts : rows;
	return most < rows ? most : rows;
}

static weir_status reserve(struct model *m, uint32_t rows, bool training, weir_error *err)
{
	return transformer_reserve(m->transformer, training ? rows_at_once(m, rows) : rows, m->job->data.sequence, training, err);
}

static struct token_batch tokens_of(const struct model_input *in, uint32_t first, uint32_t rows)
{
	const size_t before = (size_t)first * in->sequence;
	return (struct token_batch){
	    .sequences = rows, .length = in->sequence, .tokens = in->tokens + before, .targets = in->targets + before};
}

static const float *score(struct model *m, const struct model_input *in)
{
	const struct token_batch batch = tokens_of(in, 0, in->rows);
	return transformer_score(m->transformer, &batch, in->parameters[MODEL_DENSE]);
}

/* Trains on the batch part by part and adds up losses and gradients. */
static void issue(void *arg)
{
	const struct model_step *s = arg;
	struct model *m = s->model;
	const struct model_input *in = s->in;
	const struct model_output *out = s->out;
	const uint32_t most = rows_at_once(m, in->rows);
	struct transformer_step step = {
	    .scale = in->counted > 0 ? (float)(1 / (double)in->counted) : 0, .seed = s->seed, .loss_scale = in->loss_scale};
	if (transformer_frozen(m->transformer)) /* adapters are small */
		layer_flow_await(in->flow, 0, m->params.elements);
	else
		step.flow = in->flow;
	m->backend->ops->fill(m->backend, (float *)out->loss_sum, 0, sizeof *out->loss_sum / sizeof(float));
	for (uint32_t first = 0, rows; first < in->rows; first += rows) {
		rows = in->rows - first < most ? in->rows - first : most;
		const struct token_batch part = tokens_of(in, first, rows);
		step.first = (size_t)first * in->sequence;
		step.last = first + rows == in->rows;
		transformer_train(m->transformer, &part, in->parameters[MODEL_DENSE], out->gradients[MODEL_DENSE], &step, out->loss_sum);
	}
}

static void train(struct model_step *s)
{
	model_replay(s, issue);
}

static void fact_number(struct model_fact *f, const char *key, uint32_t value)
{
	f->key = key;
	snprintf(f->value, sizeof f->value, "%u", value);
}

static uint32_t facts_of(const struct model *m, struct model_fact *facts, uint32_t n)
{
	const struct transformer_config *c = transformer_config_of(m->transformer);
	fact_number(&facts[n++], "model.vocabulary", c->vocabulary);
	fact_number(&facts[n++], "model.layers", c->layers);
	fact_number(&facts[n++], "model.heads", c->heads);
	fact_number(&facts[n++], "model.kv_heads", c->kv_heads);
	fact_number(&facts[n++], "model.width", c->width);
	fact_number(&facts[n++], "model.feed_forward", c->hidden);
	const struct lora_options *lora = transformer_lora_of(m->transformer);
	if (lora->rank == 0)
		return n;
	fact_number(&facts[n++], "model.lora.rank", lora->rank);
	facts[n].key = "model.lora.alpha";
	snprintf(facts[n++].value, sizeof facts->value, "%g", (double)lora->alpha);
	return n;
}

const struct model_family model_transformers = {.check_files = check_files,
                                                .create = create,
                                                .destroy = destroy,
                                                .reserve = reserve,
                                                .score = score,
                                                .train = train,
                                                .by_layer = true,
                                                .facts = facts_of};
