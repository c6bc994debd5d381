#include "server/partition/delta_base.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/little_endian.h"
#include "proto/frame/frame.h"

/* A difference that leads to a version, with its length in front, as it is sent. */
struct difference {
	uint8_t *bytes;
	uint32_t size;
};

struct chunk {
	float *value;     /* (n) */
	uint64_t version; /* at least 1 */
	/* The store's row when a version was last made or tried. */
	uint64_t seen_entry;
	uint32_t seen_pushes;
	uint32_t asked; /* pulls since then by holders of the newest version */
	bool settled;   /* at that time nothing was left to send */
	struct difference ring[REFERENCE_DIFFERENCES_MAX];
	uint32_t first, kept; /* of the ring: the oldest, and how many; the newest leads to `version` */
	size_t ring_bytes;
	struct difference_fit fit;
};

struct delta_base {
	weir_pull_coding coding;
	uint64_t origin, chunks_count;
	struct chunk *chunks[]; /* NULL: not asked for yet */
};

struct delta_base *delta_base_create(const weir_pull_coding *coding, uint64_t chunks, uint64_t origin)
{
	struct delta_base *r = calloc(1, sizeof *r + chunks * sizeof(struct chunk *));
	if (!r)
		return NULL;
	r->coding = *coding;
	r->coding.every = coding->every ? coding->every : 1;
	r->chunks_count = chunks;
	r->origin = origin;
	return r;
}

static const struct difference *ring_at(const struct chunk *k, uint32_t i)
{
	return &k->ring[(k->first + i) % REFERENCE_DIFFERENCES_MAX];
}

static void ring_drop_oldest(struct chunk *k)
{
	struct difference *d = &k->ring[k->first];
	k->ring_bytes -= d->size;
	free(d->bytes);
	*d = (struct difference){0};
	k->first = (k->first + 1) % REFERENCE_DIFFERENCES_MAX;
	k->kept--;
}

static void ring_clear(struct chunk *k)
{
	while (k->kept)
		ring_drop_oldest(k);
}

void delta_base_destroy(struct delta_base *r)
{
	if (!r)
		return;
	for (uint64_t i = 0; i < r->chunks_count; i++) {
		struct chunk *k = r->chunks[i];
		if (!k)
			continue;
		ring_clear(k);
		free(k->value);
		free(k);
	}
	free(r);
}

uint64_t delta_base_origin(const struct delta_base *r)
{
	return r->origin;
}

/* --- Versions */

static void see(struct chunk *k, const struct row_meta *meta)
{
	k->seen_entry = meta ? meta->version : 0;
	k->seen_pushes = meta ? meta->count : 0;
	k->asked = 0;
}

static struct chunk *first_version(struct delta_base *r, const struct delta_base_chunk *c)
{
	struct chunk *k = calloc(1, sizeof *k);
	if (!k || !(k->value = malloc(c->n * sizeof *k->value))) {
		free(k);
		return NULL;
	}
	memcpy(k->value, c->value, c->n * sizeof *k->value);
	k->version = 1;
	k->settled = true;
	see(k, c->meta);
	return r->chunks[c->number] = k;
}

static bool is_due(const struct delta_base *r, struct chunk *k, const struct row_meta *meta, bool has_newest)
{
	const bool changed = (meta ? meta->version : 0) != k->seen_entry;
	const uint32_t pushes = (meta ? meta->count : 0) - k->seen_pushes;
	/* Assigned, or its count is saturated, or pushed to. */
	if (changed && (pushes == 0 || pushes >= r->coding.every))
		return true;
	if (!has_newest || (!changed && k->settled))
		return false;
	return ++k->asked >= r->coding.every;
}

/* Adds the difference that leads to the newest version. Without memory, no difference leads to
 * it. */
static void ring_add(struct chunk *k, const uint8_t *coded, size_t bytes, size_t most)
{
	struct difference d = {.size = (uint32_t)bytes + DIFFERENCE_LENGTH_BYTES};
	if (k->kept == REFERENCE_DIFFERENCES_MAX)
		ring_drop_oldest(k);
	while (k->kept && k->ring_bytes + d.size > most)
		ring_drop_oldest(k);
	if (d.size > most || !(d.bytes = malloc(d.size))) {
		ring_clear(k);
		return;
	}
	put32(d.bytes, (uint32_t)bytes);
	memcpy(d.bytes + DIFFERENCE_LENGTH_BYTES, coded, bytes);
	k->ring[(k->first + k->kept++) % REFERENCE_DIFFERENCES_MAX] = d;
	k->ring_bytes += d.size;
}

static void next_version(struct delta_base *r, struct chunk *k, const struct delta_base_chunk *c,
                         const struct delta_base_work *work)
{
	size_t bytes = 0;
	const size_t whole = c->n * sizeof *k->value;
	const enum difference_outcome made =
	    difference_make(&r->coding, &k->fit, c->value, k->value, c->n, work->difference, work->coded, &bytes);
	see(k, c->meta);
	k->settled = made == DIFFERENCE_NONE;
	if (made == DIFFERENCE_MADE) {
		k->version++;
		ring_add(k, work->coded, bytes, whole);
	} else if (made == DIFFERENCE_NOT_FINITE) {
		k->settled = true;
		if (memcmp(k->value, c->value, whole) == 0)
			return;
		memcpy(k->value, c->value, whole);
		k->version++;
		ring_clear(k);
	}
}

/* --- Answers */

/* Sets *differences to how many lead from `held` to the newest version. False: none do. */
static bool bridge(const struct chunk *k, uint64_t held, uint32_t *differences)
{
	*differences = held && held <= k->version && k->version - held <= k->kept ? (uint32_t)(k->version - held) : 0;
	return held == k->version || *differences > 0;
}

size_t delta_base_answer_bytes(const struct delta_base *r, uint64_t chunk, uint64_t held, size_t n)
{
	const struct chunk *k = r->chunks[chunk];
	uint32_t differences;
	size_t bytes = DIFFERENCES_HEADER_BYTES;
	if (!bridge(k, held, &differences))
		return bytes + n * sizeof *k->value;
	for (uint32_t i = k->kept - differences; i < k->kept; i++)
		bytes += ring_at(k, i)->size;
	return bytes;
}

weir_status delta_base_ask(struct delta_base *r, const struct delta_base_chunk *c, uint64_t held,
                           const struct delta_base_work *work)
{
	assert(c->number < r->chunks_count);
	struct chunk *k = r->chunks[c->number];
	if (!k && !(k = first_version(r, c)))
		return WEIR_E_MEMORY;
	if (is_due(r, k, c->meta, held == k->version))
		next_version(r, k, c, work);
	return WEIR_OK;
}

size_t delta_base_answer(const struct delta_base *r, uint64_t chunk, uint64_t held, size_t n, uint8_t *out)
{
	const struct chunk *k = r->chunks[chunk];
	uint32_t differences;
	const bool whole = !bridge(k, held, &differences);
	const size_t bytes = delta_base_answer_bytes(r, chunk, held, n);
	put64(out, k->version);
	put32(out + 8, (uint32_t)(bytes - DIFFERENCES_HEADER_BYTES));
	put32(out + 12, differences);
	out += DIFFERENCES_HEADER_BYTES;
	if (whole)
		memcpy(out, k->value, n * sizeof *k->value);
	for (uint32_t i = k->kept - differences; i < k->kept && !whole; i++) {
		const struct difference *d = ring_at(k, i);
		memcpy(out, d->bytes, d->size);
		out += d->size;
	}
	return bytes;
}

uint64_t delta_base_version(const struct delta_base *r, uint64_t chunk)
{
	return r->chunks[chunk] ? r->chunks[chunk]->version : 0;
}

const float *delta_base_value(const struct delta_base *r, uint64_t chunk)
{
	return r->chunks[chunk] ? r->chunks[chunk]->value : NULL;
}

size_t delta_base_ring_bytes(const struct delta_base *r, uint64_t chunk)
{
	return r->chunks[chunk] ? r->chunks[chunk]->ring_bytes : 0;
}
