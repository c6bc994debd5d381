#include "worker/data/tokens/token_cache.h"

#include <string.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/hash.h"
#include "common/base/limits.h"
#include "worker/data/format/content.h"
#include "worker/data/remote/cache_lock.h"

/* `name` tells caches in one folder apart: paths, tokenizer and settings. `identity` adds the
 * sources' sizes, modification times and content, as in format/cache.c; if it changes, the cache is
 * stale. */
struct cache_key {
	uint64_t name, identity;
};

static weir_status key_of(const struct tokenize_options *o, struct cache_key *out, weir_error *err)
{
	char content[WEIR_FINGERPRINT_VALUE_BYTES];
	const weir_status status = content_of_sources(o->sources, content, err);
	if (status != WEIR_OK)
		return status;
	const uint64_t settings[] = {TOKEN_FILE_VERSION, RECORD_VERSION, o->format, o->record.chat, o->record.eos, o->replace};
	struct cache_key k = {.name = hash_bytes(settings, sizeof settings, 0)};
	const struct tokenizer_info *t = tokenizer_get_info(o->record.tokenizer);
	k.name = hash_bytes(t->fingerprint, sizeof t->fingerprint, k.name);
	/* Conversations contain bos, which the fingerprint of the tokenizer's file does not cover. */
	k.name = hash_bytes(&t->bos, sizeof t->bos, k.name);
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

/* Returns NULL unless the file exists, whole and current. */
static struct token_file *open_current(const char *path, const struct cache_key *k)
{
	struct token_file *f;
	if (token_file_open(&f, path, NULL) != WEIR_OK)
		return NULL;
	if (token_file_get_info(f)->identity == k->identity)
		return f;
	token_file_close(f);
	return NULL;
}

static weir_status build(const struct token_cache_options *o, const struct cache_key *k, const char *path, weir_error *err)
{
	struct tokenize_options how = o->tokenize;
	struct token_file_info info;
	const int64_t began_ms = clock_ms(clock_system());
	how.identity = k->identity;
	const weir_status status = tokenize(&how, path, &info, err);
	if (status == WEIR_OK)
		LOG_AT(how.logger, LOG_INFO, "texts tokenized", "file=%s documents=%llu tokens=%llu ms=%lld bad_lines=%llu replaced=%llu",
		       path, (unsigned long long)info.documents, (unsigned long long)info.tokens,
		       (long long)(clock_ms(clock_system()) - began_ms), (unsigned long long)info.bad_records,
		       (unsigned long long)info.replaced);
	return status;
}

weir_status token_cache_open(struct token_file **out, const struct token_cache_options *o, weir_error *err)
{
	struct cache_key key;
	char path[WEIR_PATH_BYTES_MAX], lock_path[WEIR_PATH_BYTES_MAX];
	int lock;
	weir_status status = key_of(&o->tokenize, &key, err);
	if (status != WEIR_OK)
		return status;
	const int n = snprintf(path, sizeof path, "%s/%016llx.tokens", o->dir, (unsigned long long)key.name);
	if (n < 0 || n >= (int)sizeof path - 16)
		return weir_fail(err, WEIR_E_LIMIT, "the cache folder's path is too long: %.200s", o->dir);
	snprintf(lock_path, sizeof lock_path, "%.*s.lock", n, path);
	if ((*out = open_current(path, &key)) != NULL)
		return WEIR_OK;
	status = cache_lock(o->dir, lock_path, &lock, err);
	if (status != WEIR_OK)
		return status;
	/* Another process may have built it while this one waited. */
	if (!(*out = open_current(path, &key))) {
		status = build(o, &key, path, err);
		if (status == WEIR_OK)
			status = token_file_open(out, path, err);
	}
	close(lock);
	return status;
}
