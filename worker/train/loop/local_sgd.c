#include "worker/train/loop/local_sgd.h"

#include <stdlib.h>

#include "kernels/optimizer.h"

struct fragment {
	uint64_t first, end; /* chunks */
	bool pushed;         /* and not taken in yet */
	uint32_t batch;      /* the batch that pushed it */
	uint64_t sequence;
	bool pulling, pulled;
	weir_ticket ticket; /* while pulling */
};

struct local_sgd {
	struct backend *backend;
	struct local_sgd_options options;
	weir_optimizer inner;
	struct optimizer *optimizer;
	float *own, *global; /* (elements), the backend's memory */
	/* (elements * slots), by run of weight decay and by chunk, the backend's; NULL: the inner rule
	 * has none */
	float *slots;
	float *accumulators;          /* (chunks), the backend's */
	uint32_t steps;               /* taken by the inner optimizer */
	float *incoming;              /* (elements), from host_alloc: the pulled values */
	uint64_t *chunks;             /* (chunks): 0, 1, 2 .. */
	uint64_t *pushed;             /* (chunks): those of a batch */
	struct fragment *fragments;   /* (fragments) */
	bool fresh;                   /* nothing is pulled yet */
	uint32_t pass, unit, attempt; /* the present unit */
	uint64_t last_push;
};

/* --- Rounds */

static uint32_t round_steps(const struct local_sgd_batch *b)
{
	return b->unit->local_steps ? b->unit->local_steps : 1;
}

/* Whether the batch pushes fragment f. */
static bool is_pushed(const struct local_sgd *l, const struct local_sgd_batch *b, uint32_t batch, uint32_t f)
{
	const uint32_t steps = round_steps(b), fragments = l->options.fragments;
	/* 0: the round has fewer batches than fragments */
	const uint32_t at = (uint32_t)((uint64_t)(f + 1) * steps / fragments);
	return batch + 1 == b->batches || batch % steps + 1 == (at ? at : 1);
}

/* The first batch from this one on that pushes a fragment. */
static uint32_t next_push(const struct local_sgd *l, const struct local_sgd_batch *b)
{
	for (uint32_t batch = b->batch; batch + 1 < b->batches; batch++)
		for (uint32_t f = 0; f < l->options.fragments; f++)
			if (is_pushed(l, b, batch, f))
				return batch;
	return b->batches - 1;
}

static bool begins_unit(const struct local_sgd *l, const struct local_sgd_batch *b)
{
	return l->fresh || l->pass != b->unit->pass || l->unit != b->unit->unit || l->attempt != b->unit->attempt;
}

/* Batches from a push until its fragment is taken in: before any next push, also in a shortened
 * round. */
static uint32_t overlap_of(const struct local_sgd *l, const struct local_sgd_batch *b)
{
	const uint32_t apart = round_steps(b) / l->options.fragments;
	return apart > l->options.overlap ? l->options.overlap : apart ? apart - 1 : 0;
}

/* Whether the fragment is to be taken in before this batch. */
static bool is_due(const struct local_sgd *l, const struct local_sgd_batch *b, uint32_t f)
{
	const struct fragment *x = &l->fragments[f];
	return x->pushed && (b->batch > x->batch + overlap_of(l, b) || is_pushed(l, b, b->batch, f));
}

/* --- Values */

static uint64_t elements_of(const struct local_sgd *l, const struct fragment *x)
{
	const uint64_t end = x->end * WEIR_CHUNK < l->options.elements ? x->end * WEIR_CHUNK : l->options.elements;
	return end - x->first * WEIR_CHUNK;
}

static void take_in(struct local_sgd *l, struct fragment *x, float merge)
{
	const struct backend_ops *ops = l->backend->ops;
	const uint64_t at = x->first * WEIR_CHUNK, n = elements_of(l, x);
	ops->to_device(l->backend, l->global + at, l->incoming + at, n * sizeof *l->global);
	ops->lerp(l->backend, l->own + at, merge, l->global + at, n);
}

/* --- Pulls */

static weir_batch push_id(const struct local_sgd *l, const struct local_sgd_batch *b)
{
	return (weir_batch){.pass = b->unit->pass, .unit = b->unit->unit, .attempt = b->unit->attempt, .batch = next_push(l, b)};
}

static weir_status pull_all(struct local_sgd *l, const struct local_sgd_batch *b, weir_error *err)
{
	const weir_batch id = push_id(l, b);
	const weir_pull_item item = {.table = b->table, .values = l->incoming};
	weir_ticket ticket;
	weir_status status = weir_pull(b->client, &id, &item, 1, NULL, NULL, &ticket, err);
	if (status == WEIR_OK)
		status = weir_wait(b->client, ticket, -1, err);
	if (status != WEIR_OK)
		return status;
	for (uint32_t f = 0; f < l->options.fragments; f++) {
		take_in(l, &l->fragments[f], 1.0f);
		l->fragments[f].pushed = false;
	}
	return WEIR_OK;
}

static weir_status pull_fragment(struct local_sgd *l, const struct local_sgd_batch *b, struct fragment *x, weir_error *err)
{
	const weir_batch id = push_id(l, b);
	const weir_pull_item item = {
	    .table = b->table, .keys = l->chunks + x->first, .rows = x->end - x->first, .values = l->incoming};
	weir_status status = weir_pull(b->client, &id, &item, 1, NULL, NULL, &x->ticket, err);
	x->pulling = status == WEIR_OK;
	return status;
}

static weir_status settle(struct fragment *x, weir_client *client, weir_error *err)
{
	if (!x->pulling)
		return WEIR_OK;
	x->pulling = false;
	return weir_wait(client, x->ticket, -1, err);
}

uint64_t local_sgd_waits_for(const struct local_sgd *l, const struct local_sgd_batch *b)
{
	uint64_t sequence = 0;
	if (begins_unit(l, b))
		return l->last_push;
	for (uint32_t f = 0; f < l->options.fragments; f++)
		if (is_due(l, b, f) && l->fragments[f].sequence > sequence)
			sequence = l->fragments[f].sequence;
	return sequence;
}

weir_status local_sgd_acknowledged(struct local_sgd *l, const struct local_sgd_batch *b, uint64_t sequence, weir_error *err)
{
	weir_status status = WEIR_OK;
	for (uint32_t f = 0; f < l->options.fragments && status == WEIR_OK && !begins_unit(l, b); f++) {
		struct fragment *x = &l->fragments[f];
		if (x->pushed && !x->pulling && x->sequence <= sequence)
			status = pull_fragment(l, b, x, err);
	}
	return status;
}

weir_status local_sgd_begin(struct local_sgd *l, const struct local_sgd_batch *b, weir_error *err)
{
	weir_status status = WEIR_OK;
	if (begins_unit(l, b)) {
		status = pull_all(l, b, err);
		l->fresh = status != WEIR_OK;
		l->pass = b->unit->pass;
		l->unit = b->unit->unit;
		l->attempt = b->unit->attempt;
		return status;
	}
	for (uint32_t f = 0; f < l->options.fragments && status == WEIR_OK; f++) {
		struct fragment *x = &l->fragments[f];
		if (!is_due(l, b, f))
			continue;
		status = settle(x, b->client, err);
		if (status != WEIR_OK)
			break;
		take_in(l, x, l->options.merge);
		x->pushed = false;
	}
	return status;
}

/* --- Steps */

const float *local_sgd_parameters(const struct local_sgd *l)
{
	return l->own;
}

static void inner_step(struct local_sgd *l, uint64_t rate_step, const float *grad)
{
	const struct optimizer_scalars scalars = {.lr = (float)schedule_lr(&l->inner, rate_step), .grad_scale = 1};
	if (l->steps != UINT32_MAX)
		l->steps++;
	struct optimizer_step step = optimizer_step_of(l->optimizer, &scalars, l->steps);
	step.accumulator = l->accumulators; /* for rules without weight decay */
	const uint64_t elements = l->options.elements, slots = l->slots ? optimizer_slots(l->inner.kind) : 0;
	for (uint64_t at = 0, n; at < elements; at += n) {
		n = optimizer_decay_run(l->optimizer, at, elements - at, &step.k.weight_decay);
		l->backend->ops->update(l->backend, &step, l->own + at, slots ? l->slots + at * slots : NULL, grad + at, n);
	}
}

void local_sgd_step(struct local_sgd *l, const struct local_sgd_batch *b, uint64_t rate_step, float *grad,
                    const uint64_t **chunks, size_t *count)
{
	inner_step(l, rate_step, grad);
	*count = 0;
	*chunks = l->pushed;
	for (uint32_t f = 0; f < l->options.fragments; f++) {
		struct fragment *x = &l->fragments[f];
		if (!is_pushed(l, b, b->batch, f))
			continue;
		const uint64_t at = x->first * WEIR_CHUNK, n = elements_of(l, x);
		l->backend->ops->subtract(l->backend, grad + at, l->global + at, l->own + at, n);
		for (uint64_t chunk = x->first; chunk < x->end; chunk++)
			l->pushed[(*count)++] = chunk;
		x->pushed = true;
		x->batch = b->batch;
		x->sequence = l->last_push = b->sequence;
	}
}

/* --- Creation and destruction */

static void first_values(struct local_sgd *l)
{
	const struct backend_ops *ops = l->backend->ops;
	const uint64_t n = l->options.elements;
	l->fresh = true;
	l->last_push = 0;
	l->steps = 0;
	if (l->slots)
		ops->fill(l->backend, l->slots, optimizer_first_slot(&l->inner), n * optimizer_slots(l->inner.kind));
	ops->fill(l->backend, l->accumulators, l->inner.initial, weir_chunks(n));
	for (uint32_t f = 0; f < l->options.fragments; f++)
		l->fragments[f].pushed = l->fragments[f].pulling = false;
}

void local_sgd_forget(struct local_sgd *l, weir_client *client)
{
	for (uint32_t f = 0; f < l->options.fragments; f++)
		(void)settle(&l->fragments[f], client, NULL);
	/* Pulled values may still be on their way, and are pulled again. */
	(void)l->backend->ops->sync(l->backend, NULL);
	first_values(l);
}

static bool allocate(struct local_sgd *l)
{
	struct backend *b = l->backend;
	const uint64_t n = l->options.elements, chunks = weir_chunks(n), slots = optimizer_slots(l->inner.kind);
	l->own = b->ops->buffer_alloc(b, n * sizeof *l->own);
	l->global = b->ops->buffer_alloc(b, n * sizeof *l->global);
	l->slots = slots ? b->ops->buffer_alloc(b, n * slots * sizeof *l->slots) : NULL;
	l->accumulators = b->ops->buffer_alloc(b, chunks * sizeof *l->accumulators);
	l->incoming = b->ops->host_alloc(b, n * sizeof *l->incoming);
	l->chunks = malloc(chunks * sizeof *l->chunks);
	l->pushed = malloc(chunks * sizeof *l->pushed);
	l->fragments = calloc(l->options.fragments, sizeof *l->fragments);
	if (!l->own || !l->global || (slots && !l->slots) || !l->accumulators || !l->incoming || !l->chunks || !l->pushed ||
	    !l->fragments)
		return false;
	for (uint64_t i = 0; i < chunks; i++)
		l->chunks[i] = i;
	for (uint32_t f = 0; f < l->options.fragments; f++) {
		l->fragments[f].first = f * chunks / l->options.fragments;
		l->fragments[f].end = (f + 1) * chunks / l->options.fragments;
	}
	return true;
}

/* A device itself reports what it lacks. */
static weir_status out_of_memory(struct local_sgd *l, weir_error *err)
{
	const weir_status status = l->backend->ops->sync(l->backend, err);
	return status != WEIR_OK ? status : weir_fail(err, WEIR_E_MEMORY, "out of memory for a worker's own weights");
}

weir_status local_sgd_create(struct local_sgd **out, struct backend *b, const struct local_sgd_options *options, weir_error *err)
{
	*out = NULL;
	if (options->fragments == 0 || options->fragments > weir_chunks(options->elements))
		return weir_fail(
		    err, WEIR_E_INVALID,
		    "tables.dense.mode.fragments is %u; the model's dense table has %llu elements, which are %llu chunks of %u: "
		    "expected at most as many fragments",
		    options->fragments, (unsigned long long)options->elements, (unsigned long long)weir_chunks(options->elements),
		    WEIR_CHUNK);
	struct local_sgd *l = calloc(1, sizeof *l);
	if (!l)
		return weir_fail(err, WEIR_E_MEMORY, "out of memory for a worker's own weights");
	l->backend = b;
	l->options = *options;
	l->inner = *options->inner;
	l->options.inner = &l->inner;
	l->optimizer = optimizer_create(&l->inner, err);
	weir_status status =
	    l->optimizer ? optimizer_leave_out(l->optimizer, options->segments, options->segments_count, err) : WEIR_E_INVALID;
	if (status == WEIR_OK && !allocate(l))
		status = out_of_memory(l, err);
	if (status != WEIR_OK) {
		local_sgd_destroy(l);
		return status;
	}
	first_values(l);
	*out = l;
	return WEIR_OK;
}

void local_sgd_destroy(struct local_sgd *l)
{
	if (!l)
		return;
	float *const there[] = {l->own, l->global, l->slots, l->accumulators};
	for (size_t i = 0; i < sizeof there / sizeof *there; i++)
		if (there[i])
			l->backend->ops->buffer_free(l->backend, there[i]);
	if (l->incoming)
		l->backend->ops->host_free(l->backend, l->incoming);
	optimizer_destroy(l->optimizer);
	free(l->chunks);
	free(l->pushed);
	free(l->fragments);
	free(l);
}
