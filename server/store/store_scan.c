/* Scans. The first half visits the rows that are only in memory, in order of place. The second half
 * visits the rows in RocksDB, in order of key; if a row is also in memory, it visits that version.
 *
 * No row is missed. A row without ROW_BELOW can neither leave nor move, so the first half meets it.
 * A row that is in RocksDB when the first half reaches its place, or earlier, stays there until it
 * is removed, so the second half meets it. A row that is written below between its two turns is met
 * twice. If no row is only below, the first half visits all rows and there is no second half. */
#include <stdlib.h>

#include "server/store/store_internal.h"

#define SLICE_LOOKS 16384u /* at flags of rows, in memory */
#define SLICE_BELOW 1024u  /* rows of RocksDB: less than a millisecond */

static void visit_place(const struct store_table *t, uint64_t row, store_row_fn visit, void *arg)
{
	const struct row_tail *tail = row_tail(t, row);
	visit(arg, tail->key, &tail->meta.state, row_value(t, row));
}

static void scan_memory(const struct store_table *t, struct store_place *place, size_t max, store_row_fn visit, void *arg)
{
	const bool has_below = t->store->below && t->spec.kind == WEIR_EMBEDDING;
	const uint8_t mask = has_below ? ROW_USED | ROW_BELOW : ROW_USED;
	uint64_t row = place->at;
	/* A client's mistake: a number that no row has. */
	if (slab_place(&t->slab, row) >= t->slab.block_rows)
		row = slab_next(&t->slab, row);
	for (uint32_t looks = 0; row < t->slab.end && max && looks < SLICE_LOOKS; looks++, row = slab_next(&t->slab, row)) {
		if ((*slab_flags(&t->slab, row) & mask) != ROW_USED)
			continue;
		visit_place(t, row, visit, arg);
		max--;
	}
	*place = row < t->slab.end ? (struct store_place){.at = row} : (struct store_place){.below = has_below};
}

/* Visits a row of RocksDB, unless it is a stub or its removal is on the way. copy: room for the
 * row. */
static weir_status visit_below(const struct store_table *t, const struct cold_row *r, float *copy, store_row_fn visit, void *arg,
                               weir_error *err)
{
	const uint64_t row = store_find_row(t, r->key);
	if (is_row(row)) {
		if (is_full(row))
			visit_place(t, row, visit, arg);
		return WEIR_OK;
	}
	if (is_absent(row) || r->count == ROW_META_BYTES)
		return WEIR_OK;
	struct row_meta meta;
	weir_status status = store_decode(t, 0, r->key, r->bytes, r->count, &meta, copy, err);
	if (!status)
		visit(arg, r->key, &meta.state, copy);
	return status;
}

static weir_status scan_below(const struct store_table *t, struct store_place *place, size_t max, store_row_fn visit, void *arg,
                              weir_error *err)
{
	const struct store *s = t->store;
	float *copy = malloc(t->slab.stride);
	if (!copy)
		return weir_fail(err, WEIR_E_MEMORY, "scan of table %s: out of memory", t->spec.name);
	struct cold_scan *scan;
	struct cold_row row = {0};
	weir_status status = cold_scan_create(&scan, s->options.cold, NULL, s->options.partition, t->id, err);
	if (!status)
		cold_scan_seek(scan, place->at);
	for (size_t n = 0; n < max && n < SLICE_BELOW && !status; n++) {
		status = cold_scan_next(scan, &row, err);
		if (!status)
			status = visit_below(t, &row, copy, visit, arg, err);
		if (!status)
			place->at = row.key + 1;
		if (!status && row.key == UINT64_MAX)
			status = WEIR_E_NOT_FOUND;
	}
	cold_scan_destroy(scan);
	free(copy);
	if (status != WEIR_E_NOT_FOUND)
		return status;
	*place = (struct store_place){0};
	return WEIR_OK;
}

weir_status store_scan(const struct store_table *t, struct store_place *place, size_t max, store_row_fn visit, void *arg,
                       weir_error *err)
{
	if (place->below)
		return t->store->below
		           ? scan_below(t, place, max, visit, arg, err)
		           : weir_fail(err, WEIR_E_INVALID, "scan of table %s: none of its rows is below memory", t->spec.name);
	scan_memory(t, place, max, visit, arg);
	return WEIR_OK;
}
