/* What lossy codecs have kept back of dense tables goes out in full, as a push of its own: fp32 like any other, so that how it is cut into parts is again a function of
 * the schema and the batch alone. Parts that older attempts have pushed are left out, and what is kept back of their chunks stays. */
#include <stdlib.h>

#include "compress.h"
#include "parts.h"

static bool is_zero(const float *x, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++)
		if (x[i] != 0)
			return false;
	return true;
}

/* Fills items (WEIR_TABLES_MAX); under c->coding. step: the batch has one. */
static size_t find_items(weir_client *c, bool step, weir_push_item *items)
{
	size_t count = 0;
	for (uint32_t id = 0; id < WEIR_TABLES_MAX; id++) {
		const struct table *t = c->tables[id];
		const float *residual = t && t->compressor ? compressor_residual(t->compressor) : NULL;
		if (residual && (t->spec.mode.kind != WEIR_SYNC || step) && !is_zero(residual, t->spec.elements))
			items[count++] = (weir_push_item){.table = id, .values = residual};
	}
	return count;
}

/* Which chunks of an item the push will bring; under the lock. chunks (of its table). */
static void find_chunks(const struct held_unit *u, uint32_t batch, const struct push *p, uint32_t item, bool *chunks)
{
	for (uint32_t i = 0; i < p->parts_count; i++) {
		const struct part *part = &p->parts[i];
		if (unit_has_part(u, batch, part->partition, part->part))
			continue;
		for (uint32_t j = part->first; j < part->first + part->count; j++)
			for (uint32_t at = p->pieces[j].begin; p->pieces[j].item == item && at < p->pieces[j].end; at++)
				chunks[p->items[item].split.keys[at]] = true;
	}
}

/* Under c->coding. */
static weir_status push_items(weir_client *c, const weir_batch *batch, const weir_push_item *items, size_t count,
                              weir_ticket *ticket, weir_error *err)
{
	bool *chunks[WEIR_TABLES_MAX] = {NULL};
	weir_status status = WEIR_OK;
	struct push *p = push_open(c, items, count, true, true, err);
	if (!p)
		return err->status;
	pthread_mutex_lock(&c->lock);
	const struct held_unit *u = unit_find(c, batch->pass, batch->unit, batch->attempt);
	for (uint32_t i = 0; i < count && u && status == WEIR_OK; i++) {
		chunks[i] = calloc(weir_chunks(p->items[i].table->spec.elements), sizeof *chunks[i]);
		if (chunks[i])
			find_chunks(u, batch->batch, p, i, chunks[i]);
		else
			status = weir_fail(err, WEIR_E_MEMORY, "push of residuals: out of memory");
	}
	pthread_mutex_unlock(&c->lock);
	if (status == WEIR_OK)
		status = push_start(c, batch, p, NULL, NULL, ticket, err);
	else
		push_free(p);
	for (size_t i = 0; i < count; i++) {
		struct table *t = c->tables[items[i].table];
		if (status == WEIR_OK && chunks[i])
			compressor_take(t->compressor, chunks[i]);
		free(chunks[i]);
	}
	return status;
}

weir_status weir_push_residuals(weir_client *c, const weir_batch *batch, weir_error *err)
{
	weir_error own = {0};
	weir_push_item items[WEIR_TABLES_MAX];
	weir_ticket ticket = 0;
	if (!err)
		err = &own;
	err->status = WEIR_OK;
	pthread_mutex_lock(&c->lock);
	const struct held_batch *b = batch_find(c, batch, NULL, err);
	const bool step = b && b->step;
	pthread_mutex_unlock(&c->lock);
	if (!b)
		return err->status;
	pthread_mutex_lock(&c->coding);
	const size_t count = find_items(c, step, items);
	weir_status status = count ? push_items(c, batch, items, count, &ticket, err) : WEIR_OK;
	tables_note_compression(c);
	pthread_mutex_unlock(&c->coding);
	return ticket ? weir_wait(c, ticket, -1, err) : status;
}
