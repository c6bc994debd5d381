/* A store belongs to a machine: node and path name it, and it outlives processes. It holds the
 * pairs as readers see them (live), the pairs on disk (kept), and the writes between the two. A
 * write is atomic. A crash keeps a prefix of the writes. A copy has the pairs on disk. */
#include "tests/sim/disk/cold_sim.h"

#include <stdlib.h>
#include <string.h>

#include "server/store/cold.h"
#include "tests/sim/world/world.h"

enum kind { KIND_ROW, KIND_HEADER };

struct key {
	uint32_t partition, kind, table;
	uint64_t key;
};

struct pair {
	struct key key;
	uint8_t *bytes; /* NULL in a list of changes: removed */
	size_t count;
	uint64_t write; /* in a list of changes: number of the write */
};

struct pairs {
	struct pair *of; /* sorted by key; changes are in order of writes */
	uint32_t count, capacity;
};

struct store {
	struct store *next;
	struct node *node;
	char path[256];
	struct pairs live, kept, changes;
	struct pairs old, newest; /* a copy; the pairs before the copy replaced them */
	uint64_t writes;
};

struct cold { /* belongs to a process */
	struct store *store;
};

static struct {
	struct store *stores;
	int64_t flush_ns;
} all;

/* --- Lists of pairs, in the world's memory */

static int compare(const struct key *a, const struct key *b)
{
	if (a->partition != b->partition)
		return a->partition < b->partition ? -1 : 1;
	if (a->kind != b->kind)
		return a->kind < b->kind ? -1 : 1;
	if (a->table != b->table)
		return a->table < b->table ? -1 : 1;
	return a->key == b->key ? 0 : a->key < b->key ? -1 : 1;
}

/* Returns the first index whose key is not below k. */
static uint32_t lower(const struct pairs *p, const struct key *k)
{
	uint32_t low = 0, high = p->count;
	while (low < high) {
		const uint32_t middle = (low + high) / 2;
		if (compare(&p->of[middle].key, k) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static struct pair *find(const struct pairs *p, const struct key *k)
{
	const uint32_t at = lower(p, k);
	return at < p->count && compare(&p->of[at].key, k) == 0 ? &p->of[at] : NULL;
}

static void insert(struct pairs *p, uint32_t at, const struct pair *pair)
{
	if (p->count == p->capacity) {
		p->capacity = p->capacity ? 2 * p->capacity : 64;
		struct pair *bigger = world_alloc(p->capacity * sizeof *bigger);
		if (p->count)
			memcpy(bigger, p->of, p->count * sizeof *bigger);
		world_free(p->of);
		p->of = bigger;
	}
	memmove(p->of + at + 1, p->of + at, (p->count - at) * sizeof *p->of);
	p->of[at] = *pair;
	p->count++;
}

static uint8_t *copy_bytes(const void *data, size_t count)
{
	uint8_t *copy = world_alloc(count + 1);
	if (count)
		memcpy(copy, data, count);
	return copy;
}

/* NULL data removes the pair. */
static void set(struct pairs *p, const struct key *k, const void *data, size_t count)
{
	const uint32_t at = lower(p, k);
	if (at < p->count && compare(&p->of[at].key, k) == 0) {
		world_free(p->of[at].bytes);
		memmove(p->of + at, p->of + at + 1, (--p->count - at) * sizeof *p->of);
	}
	if (data)
		insert(p, at, &(struct pair){.key = *k, .bytes = copy_bytes(data, count), .count = count});
}

/* Keeps the array for reuse. */
static void clear(struct pairs *p)
{
	for (uint32_t i = 0; i < p->count; i++)
		world_free(p->of[i].bytes);
	p->count = 0;
}

static void copy_pairs(struct pairs *to, const struct pairs *from)
{
	clear(to);
	for (uint32_t i = 0; i < from->count; i++)
		set(to, &from->of[i].key, from->of[i].bytes, from->of[i].count);
}

/* --- Stores */

static void write_pair(struct store *s, const struct key *k, const void *data, size_t count)
{
	set(&s->live, k, data, count);
	insert(&s->changes, s->changes.count,
	       &(struct pair){.key = *k, .bytes = data ? copy_bytes(data, count) : NULL, .count = count, .write = s->writes});
}

/* Moves changes of writes below `until` to disk and discards the others. */
static void settle(struct store *s, uint64_t until)
{
	for (uint32_t i = 0; i < s->changes.count && s->changes.of[i].write < until; i++)
		set(&s->kept, &s->changes.of[i].key, s->changes.of[i].bytes, s->changes.of[i].count);
	clear(&s->changes);
}

static void on_death(void *arg, struct node *n, enum node_death how)
{
	(void)arg, (void)how; /* without a log, memory goes with the process */
	for (struct store *s = all.stores; s; s = s->next) {
		if (s->node != n)
			continue;
		const uint64_t oldest = s->changes.count ? s->changes.of[0].write : s->writes;
		settle(s, (uint64_t)world_between((int64_t)oldest, (int64_t)s->writes));
		copy_pairs(&s->live, &s->kept);
	}
}

void cold_sim_begin(int64_t flush_ns)
{
	all.stores = NULL;
	all.flush_ns = flush_ns;
	node_watch_deaths(on_death, NULL);
}

void cold_sim_lose(const struct node *n)
{
	for (struct store *s = all.stores; s; s = s->next)
		if (s->node == n) {
			clear(&s->live);
			clear(&s->kept);
			clear(&s->changes);
		}
}

void cold_sim_remember(const struct node *n)
{
	for (struct store *s = all.stores; s; s = s->next)
		if (s->node == n)
			copy_pairs(&s->old, &s->kept);
}

static void put_in_place(struct store *s, const struct pairs *of)
{
	copy_pairs(&s->kept, of);
	copy_pairs(&s->live, of);
	clear(&s->changes);
}

void cold_sim_go_back(const struct node *n)
{
	for (struct store *s = all.stores; s; s = s->next)
		if (s->node == n) {
			copy_pairs(&s->newest, &s->kept);
			put_in_place(s, &s->old);
		}
}

void cold_sim_come_back(const struct node *n)
{
	for (struct store *s = all.stores; s; s = s->next)
		if (s->node == n)
			put_in_place(s, &s->newest);
}

static struct store *store_of(const char *path)
{
	struct node *n = node_current();
	for (struct store *s = all.stores; s; s = s->next)
		if (s->node == n && strcmp(s->path, path) == 0)
			return s;
	struct store *s = world_alloc(sizeof *s);
	if (strlen(path) >= sizeof s->path)
		world_stop("path of a store is too long: %s", path);
	strcpy(s->path, path);
	s->node = n;
	s->next = all.stores;
	return all.stores = s;
}

/* --- cold.h */

weir_status cold_open(struct cold **out, const struct cold_options *options, weir_error *err)
{
	*out = malloc(sizeof **out);
	if (!*out)
		return weir_fail(err, WEIR_E_MEMORY, "%s: out of memory", options->path);
	(*out)->store = store_of(options->path);
	return WEIR_OK;
}

void cold_close(struct cold *c)
{
	free(c);
}

weir_status cold_write(struct cold *c, struct row_batch *b, weir_error *err)
{
	(void)err;
	row_batch_sort(b);
	for (size_t i = 0; i < b->count; i++) {
		const struct row_item *item = &b->items[i];
		const struct key k = {b->partition, KIND_ROW, item->table, item->key};
		write_pair(c->store, &k, item->removed ? NULL : b->data + item->offset, item->bytes);
	}
	c->store->writes++;
	return WEIR_OK;
}

weir_status cold_put_header(struct cold *c, uint32_t partition, const void *data, size_t bytes, weir_error *err)
{
	(void)err;
	write_pair(c->store, &(struct key){partition, KIND_HEADER, 0, 0}, data, bytes);
	c->store->writes++;
	return WEIR_OK;
}

weir_status cold_get_header(struct cold *c, uint32_t partition, uint8_t **out, size_t *bytes, weir_error *err)
{
	const struct pair *p = find(&c->store->live, &(struct key){partition, KIND_HEADER, 0, 0});
	if (!p)
		return WEIR_E_NOT_FOUND;
	*bytes = p->count;
	*out = malloc(p->count + 1);
	if (!*out)
		return weir_fail(err, WEIR_E_MEMORY, "reading a header of %zu bytes: out of memory", p->count);
	memcpy(*out, p->bytes, p->count);
	return WEIR_OK;
}

/* Writes made before the flush begins are on disk when it returns. After a crash in between, chance
 * decides. */
weir_status cold_flush(struct cold *c, weir_error *err)
{
	(void)err;
	struct store *s = c->store;
	const uint64_t until = s->writes;
	thread_sleep(world_between(1000, all.flush_ns));
	uint32_t settled = 0;
	while (settled < s->changes.count && s->changes.of[settled].write < until)
		settled++;
	for (uint32_t i = 0; i < settled; i++) {
		set(&s->kept, &s->changes.of[i].key, s->changes.of[i].bytes, s->changes.of[i].count);
		world_free(s->changes.of[i].bytes);
	}
	s->changes.count -= settled;
	if (settled)
		memmove(s->changes.of, s->changes.of + settled, s->changes.count * sizeof *s->changes.of);
	return WEIR_OK;
}

static void remove_partition(struct store *s, uint32_t partition)
{
	for (uint32_t at; (at = lower(&s->live, &(struct key){.partition = partition})) < s->live.count;) {
		const struct key k = s->live.of[at].key;
		if (k.partition != partition)
			break;
		write_pair(s, &k, NULL, 0);
	}
}

weir_status cold_remove_partition(struct cold *c, uint32_t partition, weir_error *err)
{
	(void)err;
	remove_partition(c->store, partition);
	c->store->writes++;
	return WEIR_OK;
}

weir_status cold_empty_partition(struct cold *c, uint32_t partition, const void *header, size_t bytes, weir_error *err)
{
	(void)err;
	remove_partition(c->store, partition);
	if (header)
		write_pair(c->store, &(struct key){partition, KIND_HEADER, 0, 0}, header, bytes);
	c->store->writes++;
	return WEIR_OK;
}

weir_status cold_read(struct cold *c, uint32_t partition, uint32_t table, const uint64_t *keys, size_t count,
                      struct row_batch *out, weir_error *err)
{
	for (size_t i = 0; i < count; i++) {
		const struct pair *p = find(&c->store->live, &(struct key){partition, KIND_ROW, table, keys[i]});
		if (p && row_batch_add_bytes(out, table, keys[i], p->bytes, p->count))
			return weir_fail(err, WEIR_E_MEMORY, "reading rows: out of memory");
	}
	return WEIR_OK;
}

/* --- Views: copies */

struct cold_snapshot {
	struct pairs pairs;
};
struct cold_scan {
	struct pairs pairs;
	uint32_t next;
	struct key first, last;
};

struct cold_snapshot *cold_snapshot_create(struct cold *c)
{
	struct cold_snapshot *s = world_alloc(sizeof *s);
	copy_pairs(&s->pairs, &c->store->live);
	return s;
}

void cold_snapshot_destroy(struct cold_snapshot *s)
{
	if (s) {
		clear(&s->pairs);
		world_free(s->pairs.of);
	}
	world_free(s);
}

weir_status cold_scan_create(struct cold_scan **out, struct cold *c, const struct cold_snapshot *snapshot, uint32_t partition,
                             uint32_t table, weir_error *err)
{
	(void)err;
	struct cold_scan *s = *out = world_alloc(sizeof *s);
	const bool one = table != COLD_TABLES_ALL;
	s->first = (struct key){partition, KIND_ROW, one ? table : 0, 0};
	s->last = (struct key){partition, KIND_ROW, one ? table : UINT32_MAX, UINT64_MAX};
	copy_pairs(&s->pairs, snapshot ? &snapshot->pairs : &c->store->live);
	s->next = lower(&s->pairs, &s->first);
	return WEIR_OK;
}

void cold_scan_seek(struct cold_scan *s, uint64_t key)
{
	s->first.key = key;
	s->next = lower(&s->pairs, &s->first);
}

weir_status cold_scan_next(struct cold_scan *s, struct cold_row *out, weir_error *err)
{
	(void)err;
	if (s->next == s->pairs.count || compare(&s->pairs.of[s->next].key, &s->last) > 0)
		return WEIR_E_NOT_FOUND;
	const struct pair *p = &s->pairs.of[s->next++];
	*out = (struct cold_row){.table = p->key.table, .key = p->key.key, .bytes = p->bytes, .count = p->count};
	return WEIR_OK;
}

void cold_scan_destroy(struct cold_scan *s)
{
	if (s) {
		clear(&s->pairs);
		world_free(s->pairs.of);
	}
	world_free(s);
}

void cold_usage(struct cold *c, struct cold_usage *out)
{
	*out = (struct cold_usage){.keys = c->store->live.count};
}

uint64_t cold_memory(struct cold *c)
{
	(void)c;
	return 0;
}

void cold_destroy(const char *path)
{
	struct store *s = store_of(path);
	clear(&s->live);
	clear(&s->kept);
	clear(&s->changes);
}
