/* Sends in full the gradients that codecs and row selection have kept back, as a push of its own,
 * in fp32 like any other. Parts that older attempts have pushed are left out; the gradients kept
 * back of their chunks and rows stay. */
#include <stdlib.h>

#include "worker/client/push_plan.h"
#include "worker/client/row_sparsifier.h"

static bool is_zero(const float *x, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++)
		if (x[i] != 0)
			return false;
	return true;
}

struct leftovers {
	weir_push_item items[WEIR_TABLES_MAX];
	void *memory[WEIR_TABLES_MAX]; /* for an item's keys and values, if it has its own */
	size_t count;
};

static weir_status add_dense(struct leftovers *l, const struct table *t, weir_error *err)
{
	const weir_encoder *e = &t->coder->encoder;
	const float *residual = NULL;
	const weir_status status = e->residual(e->arg, &residual, err);
	if (!status && residual && !is_zero(residual, t->spec.elements))
		l->items[l->count++] = (weir_push_item){.table = t->id, .values = residual};
	return status;
}

static weir_status add_rows(struct leftovers *l, const struct table *t, weir_error *err)
{
	const size_t count = row_sparsifier_count(t->kept);
	if (!count)
		return WEIR_OK;
	uint64_t *keys = malloc(count * (sizeof *keys + t->spec.width * sizeof(float)));
	float *values = (float *)(keys + count);
	if (!keys)
		return weir_fail(err, WEIR_E_MEMORY, "push of residuals: out of memory for %zu rows of table %s", count, t->spec.name);
	row_sparsifier_copy(t->kept, keys, values);
	l->memory[l->count] = keys;
	l->items[l->count++] = (weir_push_item){.table = t->id, .keys = keys, .rows = count, .values = values};
	return WEIR_OK;
}

/* Under c->coding. step: the batch takes part in one. Otherwise residuals of synchronous tables
 * stay, as their part of the push would be dropped. */
static weir_status find_items(weir_client *c, bool step, struct leftovers *l, weir_error *err)
{
	weir_status status = WEIR_OK;
	for (uint32_t id = 0; id < WEIR_TABLES_MAX && status == WEIR_OK; id++) {
		const struct table *t = c->tables[id];
		if (!t || (t->spec.mode.kind == WEIR_SYNC && !step))
			continue;
		if (t->coder)
			status = add_dense(l, t, err);
		else if (t->kept)
			status = add_rows(l, t, err);
	}
	return status;
}

/* The share of an item that the push will bring: rows, or chunks of a dense table. */
struct brought {
	uint64_t *keys;
	size_t count;
};

/* Under the lock. */
static weir_status find_brought(const struct held_unit *u, uint32_t batch, const struct push *p, uint32_t item,
                                uint32_t partitions, struct brought *out, weir_error *err)
{
	const struct partition_keys *s = &p->items[item].groups;
	out->keys = malloc(s->offsets[partitions] * sizeof *out->keys + 1);
	if (!out->keys)
		return weir_fail(err, WEIR_E_MEMORY, "push of residuals: out of memory");
	for (uint32_t i = 0; i < p->parts_count; i++) {
		const struct part *part = &p->parts[i];
		if (unit_has_part(u, batch, part->partition, part->part))
			continue;
		for (uint32_t j = part->first; j < part->first + part->count; j++)
			for (uint32_t at = p->sections[j].begin; p->sections[j].item == item && at < p->sections[j].end; at++)
				out->keys[out->count++] = s->keys[at];
	}
	return WEIR_OK;
}

/* Removes the brought rows or chunks from the residuals. */
static void take(struct table *t, const struct brought *b)
{
	if (t->coder)
		t->coder->encoder.take(t->coder->encoder.arg, b->keys, b->count);
	for (size_t i = 0; i < b->count && t->kept; i++)
		row_sparsifier_take(t->kept, b->keys[i]);
}

/* Under c->coding. */
static weir_status push_items(weir_client *c, const weir_batch *batch, const struct leftovers *l, weir_ticket *ticket,
                              weir_error *err)
{
	struct brought brought[WEIR_TABLES_MAX] = {{0}};
	weir_status status = WEIR_OK;
	struct push *p = push_open(c, l->items, l->count, &(struct push_reading){.copy = true, .assign = true}, err);
	if (!p)
		return err->status;
	pthread_mutex_lock(&c->lock);
	p->weight = c->steps.weight; /* that of the last batch pushed in a step */
	const struct held_unit *u = unit_find(c, batch->pass, batch->unit, batch->attempt);
	for (uint32_t i = 0; i < l->count && u && status == WEIR_OK; i++)
		status = find_brought(u, batch->batch, p, i, c->partitions, &brought[i], err);
	pthread_mutex_unlock(&c->lock);
	if (status == WEIR_OK)
		status = push_start(c, batch, p, NULL, NULL, ticket, err);
	else
		push_destroy(p);
	for (size_t i = 0; i < l->count; i++) {
		if (status == WEIR_OK)
			take(c->tables[l->items[i].table], &brought[i]);
		free(brought[i].keys);
	}
	return status;
}

weir_status weir_push_residuals(weir_client *c, const weir_batch *batch, weir_error *err)
{
	weir_error own = {0};
	struct leftovers l = {.count = 0};
	weir_ticket ticket = 0;
	if (!err)
		err = &own;
	err->status = WEIR_OK;
	pthread_mutex_lock(&c->lock);
	const struct held_batch *b = batch_find(c, batch, NULL, err);
	const bool step = b && steps_takes_part(c, batch);
	pthread_mutex_unlock(&c->lock);
	if (!b)
		return err->status;
	pthread_mutex_lock(&c->coding);
	weir_status status = find_items(c, step, &l, err);
	if (status == WEIR_OK && l.count)
		status = push_items(c, batch, &l, &ticket, err);
	for (size_t i = 0; i < l.count; i++)
		free(l.memory[i]);
	tables_note_compression(c);
	pthread_mutex_unlock(&c->coding);
	return ticket ? weir_wait(c, ticket, -1, err) : status;
}
