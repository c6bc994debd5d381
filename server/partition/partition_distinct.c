/* Checks that the keys of each table are distinct in a record. A key that comes twice would take
 * two optimizer steps in one push, and chance would decide which of two assigned values stays.
 *
 * Rising keys are distinct. Coded keys rise by their format, and clients of this library send no
 * others. Keys in any other order, and several sections of one table, go into a set. */
#include <assert.h>
#include <stdlib.h>

#include "common/base/hash.h"
#include "server/partition/partition_internal.h"

#define KEYS_BLOCK 512u

/* A set of rows, with open addressing. */
struct row_set {
	struct row_name {
		uint64_t key;
		uint32_t table; /* table + 1; 0: free */
	} * names;          /* (mask + 1) */
	uint64_t mask, seed;
};

/* Opens a set for so many rows. */
static weir_status row_set_open(struct row_set *set, uint64_t rows, uint64_t seed, weir_error *err)
{
	uint64_t capacity = 16;
	while (capacity < 2 * rows)
		capacity *= 2;
	*set = (struct row_set){.names = calloc(capacity, sizeof *set->names), .mask = capacity - 1, .seed = seed};
	return set->names ? WEIR_OK : weir_fail(err, WEIR_E_MEMORY, "out of memory to compare %llu keys", (unsigned long long)rows);
}

/* False: it was in the set already. */
static bool row_set_add(struct row_set *set, uint32_t table, uint64_t key)
{
	uint64_t at = hash_u64(key ^ set->seed) + table;
	for (;; at++) {
		struct row_name *name = &set->names[at & set->mask];
		if (name->table == table + 1 && name->key == key)
			return false;
		if (!name->table) {
			*name = (struct row_name){.key = key, .table = table + 1};
			return true;
		}
	}
}

static weir_status say_twice(const struct partition *p, const struct record *r, const struct section *s, uint64_t key,
                             weir_error *err)
{
	const bool push = r->kind == RECORD_PUSH;
	return weir_fail(err, WEIR_E_INVALID, "%s: table %s: key %llu is there twice: %s", push ? "push" : "assign",
	                 partition_table(p, s->table)->spec->name, (unsigned long long)key,
	                 push ? "add its gradients up, and push them once" : "assign it once");
}

/* --- Rising keys */

static bool section_rises(const struct partition *p, const struct section *s)
{
	struct row_keys k = row_keys_of(p, partition_table(p, s->table), s);
	uint64_t keys[KEYS_BLOCK], last = 0;
	bool first = true, rises = true;
	if (s->index_codec != INDEX_RAW)
		return true;
	for (size_t n; rises && (n = row_keys_next(&k, keys, KEYS_BLOCK)) > 0; last = keys[n - 1], first = false) {
		rises = first || last < keys[0];
		for (size_t i = 1; i < n; i++)
			rises &= keys[i - 1] < keys[i];
	}
	return rises;
}

/* Whether rising keys prove that all keys of the record are distinct. *rows: the number of its
 * rows. */
static bool rises(const struct partition *p, const struct record *r, struct cursor body, uint64_t *rows)
{
	uint64_t seen[WEIR_TABLES_MAX / 64] = {0};
	bool all = true;
	*rows = 0;
	for (uint32_t i = 0; i < r->sections; i++) {
		struct section s;
		const weir_status status = frame_next_section(&body, &s, NULL);
		assert(status == WEIR_OK && s.table < WEIR_TABLES_MAX);
		(void)status;
		const uint64_t bit = 1ull << s.table % 64;
		all = all && !(seen[s.table / 64] & bit) && section_rises(p, &s);
		seen[s.table / 64] |= bit;
		*rows += s.rows;
	}
	return all;
}

/* --- Other keys */

static weir_status add_section(const struct partition *p, const struct record *r, const struct section *s, struct row_set *set,
                               weir_error *err)
{
	struct row_keys k = row_keys_of(p, partition_table(p, s->table), s);
	uint64_t keys[KEYS_BLOCK];
	for (size_t n; (n = row_keys_next(&k, keys, KEYS_BLOCK)) > 0;)
		for (size_t i = 0; i < n; i++)
			if (!row_set_add(set, s->table, keys[i]))
				return say_twice(p, r, s, keys[i], err);
	return WEIR_OK;
}

weir_status check_distinct(const struct partition *p, const struct record *r, struct cursor body, weir_error *err)
{
	struct row_set set;
	uint64_t rows;
	if (rises(p, r, body, &rows))
		return WEIR_OK;
	weir_status status = row_set_open(&set, rows, p->options.process_id, err);
	for (uint32_t i = 0; i < r->sections && !status; i++) {
		struct section s;
		status = frame_next_section(&body, &s, err);
		if (!status)
			status = add_section(p, r, &s, &set, err);
	}
	free(set.names);
	return status;
}
