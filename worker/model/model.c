/* Builds models: their parts by kind, their tensors and their tables. model_pass.c computes. */
#include "worker/model/model.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/prng.h"
#include "kernels/codec.h"
#include "worker/model/model_parts.h"
#include "worker/model/scratch.h"

/* The number of pushes over which running statistics are averaged. */
#define STATISTICS_WINDOW 64u

/* Two brackets, and for each layer its width of up to 8 digits and ", ". */
_Static_assert(MODEL_FACT_BYTES > 2 + 10 * WEIR_HIDDEN_LAYERS_MAX && WEIR_LAYER_WIDTH_MAX <= 99999999u,
               "a list of layers fits a fact");

static const struct {
	const char *name;
	struct parts parts;
} kinds[] = {
    [MODEL_LR] = {"lr", {.linear = true}},
    [MODEL_FM] = {"fm", {.linear = true, .embedding = true, .fm = true}},
    [MODEL_WIDE_DEEP] = {"wide_deep", {.linear = true, .embedding = true, .tower = true}},
    [MODEL_DEEPFM] = {"deepfm", {.linear = true, .embedding = true, .fm = true, .tower = true}},
    [MODEL_DCN_V2] = {"dcn_v2", {.embedding = true, .tower = true, .cross = true}},
    [MODEL_DLRM] = {"dlrm", {.embedding = true, .tower = true, .interaction = true}},
    [MODEL_NGRAM] = {"ngram", {.ngram = true}},
    [MODEL_GPT2] = {"gpt2", {.transformer = true}},
    [MODEL_LLAMA] = {"llama", {.transformer = true}},
};

const char *model_kind_name(enum model_kind kind)
{
	return kinds[kind].name;
}

static weir_status check(const struct job *job, const struct parts *p, uint32_t fields, uint32_t dense_dim, weir_error *err)
{
	if (p->transformer) /* checked with its shape */
		return WEIR_OK;
	const char *kind = model_kind_name(job->model.kind);
	if (fields == 0 && !p->ngram)
		return weir_fail(err, WEIR_E_INVALID, "the data has no categorical fields: model %s has nothing to look up", kind);
	if (p->ngram && job->data.context == 0)
		return weir_fail(err, WEIR_E_INVALID, "data.context is 0: model %s needs at least 1", kind);
	if ((p->embedding || p->ngram) && job->model.dim == 0)
		return weir_fail(err, WEIR_E_INVALID, "model.dim is 0: model %s needs embeddings of at least 1", kind);
	if ((p->tower || p->ngram) && job->model.hidden_count == 0)
		return weir_fail(err, WEIR_E_INVALID, "model.hidden is empty: model %s needs at least one hidden layer", kind);
	if (p->cross && job->model.cross_layers == 0)
		return weir_fail(err, WEIR_E_INVALID, "model.cross_layers is 0: model %s needs at least one", kind);
	if (job->model.cross_layers > CROSS_LAYERS_MAX)
		return weir_fail(err, WEIR_E_LIMIT, "model.cross_layers is %u: at most %u", job->model.cross_layers, CROSS_LAYERS_MAX);
	if (p->interaction && fields + (dense_dim > 0) < 2)
		return weir_fail(err, WEIR_E_INVALID, "model %s needs at least two fields to let interact", kind);
	if (p->interaction && dense_dim > 0 &&
	    (job->model.bottom_count == 0 || job->model.bottom[job->model.bottom_count - 1] != job->model.dim))
		return weir_fail(err, WEIR_E_INVALID, "model.bottom must end with a layer of model.dim (%u)", job->model.dim);
	if (!(job->model.dropout >= 0.0f && job->model.dropout < 1.0f))
		return weir_fail(err, WEIR_E_INVALID, "model.dropout is %g: expected at least 0 and below 1", (double)job->model.dropout);
	return WEIR_OK;
}

static void add_linear(struct model *m)
{
	m->bias = layout_add(&m->params, 1, 0, WEIR_INIT_ZERO, 0.0f, "bias");
	if (m->parts.linear && m->dense_dim > 0)
		m->numeric = layout_add(&m->params, 1, m->dense_dim, WEIR_INIT_ZERO, 0.0f, "linear.numeric.weight");
}

/* The last layer over [tower, cross] is one tensor, as if over their concatenation. */
static void add_deep(struct model *m)
{
	const struct job *job = m->job;
	m->features = m->fields * m->dim + m->dense_dim;
	if (m->parts.interaction) {
		if (m->dense_dim > 0)
			tower_init(&m->bottom, m->backend, "bottom", m->dense_dim, job->model.bottom, job->model.bottom_count, false, 0.0f,
			           &m->params, &m->stats);
		interaction_init(&m->interaction, m->backend, m->fields, m->dim, m->dense_dim > 0);
		m->features = interaction_width(&m->interaction);
	}
	uint32_t width = 0;
	if (m->parts.tower) {
		tower_init(&m->tower, m->backend, "tower", m->features, job->model.hidden, job->model.hidden_count, job->model.batch_norm,
		           job->model.dropout, &m->params, &m->stats);
		width += tower_width(&m->tower);
	}
	if (m->parts.cross) {
		cross_init(&m->cross, m->backend, m->features, job->model.cross_layers, &m->params);
		width += m->features;
	}
	if (width > 0)
		m->head = layout_add(&m->params, 1, width, WEIR_INIT_UNIFORM, 1.0f / sqrtf((float)width), "head.weight");
}

weir_status model_check(const struct job *job, const struct model_data *data, weir_error *err)
{
	const struct parts *parts = &kinds[job->model.kind].parts;
	const weir_status status = check(job, parts, data->fields, data->dense_dim, err);
	return status == WEIR_OK && parts->transformer ? model_check_transformer(job, data->vocabulary, err) : status;
}

weir_status model_create(struct model **out, struct backend *b, const struct job *job, const struct model_data *data,
                         weir_error *err)
{
	const struct parts *parts = &kinds[job->model.kind].parts;
	weir_status status = check(job, parts, data->fields, data->dense_dim, err);
	if (status != WEIR_OK)
		return status;
	struct model *m = calloc(1, sizeof *m);
	if (!m)
		return weir_fail(err, WEIR_E_MEMORY, "out of memory for a model");
	m->backend = b;
	m->job = job;
	m->parts = *parts;
	m->fields = data->fields;
	m->dense_dim = data->dense_dim;
	m->dim = parts->embedding ? job->model.dim : 0;
	m->embedding_init = (weir_init_segment){.elements = m->dim, .kind = WEIR_INIT_NORMAL, .a = job->model.init_std};
	m->linear_init = (weir_init_segment){.elements = 1, .kind = WEIR_INIT_ZERO};
	if (parts->transformer) {
		status = model_make_transformer(m, data->vocabulary, err);
	} else if (parts->ngram) {
		ngram_init(&m->ngram, b, job, &m->params, &m->stats);
	} else {
		add_linear(m);
		add_deep(m);
	}
	if (!job->tables.dense.decay_vectors)
		layout_leave_out_vectors(&m->params);
	if (status == WEIR_OK)
		*out = m;
	else
		model_destroy(m);
	return status;
}

void model_destroy(struct model *m)
{
	if (!m)
		return;
	m->backend->ops->forget_replays(m->backend);
	tower_free(&m->tower);
	tower_free(&m->bottom);
	cross_free(&m->cross);
	interaction_free(&m->interaction);
	ngram_free(&m->ngram);
	transformer_destroy(m->transformer);
	float **buffers[] = {&m->logit, &m->dlogit, &m->pair, &m->sum, &m->x, &m->dx, &m->joined, &m->djoined};
	for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++)
		scratch_free(m->backend, buffers[i]);
	free(m);
}

void model_fact_number(struct model_fact *f, const char *key, uint32_t value)
{
	f->key = key;
	snprintf(f->value, sizeof f->value, "%u", value);
}

static void fact_layers(struct model_fact *f, const char *key, const uint32_t *widths, uint32_t count)
{
	int n = snprintf(f->value, sizeof f->value, "[");
	for (uint32_t i = 0; i < count; i++)
		n += snprintf(f->value + n, sizeof f->value - (size_t)n, "%s%u", i > 0 ? ", " : "", widths[i]);
	snprintf(f->value + n, sizeof f->value - (size_t)n, "]");
	f->key = key;
}

uint32_t model_facts(const struct model *m, struct model_fact facts[MODEL_FACTS_MAX])
{
	const struct job *job = m->job;
	uint32_t n = 0;
	facts[n].key = "model.kind";
	snprintf(facts[n++].value, sizeof facts->value, "%s", model_kind_name(job->model.kind));
	if (m->parts.transformer)
		return model_transformer_facts(m, facts, n);
	if (m->parts.ngram)
		model_fact_number(&facts[n++], "data.context", job->data.context);
	if (m->parts.embedding || m->parts.ngram)
		model_fact_number(&facts[n++], "model.dim", job->model.dim);
	if (m->parts.tower || m->parts.ngram) {
		fact_layers(&facts[n++], "model.hidden", job->model.hidden, job->model.hidden_count);
		facts[n].key = "model.batch_norm";
		snprintf(facts[n++].value, sizeof facts->value, "%s", job->model.batch_norm ? "true" : "false");
	}
	if (m->parts.cross)
		model_fact_number(&facts[n++], "model.cross_layers", job->model.cross_layers);
	if (m->parts.interaction && m->dense_dim > 0)
		fact_layers(&facts[n++], "model.bottom", job->model.bottom, job->model.bottom_count);
	assert(n <= MODEL_FACTS_MAX);
	return n;
}

struct transformer *model_transformer(const struct model *m)
{
	return m->transformer;
}

bool model_is_whole_transformer(const struct model *m)
{
	return m->parts.transformer && !transformer_frozen(m->transformer);
}

bool model_has(const struct model *m, enum model_table t)
{
	return model_table_elements(m, t) > 0;
}

uint64_t model_table_elements(const struct model *m, enum model_table t)
{
	switch (t) {
	case MODEL_EMBEDDING:
		return m->dim;
	case MODEL_LINEAR:
		return m->parts.linear ? 1 : 0;
	case MODEL_DENSE:
		return m->params.elements;
	case MODEL_STATISTICS:
		return m->stats.elements;
	default:
		return 0;
	}
}

const struct layout *model_layout(const struct model *m, enum model_table t)
{
	assert(t == MODEL_DENSE || t == MODEL_STATISTICS);
	return t == MODEL_DENSE ? &m->params : &m->stats;
}

static weir_table_spec keyed_spec(const struct model *m, const char *name, const weir_init_segment *init, float l2)
{
	const struct job_table *t = &m->job->tables.embedding;
	weir_table_spec spec = {
	    .kind = WEIR_EMBEDDING,
	    .width = (uint32_t)init->elements,
	    .optimizer = t->optimizer,
	    .mode = t->mode,
	    .push = t->push,
	    .pull = t->pull,
	    .admission = t->admission,
	    .eviction = t->eviction,
	    .segments_count = 1,
	    .segments = init,
	};
	if (l2 > 0.0f)
		spec.optimizer.l2 = l2;
	/* Each row has its own scale. A row of one or two elements takes no fewer bytes than as
	 * bf16. */
	if (codec_element_bytes(t->push.codec) == 0 &&
	    codec_bytes(t->push.codec, spec.width) >= codec_bytes(WEIR_CODEC_BF16, spec.width))
		spec.push = (weir_compression){.codec = WEIR_CODEC_BF16, .rows = t->push.rows, .lz4 = t->push.lz4};
	if (codec_element_bytes(t->pull.codec) == 0 &&
	    codec_bytes(t->pull.codec, spec.width) >= codec_bytes(WEIR_CODEC_BF16, spec.width))
		spec.pull = (weir_pull_coding){.codec = WEIR_CODEC_BF16};
	snprintf(spec.name, sizeof spec.name, "%s", name);
	return spec;
}

static weir_table_spec flat_spec(const struct model *m, const char *name, const struct layout *layout, float l2)
{
	const struct job_table *t = &m->job->tables.dense;
	weir_table_spec spec = {
	    .kind = WEIR_DENSE,
	    .elements = layout->elements,
	    .optimizer = t->optimizer,
	    .mode = t->mode,
	    .push = t->push,
	    .pull = t->pull,
	    .segments_count = layout->count,
	    .segments = layout->segments,
	};
	if (l2 > 0.0f)
		spec.optimizer.l2 = l2;
	snprintf(spec.name, sizeof spec.name, "%s", name);
	return spec;
}

weir_table_spec model_table_spec(const struct model *m, enum model_table t)
{
	weir_table_spec spec;
	switch (t) {
	case MODEL_EMBEDDING:
		spec = keyed_spec(m, "embedding", &m->embedding_init, m->job->model.l2.embedding);
		break;
	case MODEL_LINEAR:
		spec = keyed_spec(m, "linear", &m->linear_init, m->job->model.l2.linear);
		break;
	case MODEL_DENSE:
		spec = flat_spec(m, "dense", &m->params, m->job->model.l2.dense);
		break;
	default:
		assert(t == MODEL_STATISTICS);
		spec = flat_spec(m, "statistics", &m->stats, 0.0f);
		spec.optimizer = (weir_optimizer){.kind = WEIR_OPT_AVERAGE, .window = STATISTICS_WINDOW};
		spec.push = (weir_compression){.codec = WEIR_CODEC_FP32};
		spec.pull = (weir_pull_coding){.codec = WEIR_CODEC_FP32};
		if (spec.mode.local_steps) /* statistics are not trained */
			spec.mode = (weir_mode){.kind = WEIR_ASYNC};
	}
	spec.seed = prng_mix(m->job->train.seed, 0x7461626cu, (uint64_t)t);
	return spec;
}
