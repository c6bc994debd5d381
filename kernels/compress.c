#include "kernels/compress.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/book.h"
#include "kernels/codec.h"
#include "kernels/coded.h"
#include "kernels/topk.h"

/* pushes; a measurement first adds the gradient to the residual, which is then read twice */
#define MEASURE_EVERY   TOPK_EXACT_EVERY
#define TILES_PER_CHUNK (WEIR_CHUNK / CODEC_TILE)

struct compressor {
	struct backend *backend;
	weir_compression spec;
	uint64_t elements, chunks;
	float *residual;     /* (elements), in the backend's memory; NULL: no feedback */
	float *velocity;     /* (elements), in the backend's memory; NULL: no momentum */
	double *number;      /* in the backend's memory: a sum */
	struct coded *coded; /* on a device: coded chunks until they are requested */
	float *shown;        /* (elements) on a device: the host's copy of the residual */
	uint64_t pushes;     /* begun */
	/* The present push: */
	const float *grad;
	const bool *wanted;
	float scale;         /* factor of the gradient: clipping */
	bool accumulated;    /* the residual already includes the gradient */
	uint64_t share;      /* elements of the wanted chunks */
	uint64_t first, end; /* elements: from the first wanted chunk to the last */
	/* end of their first run, in elements: `grad` may hold anything for chunks that are not
	 * wanted */
	uint64_t run_end;
	uint64_t selected, coded_share;
	double before; /* |acc|^2, if measured; < 0: not in this push */
	/* Top-k, int4: */
	struct topk_tracker topk;
	float book[CODEC_BOOK];
	/* Measured pushes: */
	uint64_t measured;
	double error, error_sum, residual_norm;
};

static bool on_device(const struct compressor *c)
{
	return !c->backend->ops->host_memory;
}

bool compressor_is_needed(const weir_table_spec *spec)
{
	return spec->kind == WEIR_DENSE && codec_feedback(spec->push.codec) != WEIR_FEEDBACK_NEVER;
}

struct compressor *compressor_create(struct backend *b, const weir_table_spec *spec, weir_error *err)
{
	struct compressor *c = calloc(1, sizeof *c);
	weir_error why = {0};
	if (!c)
		goto no_memory;
	c->backend = b;
	c->spec = spec->push;
	c->elements = spec->elements;
	c->chunks = weir_chunks(spec->elements);
	if (!(c->number = b->ops->buffer_alloc(b, sizeof *c->number)))
		goto no_memory;
	if (c->spec.feedback && !(c->residual = b->ops->buffer_alloc(b, c->elements * sizeof *c->residual)))
		goto no_memory;
	if (c->spec.momentum > 0 && !(c->velocity = b->ops->buffer_alloc(b, c->elements * sizeof *c->velocity)))
		goto no_memory;
	if (on_device(c) && !(c->coded = coded_create(b, c->chunks, &why)))
		goto no_memory;
	c->error = 1;
	topk_tracker_init(&c->topk);
	return c;
no_memory:
	(void)b->ops->sync(b, &why); /* sync reports the device's own error, and clears it */
	compressor_destroy(c);
	(void)weir_fail(err, WEIR_E_MEMORY, "table %s: out of memory for what its compression leaves out%s%s", spec->name,
	                why.status ? ": " : "", why.text);
	return NULL;
}

static void stop_showing(struct compressor *c)
{
	free(c->shown);
	c->shown = NULL;
}

void compressor_destroy(struct compressor *c)
{
	if (!c)
		return;
	stop_showing(c);
	coded_destroy(c->coded);
	if (c->number)
		c->backend->ops->buffer_free(c->backend, c->number);
	if (c->residual)
		c->backend->ops->buffer_free(c->backend, c->residual);
	if (c->velocity)
		c->backend->ops->buffer_free(c->backend, c->velocity);
	free(c);
}

/* --- Runs of wanted chunks */

struct run {
	uint64_t chunk;     /* the first */
	uint64_t at, count; /* elements */
};

/* The next run from chunk *from on, of at most `most` chunks; moves *from to its end. False: no
 * more. */
static bool next_run(const struct compressor *c, uint64_t *from, uint64_t most, struct run *run)
{
	uint64_t begin = *from;
	while (begin < c->chunks && !c->wanted[begin])
		begin++;
	uint64_t end = begin;
	while (end < c->chunks && end - begin < most && c->wanted[end])
		end++;
	const uint64_t elements_end = end < c->chunks ? end * WEIR_CHUNK : c->elements;
	*run = (struct run){.chunk = begin, .at = begin * WEIR_CHUNK, .count = begin < end ? elements_end - begin * WEIR_CHUNK : 0};
	*from = end;
	return begin < end;
}

static void note_share(struct compressor *c)
{
	struct run run;
	c->selected = c->coded_share = c->share = c->first = c->end = c->run_end = 0;
	for (uint64_t from = 0; next_run(c, &from, UINT64_MAX, &run);) {
		if (!c->share) {
			c->first = run.at;
			c->run_end = run.at + run.count;
		}
		c->end = run.at + run.count;
		c->share += run.count;
	}
}

static struct topk_row row_of(const struct compressor *c, uint64_t at, uint64_t n)
{
	return (struct topk_row){.grad = c->accumulated ? NULL : c->grad + at,
	                         .residual = c->residual ? c->residual + at : NULL,
	                         .momentum = {.velocity = c->velocity ? c->velocity + at : NULL, .factor = c->spec.momentum},
	                         .scale = c->scale,
	                         .n = n};
}

/* --- Before coding */

static double energy(const struct compressor *c, const float *x, uint64_t n)
{
	double sum = NAN; /* stays NaN after a device's failure */
	c->backend->ops->sum_squares(c->backend, c->number, x, n);
	c->backend->ops->to_host(c->backend, &sum, c->number, sizeof sum);
	return sum;
}

/* Over the chunks that take part: others have no gradient. */
static float clip_scale(const struct compressor *c)
{
	double norm = 0;
	struct run run;
	for (uint64_t from = 0; c->spec.clip > 0 && next_run(c, &from, UINT64_MAX, &run);)
		norm += energy(c, c->grad + run.at, run.count);
	norm = sqrt(norm);
	return norm > (double)c->spec.clip ? (float)((double)c->spec.clip / norm) : 1;
}

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

/* Adds the gradient to the residual before coding: a threshold or a measurement needs the sum. */
static void accumulate(struct compressor *c)
{
	struct run run;
	for (uint64_t from = 0; !c->accumulated && next_run(c, &from, UINT64_MAX, &run);) {
		const struct topk_row row = row_of(c, run.at, run.count);
		c->backend->ops->topk_accumulate(c->backend, &row);
	}
	c->accumulated = true;
}

/* Takes an exact threshold at the first push, every TOPK_EXACT_EVERY pushes, and while the density
 * falls: then the last threshold says little about the next. */
static weir_status choose_threshold(struct compressor *c, weir_error *err)
{
	if (!c->share || (!c->topk.is_exact_due && c->pushes >= c->spec.warmup))
		return WEIR_OK;
	accumulate(c);
	const weir_status status = c->backend->ops->topk_threshold(c->backend, c->residual + c->first, c->end - c->first,
	                                                           wanted_count(c), &c->topk.threshold, err);
	/* the last threshold does if there is no memory for an exact one */
	return c->pushes > 0 ? WEIR_OK : status;
}

static void measure_begin(struct compressor *c)
{
	c->before = -1;
	if (!c->residual || c->pushes % MEASURE_EVERY)
		return;
	accumulate(c);
	c->before = energy(c, c->residual, c->elements);
}

static void measure_end(struct compressor *c)
{
	if (c->before == 0)
		c->residual_norm = 0;
	if (!(c->before > 0))
		return;
	const double after = energy(c, c->residual, c->elements);
	if (!isfinite(after)) /* the device has failed, and sync will report it */
		return;
	c->error = 1 - after / c->before;
	c->residual_norm = sqrt(after);
	c->error_sum += c->error;
	c->measured++;
}

/* --- The code book */

static bool fits_book(const struct compressor *c)
{
	return codec_has_use(c->spec.codec, WEIR_CODES_BY_BOOK) && c->spec.book == WEIR_BOOK_SEGMENTED;
}

/* Copies the blocks of x (n), on a device, that book_fit would look at. sample (n); returns its
 * elements. */
static size_t bring_sample(struct backend *b, const float *x, size_t n, float *sample, uint32_t *which)
{
	const size_t every = book_every(n), whole = n / CODEC_INT4_BLOCK, rest = n % CODEC_INT4_BLOCK;
	const size_t count = (whole + every - 1) / every, taken = count * CODEC_INT4_BLOCK;
	const bool takes_rest = rest > 0 && whole % every == 0;
	uint32_t *there = b->ops->buffer_alloc(b, count * sizeof *there);
	float *blocks = b->ops->buffer_alloc(b, taken * sizeof *blocks);
	for (size_t i = 0; i < count; i++)
		which[i] = (uint32_t)(i * every);
	if (there && blocks) {
		b->ops->to_device(b, there, which, count * sizeof *there);
		b->ops->copy_rows(b, blocks, NULL, x, there, CODEC_INT4_BLOCK, count);
		b->ops->to_host(b, sample, blocks, taken * sizeof *sample);
		if (takes_rest)
			b->ops->to_host(b, sample + taken, x + n - rest, rest * sizeof *sample);
	}
	if (there)
		b->ops->buffer_free(b, there);
	if (blocks)
		b->ops->buffer_free(b, blocks);
	return taken + (takes_rest ? rest : 0);
}

static weir_status fit_book(struct compressor *c, weir_error *err)
{
	const float *x = c->grad + c->first;
	const size_t n = c->run_end - c->first, most = n < BOOK_SAMPLE_MAX ? n : BOOK_SAMPLE_MAX;
	if (!on_device(c)) {
		book_fit(x, n, c->book);
		return WEIR_OK;
	}
	float *sample = calloc(most + 1, sizeof *sample);
	uint32_t *which = malloc((most / CODEC_INT4_BLOCK + 1) * sizeof *which);
	weir_status status = WEIR_E_MEMORY;
	if (sample && which) {
		const size_t taken = bring_sample(c->backend, x, n, sample, which);
		status = c->backend->ops->sync_stream(c->backend, err);
		if (!status)
			book_fit(sample, taken, c->book);
	} else
		(void)weir_fail(err, status, "out of memory for a sample of %zu numbers", most);
	free(sample);
	free(which);
	return status;
}

/* --- Coding */

size_t compressor_chunk_max(const weir_compression *spec, size_t n)
{
	if (spec->codec != WEIR_CODEC_TOPK)
		return codec_bytes(spec->codec, n);
	size_t bytes = 0;
	for (size_t at = 0; at < n; at += CODEC_TILE)
		bytes += topk_record_max(codec_tile_elements(n, at), spec->values);
	return bytes;
}

static struct coding coding_of(const struct compressor *c)
{
	const float *known = codec_has_use(c->spec.codec, WEIR_CODES_BY_BOOK) ? book_known(c->spec.book) : NULL;
	return (struct coding){.codec = c->spec.codec, .book = known ? known : c->book};
}

static const float *input(const struct compressor *c, uint64_t at)
{
	return c->accumulated ? NULL : c->grad + at;
}

/* Codes all wanted chunks on a device. */
static weir_status code_runs(struct compressor *c, weir_error *err)
{
	const struct coding coding = coding_of(c);
	weir_status status = WEIR_OK;
	struct run run;
	coded_begin(c->coded);
	for (uint64_t from = 0; !status && next_run(c, &from, CODED_RUN_CHUNKS, &run);) {
		const struct topk_row row = row_of(c, run.at, run.count);
		status = c->spec.codec == WEIR_CODEC_TOPK
		             ? coded_topk(c->coded, run.chunk, &row, c->topk.threshold, c->spec.values, &c->selected, err)
		             : coded_fixed(c->coded, run.chunk, &coding, input(c, run.at), row.residual, run.count, err);
	}
	return status ? status : c->backend->ops->sync_stream(c->backend, err);
}

static size_t code_topk(struct compressor *c, uint64_t at, size_t n, uint8_t *out)
{
	uint32_t ends[TILES_PER_CHUNK], selected[TILES_PER_CHUNK];
	const struct topk_row row = row_of(c, at, n);
	const size_t tiles = codec_tiles(n);
	c->backend->ops->topk_encode(c->backend, &row, c->topk.threshold, c->spec.values, out, ends, selected);
	for (size_t t = 0; t < tiles; t++)
		c->selected += selected[t];
	return ends[tiles - 1];
}

/* --- The encoder's calls */

static weir_status check_values(void *arg, const float *values, const uint64_t *chunks, size_t count, weir_error *err)
{
	const struct compressor *c = arg;
	struct backend *b = c->backend;
	bool finite = chunks || b->ops->all_finite(b, values, c->elements);
	for (size_t i = 0, end; chunks && i < count && finite; i = end) {
		end = i + 1;
		while (end < count && chunks[end] == chunks[end - 1] + 1)
			end++;
		const uint64_t at = chunks[i] * WEIR_CHUNK,
		               last = chunks[end - 1] * WEIR_CHUNK + weir_chunk_elements(c->elements, chunks[end - 1]);
		finite = b->ops->all_finite(b, values + at, last - at);
	}
	const weir_status status = finite ? WEIR_OK : b->ops->sync_stream(b, err);
	return finite || status ? status : weir_fail(err, WEIR_E_NOT_FINITE, "there is a NaN or an infinity");
}

static weir_status begin_push(void *arg, const float *values, const bool *wanted, weir_error *err)
{
	struct compressor *c = arg;
	weir_status status = WEIR_OK;
	stop_showing(c);
	c->grad = values;
	c->wanted = wanted;
	c->accumulated = false;
	note_share(c);
	c->scale = clip_scale(c);
	if (c->spec.codec == WEIR_CODEC_TOPK)
		status = choose_threshold(c, err);
	if (fits_book(c) && c->pushes % TOPK_EXACT_EVERY == 0)
		status = fit_book(c, err);
	measure_begin(c);
	if (status || !on_device(c))
		return status;
	c->coded_share = c->share;
	return code_runs(c, err);
}

static const float *get_book(void *arg)
{
	const struct compressor *c = arg;
	return c->book;
}

static size_t code_chunk(void *arg, uint64_t number, uint8_t *out, size_t room)
{
	struct compressor *c = arg;
	const uint64_t at = number * WEIR_CHUNK;
	const size_t n = weir_chunk_elements(c->elements, number);
	const struct coding coding = coding_of(c);
	size_t bytes;
	assert(c->wanted[number]);
	if (on_device(c)) {
		const uint8_t *from = coded_chunk(c->coded, number, &bytes);
		assert(bytes <= room);
		memcpy(out, from, bytes);
		return bytes;
	}
	assert(compressor_chunk_max(&c->spec, n) <= room);
	c->coded_share += n;
	if (c->spec.codec == WEIR_CODEC_TOPK)
		return code_topk(c, at, n, out);
	c->backend->ops->encode(c->backend, &coding, input(c, at), row_of(c, at, n).residual, n, out);
	return codec_bytes(coding.codec, n);
}

static void end_push(void *arg)
{
	struct compressor *c = arg;
	measure_end(c);
	c->pushes++;
	c->grad = NULL;
	c->wanted = NULL;
	if (c->spec.codec == WEIR_CODEC_TOPK && c->coded_share) {
		const double share = (double)c->coded_share / (double)c->share;
		topk_track(&c->topk, c->selected, (uint64_t)llround((double)wanted_count(c) * share));
	}
}

static weir_status get_residual(void *arg, const float **out, weir_error *err)
{
	struct compressor *c = arg;
	struct backend *b = c->backend;
	*out = c->residual;
	if (!c->residual || !on_device(c))
		return WEIR_OK;
	if (!c->shown && !(c->shown = malloc(c->elements * sizeof *c->shown)))
		return weir_fail(err, WEIR_E_MEMORY, "out of memory for %llu numbers that are kept back",
		                 (unsigned long long)c->elements);
	b->ops->to_host(b, c->shown, c->residual, c->elements * sizeof *c->shown);
	*out = c->shown;
	return b->ops->sync_stream(b, err);
}

static void take_chunks(void *arg, const uint64_t *chunks, size_t count)
{
	struct compressor *c = arg;
	struct backend *b = c->backend;
	stop_showing(c);
	for (size_t i = 0; i < count; i++) {
		const uint64_t at = chunks[i] * WEIR_CHUNK, n = weir_chunk_elements(c->elements, chunks[i]);
		b->ops->fill(b, c->residual + at, 0, n);
		if (c->velocity)
			b->ops->fill(b, c->velocity + at, 0, n);
	}
	c->residual_norm = sqrt(energy(c, c->residual, c->elements));
}

static void forget_all(void *arg)
{
	struct compressor *c = arg;
	struct backend *b = c->backend;
	stop_showing(c);
	if (c->residual)
		b->ops->fill(b, c->residual, 0, c->elements);
	if (c->velocity)
		b->ops->fill(b, c->velocity, 0, c->elements);
	c->pushes = 0;
	c->residual_norm = 0;
	topk_tracker_init(&c->topk);
}

static void get_stats(void *arg, weir_encoder_stats *out)
{
	const struct compressor *c = arg;
	*out = (weir_encoder_stats){.pushes = c->pushes,
	                            .measured = c->measured,
	                            .residual_norm = c->residual_norm,
	                            .error = c->error,
	                            .error_sum = c->error_sum};
}

weir_encoder compressor_encoder(struct compressor *c)
{
	return (weir_encoder){.arg = c,
	                      .check = check_values,
	                      .begin = begin_push,
	                      .book = get_book,
	                      .chunk = code_chunk,
	                      .end = end_push,
	                      .residual = get_residual,
	                      .take = take_chunks,
	                      .forget = forget_all,
	                      .stats = get_stats};
}
