/* Creates transformers and reserves their memory. */
#include "worker/model/transformer.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/limits.h"
#include "worker/model/scratch.h"
#include "worker/model/transformer_parts.h"

#define HEAD_BYTES  ((size_t)128 << 20) /* of logits at once */
#define LINE_FLOATS ((size_t)16)        /* alignment of carved buffers */

static weir_status check(const struct transformer_options *o, weir_error *err)
{
	if (!(o->dropout >= 0 && o->dropout < 1))
		return weir_fail(err, WEIR_E_INVALID, "dropout is %g: expected at least 0 and below 1", (double)o->dropout);
	if (!(o->lora.dropout >= 0 && o->lora.dropout < 1))
		return weir_fail(err, WEIR_E_INVALID, "dropout of adapters is %g: expected at least 0 and below 1",
		                 (double)o->lora.dropout);
	if (o->lora.rank > WEIR_LAYER_WIDTH_MAX)
		return weir_fail(err, WEIR_E_LIMIT, "rank of adapters is %u: at most %u", o->lora.rank, WEIR_LAYER_WIDTH_MAX);
	if (o->lora.rank > 0 && !(o->lora.alpha > 0 && isfinite(o->lora.alpha)))
		return weir_fail(err, WEIR_E_INVALID, "alpha of adapters is %g: expected above 0", (double)o->lora.alpha);
	return WEIR_OK;
}

static weir_status no_memory(weir_error *err, const char *what)
{
	return weir_fail(err, WEIR_E_MEMORY, "out of memory for %s", what);
}

weir_status transformer_create(struct transformer **out, struct backend *b, const struct transformer_config *config,
                               const struct transformer_options *options, struct layout *trained, weir_error *err)
{
	weir_status status = check(options, err);
	struct transformer *t = status == WEIR_OK ? calloc(1, sizeof *t) : NULL;
	if (!t)
		return status == WEIR_OK ? no_memory(err, "a transformer") : status;
	t->backend = b;
	t->config = *config;
	t->options = *options;
	t->trained = trained;
	t->layers = calloc(config->layers, sizeof *t->layers);
	t->states = calloc(config->layers, sizeof *t->states);
	const bool frozen = options->lora.rank > 0;
	if (frozen)
		t->frozen_layout = calloc(1, sizeof *t->frozen_layout);
	if (!t->layers || !t->states || (frozen && !t->frozen_layout))
		status = no_memory(err, "a transformer");
	if (status == WEIR_OK)
		status = transformer_place(t, err);
	if (status == WEIR_OK && frozen && !options->bare &&
	    !(t->frozen = b->ops->buffer_alloc(b, t->frozen_layout->elements * sizeof(float))))
		status = no_memory(err, "a model's frozen weights");
	if (status == WEIR_OK)
		*out = t;
	else
		transformer_destroy(t);
	return status;
}

static void release(struct backend *b, void *buffer)
{
	if (buffer)
		b->ops->buffer_free(b, buffer);
}

void transformer_destroy(struct transformer *t)
{
	if (!t)
		return;
	release(t->backend, t->memory);
	release(t->backend, t->frozen);
	release(t->backend, t->loss);
	free(t->frozen_layout);
	free(t->layers);
	free(t->states);
	free(t);
}

const struct transformer_config *transformer_config_of(const struct transformer *t)
{
	return &t->config;
}

const struct lora_options *transformer_lora_of(const struct transformer *t)
{
	return &t->options.lora;
}

const struct layout *transformer_weights(const struct transformer *t)
{
	return t->frozen_layout ? t->frozen_layout : t->trained;
}

float *transformer_frozen(struct transformer *t)
{
	return t->frozen;
}

double transformer_flops(const struct transformer *t, uint32_t length)
{
	const struct transformer_config *c = &t->config;
	const uint64_t frozen = t->frozen_layout ? t->frozen_layout->elements : 0;
	return 6.0 * (double)t->trained->elements + 4.0 * (double)frozen + 12.0 * c->layers * c->heads * c->head_dim * length;
}

/* --- Memory. The layout runs twice: to count, then to set pointers. */

struct carving {
	float *memory; /* NULL: only counting */
	size_t used;
};

static float *take(struct carving *c, size_t elements)
{
	float *p = c->memory ? c->memory + c->used : NULL;
	c->used += (elements + LINE_FLOATS - 1) / LINE_FLOATS * LINE_FLOATS;
	return p;
}

/* The batch size to reserve memory for. */
struct room {
	uint32_t sequences, length;
	uint32_t decodes; /* tokens of one growing sequence; 0: no decoding */
	bool training;
};

static void take_state(struct carving *c, const struct transformer *t, struct layer_state *s, size_t rows)
{
	const struct transformer_config *m = &t->config;
	s->normed = take(c, rows * m->width);
	s->mean = take(c, rows);
	s->inv = take(c, rows);
	s->qkv = take(c, rows * qkv_width(m));
	s->attended = take(c, rows * m->heads * m->head_dim);
	s->log_sums = take(c, rows * m->heads);
	s->middle = take(c, rows * m->width);
	s->mlp_normed = take(c, rows * m->width);
	s->mlp_mean = take(c, rows);
	s->mlp_inv = take(c, rows);
	s->raised = take(c, rows * t->layers[0].up.out);
	s->active = take(c, rows * m->hidden);
}

/* Gives each layer its own state, or all layers the same one. */
static void take_states(struct carving *c, struct transformer *t, size_t rows, bool training, size_t decodes)
{
	float *x = take(c, rows * t->config.width);
	for (uint32_t i = 0; i < t->config.layers; i++) {
		struct layer_state *s = &t->states[i];
		if (i > 0 && (!training || t->options.recompute))
			*s = t->states[0];
		else
			take_state(c, t, s, rows);
		s->x = training && i > 0 ? take(c, rows * t->config.width) : x;
		if (decodes > 0)
			s->qkv = take(c, decodes * qkv_width(&t->config));
	}
	t->out = training ? take(c, rows * t->config.width) : x;
}

static void take_gradients(struct carving *c, struct transformer *t, size_t rows)
{
	const struct transformer_config *m = &t->config;
	t->dx = take(c, rows * m->width);
	t->dbranch = take(c, t->options.dropout > 0 ? rows * m->width : 0);
	t->dnormed = take(c, rows * m->width);
	t->dattended = take(c, rows * m->heads * m->head_dim);
	t->dqkv = take(c, rows * qkv_width(m));
	t->dactive = take(c, rows * m->hidden);
}

static size_t take_all(float *memory, struct transformer *t, const struct room *r)
{
	const bool training = r->training;
	const size_t rows = (size_t)r->sequences * r->length, length = r->length > r->decodes ? r->length : r->decodes;
	const struct transformer_config *m = &t->config;
	struct carving c = {.memory = memory};
	const uint32_t rank = t->options.lora.rank;
	const size_t queries = (size_t)m->heads * m->head_dim, widest = m->hidden > queries ? m->hidden : queries;
	take_states(&c, t, rows, training, r->decodes);
	if (training)
		take_gradients(&c, t, rows);
	t->last_mean = take(&c, rows);
	t->last_inv = take(&c, rows);
	t->last_normed = take(&c, rows * m->width);
	t->losses = take(&c, rows);
	t->logits = take(&c, t->head_rows * t->head_stride);
	t->cosines = take(&c, is_gpt2(t) ? 0 : length * (m->head_dim / 2));
	t->sines = take(&c, is_gpt2(t) ? 0 : length * (m->head_dim / 2));
	t->low = take(&c, rows * rank);
	t->dlow = take(&c, training ? rows * rank : 0);
	t->dropped = take(&c, training && t->options.lora.dropout > 0 ? rows * (widest > m->width ? widest : m->width) : 0);
	return c.used;
}

/* Computes a position's angle as transformers does (rope_frequencies), then its cosine and sine in
 * double. */
static weir_status make_angles(struct transformer *t, uint32_t length)
{
	const size_t half = t->config.head_dim / 2, n = length * half;
	float *frequencies = malloc((half + 1) * sizeof *frequencies), *cosines = malloc((n + 1) * sizeof *cosines),
	      *sines = malloc((n + 1) * sizeof *sines);
	const bool made = frequencies && cosines && sines != NULL;
	if (made) {
		rope_frequencies(&t->config.rope, t->config.head_dim, frequencies);
		for (size_t i = 0; i < n; i++) {
			const float angle = (float)(i / half) * frequencies[i % half];
			cosines[i] = (float)cos((double)angle);
			sines[i] = (float)sin((double)angle);
		}
		t->backend->ops->to_device(t->backend, t->cosines, cosines, n * sizeof *cosines);
		t->backend->ops->to_device(t->backend, t->sines, sines, n * sizeof *sines);
	}
	free(frequencies);
	free(cosines);
	free(sines);
	return made ? WEIR_OK : WEIR_E_MEMORY;
}

static weir_status check_length(const struct transformer *t, uint32_t length, weir_error *err)
{
	return length > 0 && length <= t->config.context
	           ? WEIR_OK
	           : weir_fail(err, WEIR_E_LIMIT, "sequences of %u tokens: this model has positions for 1 to %u", length,
	                       t->config.context);
}

/* Replaces the earlier reservation. */
static weir_status reserve(struct transformer *t, const struct room *r, weir_error *err)
{
	struct backend *b = t->backend;
	b->ops->forget_replays(b);
	release(b, t->memory);
	t->sequences = t->length = t->decodes = 0;
	const size_t rows = (size_t)r->sequences * r->length;
	const size_t stride = (t->config.vocabulary + LINE_FLOATS - 1) / LINE_FLOATS * LINE_FLOATS;
	size_t at_once = HEAD_BYTES / (stride * sizeof(float));
	at_once = at_once < rows ? at_once : rows;
	t->trains = r->training;
	t->head_stride = stride;
	t->head_rows = at_once > TRANSFORMER_LOGITS_ROWS ? at_once : TRANSFORMER_LOGITS_ROWS;
	t->memory = b->ops->buffer_alloc(b, take_all(NULL, t, r) * sizeof(float));
	if (!t->loss)
		t->loss = b->ops->buffer_alloc(b, sizeof *t->loss);
	weir_status status = t->memory && t->loss ? WEIR_OK : WEIR_E_MEMORY;
	if (status == WEIR_OK)
		take_all(t->memory, t, r);
	if (status == WEIR_OK && !is_gpt2(t))
		status = make_angles(t, r->length > r->decodes ? r->length : r->decodes);
	if (status != WEIR_OK) {
		char what[96];
		snprintf(what, sizeof what, "%u sequences of %u tokens%s", r->sequences, r->decodes > 0 ? r->decodes : r->length,
		         r->training && r->sequences > 1 ? " at once, of which train.accumulate makes fewer" : "");
		return scratch_refused(b, what, err);
	}
	t->sequences = r->sequences;
	t->length = r->length;
	t->decodes = r->decodes;
	return WEIR_OK;
}

weir_status transformer_reserve(struct transformer *t, uint32_t sequences, uint32_t length, bool training, weir_error *err)
{
	const weir_status status = check_length(t, length, err);
	if (status != WEIR_OK)
		return status;
	if (sequences <= t->sequences && length <= t->length && training <= t->trains)
		return WEIR_OK;
	const struct room r = {.sequences = sequences > t->sequences ? sequences : t->sequences,
	                       .length = length > t->length ? length : t->length,
	                       .training = training || t->trains};
	return reserve(t, &r, err);
}

weir_status transformer_reserve_decoding(struct transformer *t, uint32_t length, weir_error *err)
{
	const struct room r = {
	    .sequences = 1, .length = length < TRANSFORMER_DECODE_ROWS ? length : TRANSFORMER_DECODE_ROWS, .decodes = length};
	const weir_status status = check_length(t, length, err);
	return status == WEIR_OK ? reserve(t, &r, err) : status;
}
