#include "kernels/coded.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define TILES_PER_CHUNK (WEIR_CHUNK / CODEC_TILE)
_Static_assert(WEIR_CHUNK % CODEC_TILE == 0, "a chunk of a run is whole tiles, so that the run is coded as its chunks are");
_Static_assert(2ull * CODED_RUN_CHUNKS * WEIR_CHUNK <= UINT32_MAX,
               "a record takes less than 2 bytes for each element of its tile: where it ends in a run is 32 bits");

struct coded_place {
	size_t at, bytes; /* in `host` */
};

struct coded {
	struct backend *backend;
	uint8_t *device; /* (device_room): output of a launch */
	size_t device_room;
	/* (2, tiles of a run): ends of records, and counts of elements that reach the threshold */
	uint32_t *marks, *host_marks;
	uint64_t run_tiles;
	uint8_t *host; /* (room), of which `used` */
	size_t room, used;
	struct coded_place *places; /* (chunks) */
};

struct coded *coded_create(struct backend *b, uint64_t chunks, weir_error *err)
{
	struct coded *k = calloc(1, sizeof *k);
	if (k) {
		k->backend = b;
		k->run_tiles = (chunks < CODED_RUN_CHUNKS ? chunks : CODED_RUN_CHUNKS) * TILES_PER_CHUNK;
		k->places = calloc(chunks + 1, sizeof *k->places);
	}
	if (k && k->places)
		return k;
	coded_destroy(k);
	(void)weir_fail(err, WEIR_E_MEMORY, "out of memory for %llu coded chunks", (unsigned long long)chunks);
	return NULL;
}

void coded_destroy(struct coded *k)
{
	if (!k)
		return;
	const struct backend_ops *ops = k->backend->ops;
	if (k->device)
		ops->buffer_free(k->backend, k->device);
	if (k->marks)
		ops->buffer_free(k->backend, k->marks);
	if (k->host)
		ops->host_free(k->backend, k->host);
	if (k->host_marks)
		ops->host_free(k->backend, k->host_marks);
	free(k->places);
	free(k);
}

void coded_begin(struct coded *k)
{
	k->used = 0;
}

/* --- Room */

static weir_status no_memory(const struct coded *k, weir_error *err)
{
	const weir_status status = k->backend->ops->sync_stream(k->backend, err);
	return status ? status : weir_fail(err, WEIR_E_MEMORY, "out of memory for what a push is coded to");
}

static bool device_room(struct coded *k, size_t bytes)
{
	const struct backend_ops *ops = k->backend->ops;
	if (bytes <= k->device_room)
		return true;
	if (k->device)
		ops->buffer_free(k->backend, k->device);
	k->device = ops->buffer_alloc(k->backend, bytes);
	k->device_room = k->device ? bytes : 0;
	return k->device;
}

static bool marks_room(struct coded *k)
{
	const struct backend_ops *ops = k->backend->ops;
	const size_t bytes = 2 * k->run_tiles * sizeof *k->marks;
	if (!k->marks)
		k->marks = ops->buffer_alloc(k->backend, bytes);
	if (!k->host_marks)
		k->host_marks = ops->host_alloc(k->backend, bytes);
	return k->marks && k->host_marks;
}

/* Makes room for `bytes` after the used ones, plus half of the total, as pushes differ in size. */
static bool host_room(struct coded *k, size_t bytes)
{
	const struct backend_ops *ops = k->backend->ops;
	const size_t needed = k->used + bytes, room = needed + needed / 2;
	if (needed <= k->room)
		return true;
	uint8_t *host = ops->host_alloc(k->backend, room);
	if (!host)
		return false;
	if (k->used) {
		/* copies to it may be under way; a failure is reported again later */
		(void)ops->sync_stream(k->backend, NULL);
		memcpy(host, k->host, k->used);
	}
	if (k->host)
		ops->host_free(k->backend, k->host);
	k->host = host;
	k->room = room;
	return true;
}

/* --- Coding */

/* Copies the launch's output to the host; the sender waits for it. */
static weir_status bring(struct coded *k, size_t bytes, weir_error *err)
{
	if (!host_room(k, bytes))
		return no_memory(k, err);
	k->backend->ops->to_host_later(k->backend, k->host + k->used, k->device, bytes);
	k->used += bytes;
	return WEIR_OK;
}

weir_status coded_topk(struct coded *k, uint64_t first, const struct topk_row *row, float threshold, weir_values values,
                       uint64_t *selected, weir_error *err)
{
	const struct backend_ops *ops = k->backend->ops;
	const size_t tiles = codec_tiles(row->n);
	assert(tiles <= k->run_tiles);
	if (!device_room(k, tiles * topk_record_max(CODEC_TILE, values)) || !marks_room(k))
		return no_memory(k, err);
	ops->topk_encode(k->backend, row, threshold, values, k->device, k->marks, k->marks + tiles);
	ops->to_host(k->backend, k->host_marks, k->marks, 2 * tiles * sizeof *k->marks);
	/* after a failure the ends may be anything */
	const weir_status status = ops->sync_stream(k->backend, err);
	if (status)
		return status;
	const uint32_t *ends = k->host_marks;
	for (size_t t = 0; t < tiles; t++)
		*selected += k->host_marks[tiles + t];
	for (size_t t = 0; t < tiles; t += TILES_PER_CHUNK) {
		const size_t begin = t ? ends[t - 1] : 0, last = (t + TILES_PER_CHUNK < tiles ? t + TILES_PER_CHUNK : tiles) - 1;
		k->places[first++] = (struct coded_place){k->used + begin, ends[last] - begin};
	}
	return bring(k, ends[tiles - 1], err);
}

weir_status coded_fixed(struct coded *k, uint64_t first, const struct coding *coding, const float *in, float *residual, size_t n,
                        weir_error *err)
{
	const size_t bytes = codec_bytes(coding->codec, n), whole = codec_bytes(coding->codec, WEIR_CHUNK);
	if (!device_room(k, bytes))
		return no_memory(k, err);
	k->backend->ops->encode(k->backend, coding, in, residual, n, k->device);
	for (size_t at = 0; at < bytes; at += whole)
		k->places[first++] = (struct coded_place){k->used + at, bytes - at < whole ? bytes - at : whole};
	return bring(k, bytes, err);
}

const uint8_t *coded_chunk(const struct coded *k, uint64_t chunk, size_t *bytes)
{
	*bytes = k->places[chunk].bytes;
	return k->host + k->places[chunk].at;
}
