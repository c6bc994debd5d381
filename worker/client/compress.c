#include "compress.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "book.h"
#include "codec.h"
#include "topk.h"

#define MEASURE_EVERY TOPK_EXACT_EVERY /* pushes: a measurement reads the residual twice */

struct compressor {
	weir_compression spec;
	uint64_t elements, chunks;
	float *residual; /* (elements); NULL: no feedback */
	float *velocity; /* (elements); NULL: no momentum */
	uint64_t pushes; /* begun */
	/* Of the push under way: */
	const float *grad;
	const bool *wanted;
	float scale;         /* what it is multiplied by: clipping */
	bool accumulated;    /* the residual has taken the gradient in already */
	uint64_t share;      /* elements of the chunks that are wanted */
	uint64_t first, end; /* elements: from the first wanted chunk to the last */
	uint64_t run_end;    /* of the first run of them: what `grad` has for others may be anything */
	uint64_t selected, coded;
	double before; /* |acc|^2, where it is measured; < 0: not in this push */
	/* Top-k, int4: */
	struct topk_tracker topk;
	float book[CODEC_BOOK];
	/* Of pushes that were measured: */
	uint64_t measured;
	double error, error_sum, residual_norm;
};

bool compressor_is_needed(const weir_table_spec *spec)
{
	return spec->kind == WEIR_DENSE && spec->push.codec != WEIR_CODEC_FP32 && spec->push.codec != WEIR_CODEC_BF16;
}

struct compressor *compressor_create(const weir_table_spec *spec, weir_error *err)
{
	struct compressor *c = calloc(1, sizeof *c);
	if (!c)
		goto no_memory;
	c->spec = spec->push;
	c->elements = spec->elements;
	c->chunks = weir_chunks(spec->elements);
	if (c->spec.feedback && !(c->residual = calloc(c->elements, sizeof *c->residual)))
		goto no_memory;
	if (c->spec.momentum > 0 && !(c->velocity = calloc(c->elements, sizeof *c->velocity)))
		goto no_memory;
	c->error = 1;
	topk_tracker_init(&c->topk);
	return c;
no_memory:
	compressor_destroy(c);
	(void)weir_fail(err, WEIR_E_MEMORY, "table %s: out of memory for what its compression leaves out", spec->name);
	return NULL;
}

void compressor_destroy(struct compressor *c)
{
	if (!c)
		return;
	free(c->residual);
	free(c->velocity);
	free(c);
}

void compressor_forget(struct compressor *c)
{
	if (c->residual)
		memset(c->residual, 0, c->elements * sizeof *c->residual);
	if (c->velocity)
		memset(c->velocity, 0, c->elements * sizeof *c->velocity);
	c->pushes = 0;
	c->residual_norm = 0;
	topk_tracker_init(&c->topk);
}

static struct topk_momentum momentum_at(const struct compressor *c, uint64_t at)
{
	return (struct topk_momentum){.velocity = c->velocity ? c->velocity + at : NULL, .factor = c->spec.momentum};
}

double compression_energy(const float *x, uint64_t n)
{
	double sum = 0;
	for (uint64_t i = 0; i < n; i++)
		sum += (double)x[i] * (double)x[i];
	return sum;
}

/* --- Clipping */

/* Of the chunks that take part: there is no gradient of others. */
static float clip_scale(const struct compressor *c)
{
	double norm = 0;
	for (uint64_t chunk = 0; chunk < c->chunks && c->spec.clip > 0; chunk++)
		if (c->wanted[chunk])
			norm += compression_energy(c->grad + chunk * WEIR_CHUNK, weir_chunk_elements(c->elements, chunk));
	norm = sqrt(norm);
	return norm > (double)c->spec.clip ? (float)((double)c->spec.clip / norm) : 1;
}

/* n elements of the gradient from `at` on, n <= CODEC_TILE; room (n). */
static const float *clipped(const struct compressor *c, uint64_t at, size_t n, float *room)
{
	if (c->scale == 1)
		return c->grad + at;
	for (size_t i = 0; i < n; i++)
		room[i] = c->grad[at + i] * c->scale;
	return room;
}

/* --- Top-k: how much, and from where on */

static double density_now(const struct compressor *c)
{
	const double full = (double)c->spec.density, first = (double)WEIR_DENSITY_MAX;
	if (c->pushes >= c->spec.warmup || full >= first)
		return full;
	return first * pow(full / first, (double)c->pushes / (double)c->spec.warmup);
}

static uint64_t wanted_count(const struct compressor *c)
{
	const uint64_t k = (uint64_t)llround(density_now(c) * (double)c->share);
	return k ? k < c->elements ? k : c->elements : 1;
}

static void accumulate(struct compressor *c)
{
	for (uint64_t chunk = 0; chunk < c->chunks; chunk++) {
		const uint64_t end = chunk * WEIR_CHUNK + weir_chunk_elements(c->elements, chunk);
		for (uint64_t at = chunk * WEIR_CHUNK; at < end && c->wanted[chunk]; at += CODEC_TILE) {
			const size_t n = codec_tile_elements(end, at);
			const struct topk_momentum momentum = momentum_at(c, at);
			float room[CODEC_TILE];
			topk_accumulate(clipped(c, at, n, room), c->residual + at, &momentum, n);
		}
	}
	c->accumulated = true;
}

/* At the first push and every so many, and while the density falls: the last threshold says little of the next. */
static weir_status choose_threshold(struct compressor *c, weir_error *err)
{
	const uint64_t k = wanted_count(c);
	if (!c->share || (!c->topk.is_exact_due && c->pushes >= c->spec.warmup))
		return WEIR_OK;
	accumulate(c);
	const weir_status status = topk_threshold(c->residual + c->first, c->end - c->first, k, &c->topk.threshold, err);
	return c->pushes > 0 ? WEIR_OK : status; /* without the memory for it the last one does */
}

/* --- Pushes */

static void measure_begin(struct compressor *c)
{
	c->before = -1;
	if (!c->residual || c->pushes % MEASURE_EVERY)
		return;
	if (c->accumulated) {
		c->before = compression_energy(c->residual, c->elements);
		return;
	}
	c->before = 0;
	for (uint64_t chunk = 0; chunk < c->chunks; chunk++) {
		const uint64_t at = chunk * WEIR_CHUNK, n = weir_chunk_elements(c->elements, chunk);
		for (uint64_t i = at; i < at + n; i++) {
			const double moved = c->velocity ? (double)(c->spec.momentum * c->velocity[i]) : 0;
			const double acc = (double)c->residual[i] + (c->wanted[chunk] ? moved + (double)(c->grad[i] * c->scale) : 0);
			c->before += acc * acc;
		}
	}
}

static void measure_end(struct compressor *c)
{
	if (c->before == 0)
		c->residual_norm = 0;
	if (c->before <= 0)
		return;
	const double after = compression_energy(c->residual, c->elements);
	c->error = 1 - after / c->before;
	c->residual_norm = sqrt(after);
	c->error_sum += c->error;
	c->measured++;
}

static void note_share(struct compressor *c, const bool *wanted)
{
	c->selected = c->coded = c->share = c->first = c->end = c->run_end = 0;
	for (uint64_t chunk = 0; chunk < c->chunks; chunk++) {
		if (!wanted[chunk])
			continue;
		const uint64_t n = weir_chunk_elements(c->elements, chunk);
		const uint64_t at = chunk * WEIR_CHUNK;
		c->first = c->share ? c->first : at;
		c->run_end = !c->share || c->run_end == at ? at + n : c->run_end;
		c->end = at + n;
		c->share += n;
	}
}

weir_status compressor_begin(struct compressor *c, const float *grad, const bool *wanted, weir_error *err)
{
	weir_status status = WEIR_OK;
	c->grad = grad;
	c->wanted = wanted;
	c->scale = clip_scale(c);
	c->accumulated = false;
	note_share(c, wanted);
	if (c->spec.codec == WEIR_CODEC_TOPK)
		status = choose_threshold(c, err);
	if (c->spec.codec == WEIR_CODEC_INT4 && c->spec.book == WEIR_BOOK_SEGMENTED && c->pushes % TOPK_EXACT_EVERY == 0)
		book_fit(grad + c->first, c->run_end - c->first, c->book);
	measure_begin(c);
	return status;
}

void compressor_end(struct compressor *c)
{
	measure_end(c);
	c->pushes++;
	c->grad = NULL;
	c->wanted = NULL;
	if (c->spec.codec == WEIR_CODEC_TOPK && c->coded) {
		const double share = (double)c->coded / (double)c->share;
		topk_track(&c->topk, c->selected, (uint64_t)llround((double)wanted_count(c) * share));
	}
}

/* --- Chunks */

size_t compressor_chunk_max(const weir_table_spec *spec, size_t n)
{
	if (spec->push.codec != WEIR_CODEC_TOPK)
		return codec_bytes(spec->push.codec, n);
	size_t bytes = 0;
	for (size_t at = 0; at < n; at += CODEC_TILE)
		bytes += topk_record_max(codec_tile_elements(n, at), spec->push.values);
	return bytes;
}

uint64_t compressor_aux(const struct compressor *c)
{
	return c->spec.codec == WEIR_CODEC_TOPK ? (uint64_t)c->spec.values : (uint64_t)c->spec.book;
}

size_t compressor_head(const struct compressor *c, uint8_t *out)
{
	if (c->spec.codec != WEIR_CODEC_INT4 || c->spec.book != WEIR_BOOK_SEGMENTED)
		return 0;
	memcpy(out, c->book, sizeof c->book);
	return sizeof c->book;
}
_Static_assert(sizeof(float) * CODEC_BOOK <= COMPRESSOR_HEAD_MAX, "a code book is a section's head");

static size_t topk_chunk(struct compressor *c, uint64_t at, size_t n, uint8_t *out)
{
	size_t bytes = 0;
	for (size_t tile = 0; tile < n; tile += CODEC_TILE) {
		const size_t m = codec_tile_elements(n, tile);
		const struct topk_momentum momentum = momentum_at(c, at + tile);
		float room[CODEC_TILE];
		uint32_t selected;
		bytes += topk_encode(c->accumulated ? NULL : clipped(c, at + tile, m, room), c->residual + at + tile, &momentum, m,
		                     c->topk.threshold, c->spec.values, out + bytes, &selected);
		c->selected += selected;
	}
	return bytes;
}

size_t compressor_chunk(struct compressor *c, uint64_t chunk, uint8_t *out)
{
	const uint64_t at = chunk * WEIR_CHUNK;
	const size_t n = weir_chunk_elements(c->elements, chunk);
	assert(c->wanted[chunk]);
	c->coded += n;
	if (c->spec.codec == WEIR_CODEC_TOPK)
		return topk_chunk(c, at, n, out);
	const float *known = c->spec.codec == WEIR_CODEC_INT4 ? book_known(c->spec.book) : NULL;
	const struct coding coding = {.codec = c->spec.codec, .book = known ? known : c->book};
	codec_encode(&coding, c->grad + at, c->residual ? c->residual + at : NULL, n, out);
	return codec_bytes(c->spec.codec, n);
}

const float *compressor_residual(const struct compressor *c)
{
	return c->residual;
}

void compressor_take(struct compressor *c, const uint64_t *chunks, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		const uint64_t at = chunks[i] * WEIR_CHUNK, n = weir_chunk_elements(c->elements, chunks[i]);
		memset(c->residual + at, 0, n * sizeof *c->residual);
		if (c->velocity)
			memset(c->velocity + at, 0, n * sizeof *c->velocity);
	}
	c->residual_norm = sqrt(compression_energy(c->residual, c->elements));
}

void compressor_get_stats(const struct compressor *c, struct compression_stats *out)
{
	*out = (struct compression_stats){.pushes = c->pushes,
	                                  .measured = c->measured,
	                                  .residual_norm = c->residual_norm,
	                                  .error = c->error,
	                                  .error_sum = c->error_sum};
}
