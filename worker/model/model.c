/* Builds models by their family, and describes their tables. model_pass.c computes. */
#include "worker/model/model.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/prng.h"
#include "common/job/job_schema.h"
#include "kernels/codec.h"
#include "worker/model/model_parts.h"

/* The number of pushes over which running statistics are averaged. */
#define STATISTICS_WINDOW 64u

/* Two brackets, and for each layer its width of up to 8 digits and ", ". */
_Static_assert(MODEL_FACT_BYTES > 2 + 10 * WEIR_HIDDEN_LAYERS_MAX && WEIR_LAYER_WIDTH_MAX <= 99999999u,
               "a list of layers fits a fact");

static const struct model_family *family_of(const struct job *job)
{
	static const struct model_family *const families[MODEL_READS] = {
	    [READS_CLICKS] = &model_clicks, [READS_TEXT] = &model_ngram, [READS_TOKENS] = &model_transformers};
	return model_kind_has(job->model.kind, PART_RETRIEVAL) ? &model_retrieval : families[model_kind_row(job->model.kind)->reads];
}

weir_status model_check(const struct job *job, const struct model_data *data, weir_error *err)
{
	const struct model_family *family = family_of(job);
	const weir_status status = family->check ? family->check(job, data, err) : WEIR_OK;
	return status == WEIR_OK && family->check_files ? family->check_files(job, data, err) : status;
}

weir_status model_create(struct model **out, struct backend *b, const struct job *job, const struct model_data *data,
                         weir_error *err)
{
	const struct model_family *family = family_of(job);
	weir_status status = family->check ? family->check(job, data, err) : WEIR_OK;
	if (status != WEIR_OK)
		return status;
	struct model *m = calloc(1, sizeof *m);
	if (!m)
		return weir_fail(err, WEIR_E_MEMORY, "out of memory for a model");
	m->family = family;
	m->backend = b;
	m->job = job;
	field_groups_find(&m->groups, job, data->fields);
	status = family->create(m, data, err);
	for (uint32_t i = 0; i < m->groups.count; i++)
		m->embedding_init[i] =
		    (weir_init_segment){.elements = m->groups.dim[i], .kind = WEIR_INIT_NORMAL, .a = job->model.init_std};
	m->linear_init = (weir_init_segment){.elements = 1, .kind = WEIR_INIT_ZERO};
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
	m->family->destroy(m);
	free(m);
}

uint32_t model_facts(const struct model *m, struct model_fact facts[MODEL_FACTS_MAX])
{
	uint32_t n = 0, count;
	const struct key *keys = job_schema(&count);
	const uint32_t parts = model_kind_row(m->job->model.kind)->parts;
	facts[n].key = "model.kind";
	snprintf(facts[n++].value, sizeof facts->value, "%s", model_kind_name(m->job->model.kind));
	for (uint32_t i = 0; i < count; i++) {
		if (!(keys[i].parts & parts))
			continue;
		assert(n < MODEL_FACTS_MAX);
		facts[n].key = keys[i].path;
		job_key_text(m->job, &keys[i], facts[n++].value, sizeof facts->value);
	}
	if (m->family->facts)
		n = m->family->facts(m, facts, n);
	assert(n <= MODEL_FACTS_MAX);
	return n;
}

struct transformer *model_transformer(const struct model *m)
{
	return m->transformer;
}

bool model_is_whole_transformer(const struct model *m)
{
	return m->transformer && !transformer_frozen(m->transformer);
}

bool model_has(const struct model *m, enum model_table t)
{
	return model_table_elements(m, t) > 0;
}

uint64_t model_table_elements(const struct model *m, enum model_table t)
{
	switch (t) {
	case MODEL_LINEAR:
		return m->linear ? 1 : 0;
	case MODEL_DENSE:
		return m->params.elements;
	case MODEL_STATISTICS:
		return m->stats.elements;
	default:
		return m->groups.dim[model_table_group(t)];
	}
}

const struct field_groups *model_field_groups(const struct model *m)
{
	return &m->groups;
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

static weir_table_spec embedding_spec(const struct model *m, uint32_t group)
{
	char name[WEIR_TABLE_NAME_BYTES_MAX];
	job_embedding_table(m->job, m->groups.dim[group], name);
	return keyed_spec(m, name, &m->embedding_init[group], m->job->model.l2.embedding);
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
	case MODEL_LINEAR:
		spec = keyed_spec(m, "linear", &m->linear_init, m->job->model.l2.linear);
		break;
	case MODEL_DENSE:
		spec = flat_spec(m, "dense", &m->params, m->job->model.l2.dense);
		break;
	case MODEL_STATISTICS:
		spec = flat_spec(m, "statistics", &m->stats, 0.0f);
		spec.optimizer = (weir_optimizer){.kind = WEIR_OPT_AVERAGE, .window = STATISTICS_WINDOW};
		spec.push = (weir_compression){.codec = WEIR_CODEC_FP32};
		spec.pull = (weir_pull_coding){.codec = WEIR_CODEC_FP32};
		if (spec.mode.local_steps) /* statistics are not trained */
			spec.mode = (weir_mode){.kind = WEIR_ASYNC};
		break;
	default:
		spec = embedding_spec(m, model_table_group(t));
	}
	spec.seed = prng_mix(m->job->train.seed, 0x7461626cu, (uint64_t)t);
	return spec;
}
