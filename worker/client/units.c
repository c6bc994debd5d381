/* Work units as their holder records them: the pushed batches, the batches stable everywhere, the
 * totals of each partition. The watermark is the first batch that is not stable. Totals below it
 * travel with progress, so that a later holder of the unit can account for all of it. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker/client/client.h"

static void batch_destroy(struct held_batch *b)
{
	if (!b)
		return;
	free(b->applied);
	free(b->parts);
	free(b);
}

void unit_destroy(weir_client *c, struct held_unit *u)
{
	for (uint32_t b = 0; u->batch && b < u->batches; b++)
		batch_destroy(u->batch[b]);
	for (uint32_t p = 0; u->present && p < c->partitions; p++)
		free(u->present[p]);
	free(u->batch);
	free(u->present);
	free(u->present_bits);
	free(u->sealed);
	free(u->count);
	free(u->fingerprint);
	free(u);
}

void units_destroy(weir_client *c)
{
	for (struct held_unit *u; (u = c->units);) {
		c->units = u->next;
		unit_destroy(c, u);
	}
}

void unit_forget(weir_client *c, struct held_unit *u)
{
	struct held_unit **at = &c->units;
	while (*at != u)
		at = &(*at)->next;
	*at = u->next;
	unit_destroy(c, u);
}

struct held_unit *unit_find(weir_client *c, uint32_t pass, uint32_t unit, uint32_t attempt)
{
	struct held_unit *u = c->units;
	while (u && !(u->pass == pass && u->unit == unit && u->attempt == attempt))
		u = u->next;
	return u;
}

struct held_batch *batch_find(weir_client *c, const weir_batch *b, struct held_unit **unit, weir_error *err)
{
	struct held_unit *u = unit_find(c, b->pass, b->unit, b->attempt);
	if (!u) {
		(void)weir_fail(err, WEIR_E_STATE, "unit %u of pass %u, attempt %u, is not held by this worker", b->unit, b->pass,
		                b->attempt);
		return NULL;
	}
	if (b->batch >= u->batches || b->batch < u->watermark) {
		(void)weir_fail(err, WEIR_E_STATE,
		                "batch %u of unit %u of pass %u: open are %u to %u (weir_unit_begin says how many there are)", b->batch,
		                b->unit, b->pass, u->watermark, u->batches);
		return NULL;
	}
	if (!u->batch[b->batch] && !(u->batch[b->batch] = calloc(1, sizeof(struct held_batch)))) {
		(void)weir_fail(err, WEIR_E_MEMORY, "batch %u: out of memory", b->batch);
		return NULL;
	}
	if (unit)
		*unit = u;
	return u->batch[b->batch];
}

bool unit_has_part(const struct held_unit *u, uint32_t batch, uint32_t partition, uint32_t part)
{
	uint32_t bit = frame_part_bit(batch, part);
	return u->present && bit < u->present_bits[partition] && (u->present[partition][bit / 8] >> (bit % 8) & 1);
}

/* Adds to totals (partitions) the parts that the partitions have of a batch: those of older
 * attempts, whatever has become of the batch in this one, and those that this attempt has added. */
static void count_parts(const weir_client *c, const struct held_unit *u, uint32_t batch, uint64_t *count, uint64_t *fingerprint)
{
	const struct held_batch *b = batch < u->batches ? u->batch[batch] : NULL;
	for (uint32_t i = 0; b && i < b->parts_count; i++) {
		const struct part_sent *s = &b->parts[i];
		if (s->withdrawn || unit_has_part(u, batch, s->partition, s->part))
			continue;
		count[s->partition]++;
		fingerprint[s->partition] += frame_identity_hash(u->pass, u->unit, batch, s->part);
	}
	for (uint32_t p = 0; u->present && p < c->partitions; p++)
		for (uint32_t part = 0; part < WEIR_BATCH_PARTS_MAX; part++)
			if (unit_has_part(u, batch, p, part)) {
				count[p]++;
				fingerprint[p] += frame_identity_hash(u->pass, u->unit, batch, part);
			}
}

/* Every part is acknowledged and stable. */
static bool batch_is_stable(const weir_client *c, const struct held_batch *b)
{
	if (!b || !b->complete)
		return false;
	for (uint32_t i = 0; i < b->parts_count; i++)
		if (b->parts[i].applied > c->stable_seen[b->parts[i].partition])
			return false;
	return true;
}

/* The watermark also waits for the close of a batch's step: parts that wait in a step count only if
 * some worker makes the batch take part in one. */
static bool batch_is_done(const weir_client *c, const struct held_batch *b)
{
	return batch_is_stable(c, b) && b->step <= c->steps.closed;
}

/* The end of the round that begins at the watermark: a worker that executes a round again needs all
 * of its batches. */
static uint32_t round_end(const struct held_unit *u)
{
	const uint32_t end = u->round ? u->watermark + u->round : u->watermark + 1;
	return end < u->batches ? end : u->batches;
}

void unit_advance(weir_client *c, struct held_unit *u)
{
	for (uint32_t end; (end = round_end(u)) > u->watermark; u->watermark = end) {
		for (uint32_t b = u->watermark; b < end; b++)
			if (!batch_is_done(c, u->batch[b]))
				goto out;
		for (uint32_t b = u->watermark; b < end; b++) {
			count_parts(c, u, b, u->count, u->fingerprint);
			batch_destroy(u->batch[b]);
			u->batch[b] = NULL;
		}
	}
out:
	pthread_cond_broadcast(&c->changed);
}

/* Fragments of a table begin and end their rounds at different batches: only the unit's end is the
 * end of all. */
uint32_t unit_round(const weir_client *c, uint32_t local_steps)
{
	for (uint32_t id = 0; id < WEIR_TABLES_MAX && local_steps; id++)
		if (c->tables[id] && c->tables[id]->spec.mode.fragments > 1)
			return WEIR_UNIT_BATCHES_MAX;
	return local_steps;
}

struct held_unit *unit_create(weir_client *c, const Weir__V1__WorkUnit *in)
{
	struct held_unit *u = calloc(1, sizeof *u);
	if (!u)
		return NULL;
	u->pass = in->pass;
	u->unit = in->unit;
	u->attempt = in->attempt;
	u->data_unit = in->data_unit;
	u->place = in->place;
	u->watermark = in->watermark;
	u->rate_scale = in->rate_scale;
	u->count = calloc(c->partitions, sizeof *u->count);
	u->fingerprint = calloc(c->partitions, sizeof *u->fingerprint);
	if (!u->count || !u->fingerprint) {
		unit_destroy(c, u);
		return NULL;
	}
	const Weir__V1__PartTotals *t = in->totals;
	for (uint32_t p = 0; t && t->n_count == c->partitions && t->n_fingerprint == c->partitions && p < c->partitions; p++) {
		u->count[p] = t->count[p];
		u->fingerprint[p] = t->fingerprint[p];
	}
	return u;
}

uint64_t unit_batch_place(const weir_client *c, const struct held_unit *u, uint32_t batch)
{
	const uint64_t each = c->options.dataset_unit_batches ? c->options.dataset_unit_batches : u->batches;
	return ((uint64_t)u->pass * c->options.dataset_units + u->place) * each + batch + 1;
}

bool unit_is_settled(const weir_client *c, const struct held_unit *u)
{
	if (u->outstanding)
		return false;
	for (uint32_t b = u->watermark; b < u->batches; b++)
		if (u->batch[b] && u->batch[b]->pushed && !batch_is_stable(c, u->batch[b]))
			return false;
	return true;
}

void unit_totals(const weir_client *c, const struct held_unit *u, uint64_t *count, uint64_t *fingerprint)
{
	uint32_t batches = u->batches;
	for (uint32_t p = 0; u->present && p < c->partitions; p++)
		if (u->present_bits[p] / WEIR_BATCH_PARTS_MAX > batches)
			batches = u->present_bits[p] / WEIR_BATCH_PARTS_MAX;
	memcpy(count, u->count, c->partitions * sizeof *count);
	memcpy(fingerprint, u->fingerprint, c->partitions * sizeof *fingerprint);
	for (uint32_t b = u->watermark; b < batches; b++)
		count_parts(c, u, b, count, fingerprint);
}
