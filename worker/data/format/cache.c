#include "worker/data/format/cache.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/hash.h"
#include "common/base/limits.h"
#include "common/system/disk.h"
#include "worker/data/format/content.h"
#include "worker/data/format/table_layout.h"
#include "worker/data/remote/cache_lock.h"

static const char *const part_names[LOAD_PARTS] = {"train", "valid", "test"};

/* `name` tells caches in one folder apart: paths and settings. `identity` adds the sources' sizes,
 * modification times and content (content.h); if it changes, the cache is stale. The time alone is
 * not enough, as archives and copies preserve it. */
struct cache_key {
	uint64_t name, identity;
};

static weir_status key_of(const struct cache_options *o, struct cache_key *out, weir_error *err)
{
	char content[WEIR_FINGERPRINT_VALUE_BYTES];
	const weir_status status = content_of_sources(o->sources, content, err);
	if (status != WEIR_OK)
		return status;
	const struct parser *p = o->load.parser;
	const struct split *s = &o->load.split;
	const uint64_t columns = p->layout ? p->layout->settings : 0;
	uint32_t positive_above;
	memcpy(&positive_above, &p->positive_above, sizeof positive_above);
	const uint64_t settings[] = {PACKED_VERSION, PARSE_KEYS_VERSION, PARSE_LINES_VERSION,   p->format,           p->fields,
	                             p->dense_dim,   p->hash_buckets,    positive_above,        p->every_line,       p->unlabelled,
	                             s->on,          s->modulus,         s->valid_from,         s->test_from,        columns,
	                             s->by_column,   s->by_time,         (uint64_t)s->valid_ms, (uint64_t)s->test_ms};
	struct cache_key k = {.name = hash_bytes(settings, sizeof settings, 0)};
	for (uint32_t i = 0; i < o->sources->count; i++) {
		const struct source *source = &o->sources->items[i];
		const uint64_t state[] = {source->size, (uint64_t)source->mtime_ns};
		k.name = hash_bytes(source->path, strlen(source->path), k.name);
		k.identity = hash_bytes(state, sizeof state, k.identity);
	}
	k.identity = hash_bytes(content, strlen(content), k.identity);
	k.identity = hash_bytes(&k.name, sizeof k.name, k.identity);
	*out = k;
	return WEIR_OK;
}

static weir_status path_of(char out[WEIR_PATH_BYTES_MAX], const struct cache_options *o, const struct cache_key *k,
                           const char *end, weir_error *err)
{
	int n =
	    snprintf(out, WEIR_PATH_BYTES_MAX, "%s/%016llx%s%s", o->dir, (unsigned long long)k->name, end[0] == '.' ? "" : "-", end);
	if (n < 0 || n >= (int)WEIR_PATH_BYTES_MAX - 16)
		return weir_fail(err, WEIR_E_LIMIT, "the cache folder's path is too long: %.200s", o->dir);
	return WEIR_OK;
}

static weir_status part_path(char out[WEIR_PATH_BYTES_MAX], const struct cache_options *o, const struct cache_key *k,
                             uint32_t part, weir_error *err)
{
	char end[32];
	snprintf(end, sizeof end, "%s.packed", part_names[part]);
	return path_of(out, o, k, end, err);
}

/* Returns NULL unless the part exists, whole and current. */
static struct packed *open_current(const struct cache_options *o, const struct cache_key *k, uint32_t part)
{
	char path[WEIR_PATH_BYTES_MAX];
	struct packed *p;
	if (part_path(path, o, k, part, NULL) != WEIR_OK || packed_open(&p, path, NULL) != WEIR_OK)
		return NULL;
	if (packed_get_info(p)->identity == k->identity)
		return p;
	packed_close(p);
	return NULL;
}

/* The context of deliver. */
struct build {
	struct packed_writer *writers[LOAD_PARTS];
};

static weir_status deliver(void *context, enum split_part part, struct rows *rows, weir_error *err)
{
	struct build *b = context;
	struct rows_view view = rows_as_view(rows);
	return packed_writer_add(b->writers[part], &view, err);
}

static weir_status load_all(const struct cache_options *o, struct build *b, struct load_result *result, weir_error *err)
{
	struct load_range *ranges = calloc(o->sources->count + 1, sizeof *ranges);
	struct load_options load = o->load;
	if (!ranges)
		return weir_fail(err, WEIR_E_MEMORY, "out of memory building the packed cache");
	for (uint32_t i = 0; i < o->sources->count; i++)
		ranges[i] = (struct load_range){o->sources->items[i].path, 0, UINT64_MAX};
	for (uint32_t part = 0; part < LOAD_PARTS; part++)
		load.wanted[part] = b->writers[part] != NULL;
	load.deliver = deliver;
	load.context = b;
	weir_status status = load_text(&load, ranges, o->sources->count, result, err);
	free(ranges);
	if (status == WEIR_OK && result->rows == 0 && result->bad_lines > 0)
		status = weir_fail(err, WEIR_E_INVALID, "no line of the data is a row: %llu bad line%s, the first at %s",
		                   (unsigned long long)result->bad_lines, result->bad_lines == 1 ? "" : "s", result->first_bad);
	return status;
}

static weir_status build(const struct cache_options *o, const struct cache_key *k, weir_error *err)
{
	struct build b = {0};
	struct load_result result = {0};
	uint64_t bytes = 0;
	uint32_t parts = o->load.split.on ? LOAD_PARTS : 1;
	weir_status status = WEIR_OK;
	int64_t began_ms = clock_ms(clock_system());
	for (uint32_t part = 0; part < parts && status == WEIR_OK; part++) {
		char path[WEIR_PATH_BYTES_MAX];
		status = part_path(path, o, k, part, err);
		if (status == WEIR_OK)
			status = packed_writer_open(&b.writers[part], path, k->identity, parser_shape(o->load.parser), err);
	}
	if (status == WEIR_OK)
		status = load_all(o, &b, &result, err);
	for (uint32_t part = 0; part < parts; part++) {
		if (status == WEIR_OK)
			status = packed_writer_commit(b.writers[part], result.bad_lines, err);
		else
			packed_writer_abandon(b.writers[part]);
	}
	if (status != WEIR_OK)
		return status;
	for (uint32_t i = 0; i < o->sources->count; i++)
		bytes += o->sources->items[i].size;
	LOG_AT(o->load.logger, LOG_INFO, "packed cache built", "folder=%s bytes=%llu ms=%lld bad_lines=%llu", o->dir,
	       (unsigned long long)bytes, (long long)(clock_ms(clock_system()) - began_ms), (unsigned long long)result.bad_lines);
	return WEIR_OK;
}

weir_status cache_open(struct packed **out, const struct cache_options *o, enum split_part part, weir_error *err)
{
	struct cache_key key;
	uint32_t file = o->load.split.on ? (uint32_t)part : 0;
	char path[WEIR_PATH_BYTES_MAX];
	int lock;
	weir_status status = key_of(o, &key, err);
	if (status == WEIR_OK && (*out = open_current(o, &key, file)) != NULL)
		return WEIR_OK;
	if (status == WEIR_OK)
		status = path_of(path, o, &key, ".lock", err);
	if (status == WEIR_OK)
		status = cache_lock(o->dir, path, &lock, err);
	if (status != WEIR_OK)
		return status;
	/* Another process may have built it while this one waited. */
	if (!(*out = open_current(o, &key, file))) {
		status = build(o, &key, err);
		if (status == WEIR_OK)
			status = part_path(path, o, &key, file, err);
		if (status == WEIR_OK)
			status = packed_open(out, path, err);
	}
	close(lock);
	return status;
}
