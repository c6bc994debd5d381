#include "server/partition/dedup.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* First position in the sorted list with a key of at least `key`. */
static uint32_t open_position(const struct dedup *d, uint64_t key)
{
	uint32_t low = 0, high = d->open_count;
	while (low < high) {
		uint32_t mid = low + (high - low) / 2;
		if (d->open[mid]->key < key)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static uint32_t closed_position(const struct dedup *d, uint64_t key)
{
	uint32_t low = 0, high = d->closed_count;
	while (low < high) {
		uint32_t mid = low + (high - low) / 2;
		if (d->closed[mid] < key)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static void unit_destroy(struct unit *u)
{
	free(u->parts);
	free(u->steps);
	free(u);
}

void dedup_destroy(struct dedup *d)
{
	for (uint32_t i = 0; i < d->open_count; i++)
		unit_destroy(d->open[i]);
	free(d->open);
	free(d->closed);
}

bool dedup_is_closed(const struct dedup *d, uint64_t key)
{
	if (key < d->low)
		return true;
	uint32_t at = closed_position(d, key);
	return at < d->closed_count && d->closed[at] == key;
}

struct unit *dedup_find(const struct dedup *d, uint64_t key)
{
	uint32_t at = open_position(d, key);
	return at < d->open_count && d->open[at]->key == key ? d->open[at] : NULL;
}

static weir_status check_unit(const struct dedup *d, const struct record *r, const struct unit **out)
{
	uint64_t key = dedup_key(r->pass, r->unit);
	*out = NULL;
	if (dedup_is_closed(d, key))
		return WEIR_E_DUPLICATE;
	*out = dedup_find(d, key);
	if (!*out)
		return d->open_count < WEIR_UNITS_OPEN_MAX ? WEIR_OK : WEIR_E_LIMIT;
	return r->attempt < (*out)->attempt ? WEIR_E_STALE : WEIR_OK;
}

weir_status dedup_check(const struct dedup *d, const struct record *push)
{
	const struct unit *u;
	weir_status status = check_unit(d, push, &u);
	if (status || !u || push->batch >= u->batches || !(u->parts[push->batch] >> push->part & 1))
		return status;
	return u->steps[push->batch] == BATCH_STEP_DROPPED ? WEIR_E_DROPPED : WEIR_E_DUPLICATE;
}

weir_status dedup_check_seal(const struct dedup *d, const struct record *seal)
{
	const struct unit *u;
	return check_unit(d, seal, &u);
}

static struct unit *insert_unit(struct dedup *d, uint64_t key)
{
	if (d->open_count == d->open_capacity) {
		uint32_t capacity = d->open_capacity ? d->open_capacity * 2 : 16;
		struct unit **open = realloc(d->open, capacity * sizeof(struct unit *));
		if (!open)
			return NULL;
		d->open = open;
		d->open_capacity = capacity;
	}
	struct unit *u = calloc(1, sizeof *u);
	if (!u)
		return NULL;
	u->key = key;
	uint32_t at = open_position(d, key);
	memmove(d->open + at + 1, d->open + at, (d->open_count - at) * sizeof(struct unit *));
	d->open[at] = u;
	d->open_count++;
	return u;
}

static bool grow_unit(struct unit *u, uint32_t batches)
{
	if (batches <= u->batches)
		return true;
	uint32_t room = u->batches ? u->batches : 16;
	while (room < batches)
		room *= 2;
	uint64_t *parts = realloc(u->parts, room * sizeof *parts);
	if (!parts)
		return false;
	u->parts = parts;
	uint8_t *steps = realloc(u->steps, room * sizeof *steps);
	if (!steps)
		return false;
	u->steps = steps;
	memset(parts + u->batches, 0, (room - u->batches) * sizeof *parts);
	memset(steps + u->batches, BATCH_STEP_OPEN, (room - u->batches) * sizeof *steps);
	u->batches = room;
	return true;
}

struct unit *dedup_open(struct dedup *d, uint64_t key, uint32_t attempt, uint32_t batches)
{
	struct unit *u = dedup_find(d, key);
	if (!u)
		u = insert_unit(d, key);
	if (!u || !grow_unit(u, batches))
		return NULL;
	if (attempt > u->attempt)
		u->attempt = attempt;
	return u;
}

bool dedup_mark(struct unit *u, uint32_t batch, uint32_t part)
{
	assert(batch < u->batches && part < WEIR_BATCH_PARTS_MAX);
	uint64_t bit = 1ull << part;
	bool fresh = !(u->parts[batch] & bit);
	u->parts[batch] |= bit;
	return fresh;
}

enum batch_step dedup_batch_step(const struct unit *u, uint32_t batch)
{
	return batch < u->batches ? (enum batch_step)u->steps[batch] : BATCH_STEP_OPEN;
}

weir_status dedup_retires(const struct dedup *d, uint64_t low, bool has_one, uint64_t one, bool *changes)
{
	bool closes_one = has_one && one >= low && !dedup_is_closed(d, one);
	uint32_t above = d->closed_count - closed_position(d, low);
	*changes = low > d->low || closes_one;
	return closes_one && above >= WEIR_UNITS_OPEN_MAX ? WEIR_E_LIMIT : WEIR_OK;
}

static void close_open(struct dedup *d, uint32_t from, uint32_t to)
{
	if (from == to)
		return;
	for (uint32_t i = from; i < to; i++)
		unit_destroy(d->open[i]);
	memmove(d->open + from, d->open + to, (d->open_count - to) * sizeof(struct unit *));
	d->open_count -= to - from;
}

static weir_status close_one(struct dedup *d, uint64_t key)
{
	if (dedup_is_closed(d, key))
		return WEIR_OK;
	if (d->closed_count == d->closed_capacity) {
		uint32_t capacity = d->closed_capacity ? d->closed_capacity * 2 : 16;
		uint64_t *closed = realloc(d->closed, capacity * sizeof *closed);
		if (!closed)
			return WEIR_E_MEMORY;
		d->closed = closed;
		d->closed_capacity = capacity;
	}
	uint32_t at = closed_position(d, key);
	memmove(d->closed + at + 1, d->closed + at, (d->closed_count - at) * sizeof *d->closed);
	d->closed[at] = key;
	d->closed_count++;
	at = open_position(d, key);
	if (at < d->open_count && d->open[at]->key == key)
		close_open(d, at, at + 1);
	return WEIR_OK;
}

weir_status dedup_retire(struct dedup *d, uint64_t low, bool has_one, uint64_t one)
{
	if (low > d->low) {
		d->low = low;
		close_open(d, 0, open_position(d, low));
		uint32_t below = closed_position(d, low);
		if (below)
			memmove(d->closed, d->closed + below, (d->closed_count - below) * sizeof *d->closed);
		d->closed_count -= below;
	}
	return has_one ? close_one(d, one) : WEIR_OK;
}
