#include "worker/train/batch/gradients.h"

#include <assert.h>
#include <stdlib.h>

#include "kernels/book.h"
#include "kernels/compress.h"

enum form { AS_IT_IS, AS_VALUES, AS_BYTES, BY_ENCODER };

struct gradients {
	struct backend *backend;
	const struct model *model;
	uint32_t ids[MODEL_TABLES];
	enum form form[MODEL_TABLES];
	bool comes_back[MODEL_TABLES];
	struct coding coding[MODEL_TABLES];
	struct compressor *compressors[MODEL_TABLES]; /* BY_ENCODER */
	/* (coded_room) on the device: the next bytes for the host */
	uint8_t *coded;
	size_t coded_room;
};

static enum form form_of(const struct backend *b, const weir_table_spec *spec)
{
	if (b->ops->host_memory)
		return AS_IT_IS;
	if (compressor_is_needed(spec))
		return BY_ENCODER;
	return spec->push.codec == WEIR_CODEC_FP32 || spec->push.rows > 0 ? AS_VALUES : AS_BYTES;
}

weir_status gradients_create(struct gradients **out, struct backend *b, const struct model *model, weir_error *err)
{
	struct gradients *g = calloc(1, sizeof *g);
	if (!g)
		return weir_fail(err, WEIR_E_MEMORY, "out of memory");
	g->backend = b;
	g->model = model;
	for (enum model_table t = 0; t < MODEL_TABLES; t++) {
		if (!model_has(model, t))
			continue;
		const weir_table_spec spec = model_table_spec(model, t);
		g->form[t] = form_of(b, &spec);
		g->comes_back[t] = g->form[t] != BY_ENCODER;
		g->coding[t] = (struct coding){.codec = spec.push.codec, .book = book_known(spec.push.book)};
		if (g->form[t] == BY_ENCODER && !(g->compressors[t] = compressor_create(b, &spec, err))) {
			gradients_destroy(g);
			return WEIR_E_MEMORY;
		}
	}
	*out = g;
	return WEIR_OK;
}

void gradients_destroy(struct gradients *g)
{
	if (!g)
		return;
	for (enum model_table t = 0; t < MODEL_TABLES; t++)
		compressor_destroy(g->compressors[t]);
	if (g->coded)
		g->backend->ops->buffer_free(g->backend, g->coded);
	free(g);
}

const bool *gradients_come_back(const struct gradients *g)
{
	return g->comes_back;
}

weir_status gradients_register(struct gradients *g, weir_client *client, const uint32_t ids[MODEL_TABLES], weir_error *err)
{
	weir_status status = WEIR_OK;
	for (enum model_table t = 0; t < MODEL_TABLES && status == WEIR_OK; t++) {
		g->ids[t] = ids[t];
		if (!g->compressors[t])
			continue;
		const weir_encoder encoder = compressor_encoder(g->compressors[t]);
		encoder.forget(encoder.arg);
		status = weir_table_encoder(client, ids[t], &encoder, err);
	}
	return status;
}

/* --- A batch */

/* A table's gradient: rows of a keyed table, or the pushed chunks of a dense one. */
struct gradient {
	enum model_table table;
	const float *at; /* (elements) as computed, the backend's memory */
	float *host;     /* (elements) room for the copy on the host */
	size_t rows, elements;
	const uint64_t *chunks; /* (count) rising; NULL: all */
	size_t count;
};

/* Room for `bytes` and a quarter more: batches grow slowly. */
static bool room(struct gradients *g, size_t bytes)
{
	const struct backend_ops *ops = g->backend->ops;
	if (bytes <= g->coded_room)
		return true;
	if (g->coded)
		ops->buffer_free(g->backend, g->coded);
	const size_t room = bytes + bytes / 4;
	g->coded = ops->buffer_alloc(g->backend, room);
	g->coded_room = g->coded ? room : 0;
	return g->coded != NULL;
}

/* Adjacent elements that are pushed. */
struct run {
	size_t at, n;
};

/* The next run, from the i-th chunk on; moves *i past it. Returns false at the end. */
static bool next_run(const struct gradient *from, size_t *i, struct run *run)
{
	if (*i >= (from->chunks ? from->count : 1))
		return false;
	if (!from->chunks) {
		*i = 1;
		*run = (struct run){0, from->elements};
		return true;
	}
	const uint64_t first = from->chunks[*i];
	uint64_t last = first;
	for (++*i; *i < from->count && from->chunks[*i] == last + 1; ++*i)
		last++;
	*run = (struct run){first * WEIR_CHUNK, (last - first) * WEIR_CHUNK + weir_chunk_elements(from->elements, last)};
	return true;
}

static bool is_finite(const struct gradients *g, const struct gradient *from)
{
	bool finite = true;
	struct run run;
	for (size_t i = 0; finite && next_run(from, &i, &run);)
		finite = g->backend->ops->all_finite(g->backend, from->at + run.at, run.n);
	return finite;
}

static void bring_values(const struct gradients *g, const struct gradient *from)
{
	struct run run;
	for (size_t i = 0; next_run(from, &i, &run);)
		g->backend->ops->to_host_later(g->backend, from->host + run.at, from->at + run.at, run.n * sizeof *from->at);
}

/* Brings coded bytes to the host. Keyed tables: row by row. Dense tables: bf16 codes each element
 * alone, so elements keep the places of their values. Returns the size of the whole table's
 * bytes. */
static size_t bring_bytes(struct gradients *g, const struct gradient *from)
{
	const struct backend_ops *ops = g->backend->ops;
	const struct coding *coding = &g->coding[from->table];
	const size_t width = model_table_elements(g->model, from->table), element = codec_element_bytes(coding->codec);
	const bool keyed = model_table_is_keyed(from->table);
	const size_t bytes = keyed ? from->rows * codec_bytes(coding->codec, width) : from->elements * element;
	uint8_t *host = (uint8_t *)from->host;
	struct run run;
	if (!room(g, bytes))
		return bytes;
	if (keyed) {
		ops->encode_rows(g->backend, coding, from->at, from->rows, width, g->coded);
		ops->to_host_later(g->backend, host, g->coded, bytes);
		return bytes;
	}
	for (size_t i = 0; next_run(from, &i, &run);) {
		ops->encode(g->backend, coding, from->at + run.at, NULL, run.n, g->coded + run.at * element);
		ops->to_host_later(g->backend, host + run.at * element, g->coded + run.at * element, run.n * element);
	}
	return bytes;
}

static void give(struct gradients *g, const struct gradient *from, weir_push_item *item)
{
	const enum form form = g->form[from->table];
	item->values = from->at;
	if (form == AS_IT_IS || form == BY_ENCODER)
		return;
	if (form == AS_BYTES && is_finite(g, from)) {
		item->values = NULL;
		item->encoded = from->host;
		item->encoded_bytes = bring_bytes(g, from);
	} else {
		item->values = from->host;
		bring_values(g, from);
	}
}

static enum model_table table_of(const struct gradients *g, uint32_t id)
{
	enum model_table t = 0;
	while (t < MODEL_TABLES && (g->ids[t] != id || !model_has(g->model, t)))
		t++;
	assert(t < MODEL_TABLES);
	return t;
}

weir_status gradients_bring_back(struct gradients *g, const struct batch_pipeline *s, const struct minibatch *m,
                                 weir_push_item *items, size_t count, weir_error *err)
{
	for (size_t i = 0; i < count; i++) {
		const enum model_table t = table_of(g, items[i].table);
		const bool keyed = model_table_is_keyed(t);
		const struct gradient from = {.table = t,
		                              .at = batch_pipeline_gradient(s, t),
		                              .host = m->output.gradients[t],
		                              .rows = items[i].rows,
		                              .elements = model_table_elements(g->model, t) * (keyed ? items[i].rows : 1),
		                              .chunks = keyed ? NULL : items[i].keys,
		                              .count = items[i].rows};
		give(g, &from, &items[i]);
	}
	return g->backend->ops->sync_stream(g->backend, err);
}
