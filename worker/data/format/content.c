/* Samples each file at the same places wherever it lies: its head, its tail, and blocks at even
 * distances between them. With more files, fewer blocks of each are read. Of an object that is read
 * by ranges the version stands for the blocks. */
#include "worker/data/format/content.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/base/hash.h"
#include "common/system/disk.h"

struct sample {
	struct hash128_stream *hash;
	uint64_t bytes; /* total of all files so far */
	uint8_t block[WEIR_CONTENT_BLOCK_BYTES];
};

static const char *last_part(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash ? slash + 1 : path;
}

static weir_status sample_create(struct sample **out, weir_error *err)
{
	struct sample *s = calloc(1, sizeof *s);
	if (s && !(s->hash = hash128_create())) {
		free(s);
		s = NULL;
	}
	*out = s;
	return s ? WEIR_OK : weir_fail(err, WEIR_E_MEMORY, "out of memory for a fingerprint of the data");
}

static uint64_t sample_end(struct sample *s)
{
	uint8_t digest[16];
	uint64_t hash;
	hash128_digest(s->hash, digest);
	memcpy(&hash, digest, sizeof hash);
	hash128_destroy(s->hash);
	free(s);
	return hash;
}

/* Hashes the block of `file` at `offset`. */
static weir_status add_block(struct sample *s, struct disk_file *file, uint64_t size, uint64_t offset, weir_error *err)
{
	const size_t n = size - offset < sizeof s->block ? (size_t)(size - offset) : sizeof s->block;
	size_t got = 0;
	const weir_status status = file->disk->ops->read_at(file, offset, s->block, n, &got, err);
	if (status == WEIR_OK)
		hash128_update(s->hash, s->block, got);
	return status;
}

/* Returns where block i of n begins: the first at the file's head, the last at its end. */
static uint64_t block_offset(uint64_t size, uint64_t i, uint64_t n)
{
	const uint64_t last = size - WEIR_CONTENT_BLOCK_BYTES;
	return i == n - 1 ? last : last / (n - 1) * i;
}

static void add_name(struct sample *s, const char *path, uint64_t size)
{
	const char *name = last_part(path);
	hash128_update(s->hash, name, strlen(name) + 1);
	hash128_update(s->hash, &size, sizeof size);
	s->bytes += size;
}

/* Hashes a file's name, its size and at most `blocks` blocks. A file that has at most so many is
 * read whole. */
static weir_status add_file(struct sample *s, const char *path, uint64_t size, uint64_t blocks, weir_error *err)
{
	struct disk *disk = disk_system();
	struct disk_file *file;
	add_name(s, path, size);
	weir_status status = disk->ops->open(disk, path, false, &file, err);
	if (status != WEIR_OK)
		return status;
	const uint64_t all = (size + WEIR_CONTENT_BLOCK_BYTES - 1) / WEIR_CONTENT_BLOCK_BYTES;
	for (uint64_t i = 0; i < all && i < blocks && status == WEIR_OK; i++)
		status = add_block(s, file, size, all <= blocks ? i * WEIR_CONTENT_BLOCK_BYTES : block_offset(size, i, blocks), err);
	disk->ops->close(file);
	return status;
}

static weir_status add_source(struct sample *s, const struct source *source, uint64_t blocks, weir_error *err)
{
	if (source->version == 0)
		return add_file(s, source->path, source->size, blocks, err);
	add_name(s, source->path, source->size);
	hash128_update(s->hash, &source->version, sizeof source->version);
	return WEIR_OK;
}

weir_status content_of_sources(const struct sources *sources, char out[WEIR_FINGERPRINT_VALUE_BYTES], weir_error *err)
{
	struct sample *s;
	const uint64_t share = WEIR_CONTENT_BLOCKS_MAX / (sources->count + (sources->count == 0));
	const uint64_t blocks = share > WEIR_CONTENT_BLOCKS_MIN ? share : WEIR_CONTENT_BLOCKS_MIN;
	weir_status status = sample_create(&s, err);
	if (status != WEIR_OK)
		return status;
	for (uint32_t i = 0; i < sources->count && status == WEIR_OK; i++)
		status = add_source(s, &sources->items[i], blocks, err);
	const uint64_t bytes = s->bytes, hash = sample_end(s);
	const char *first = sources->count ? last_part(sources->items[0].path) : "none",
	           *last = sources->count ? last_part(sources->items[sources->count - 1].path) : "none";
	if (sources->count < 2)
		snprintf(out, WEIR_FINGERPRINT_VALUE_BYTES, "%s (%" PRIu64 " bytes, %016" PRIx64 ")", first, bytes, hash);
	else
		snprintf(out, WEIR_FINGERPRINT_VALUE_BYTES, "%u files from %s to %s (%" PRIu64 " bytes, %016" PRIx64 ")", sources->count,
		         first, last, bytes, hash);
	return status;
}

/* --- Folders */

static bool ends_with(const char *name, const char *end)
{
	const size_t n = strlen(name), e = strlen(end);
	return n >= e && strcmp(name + n - e, end) == 0;
}

struct listing {
	char *names[WEIR_CONTENT_FOLDER_FILES];
	uint32_t count;
};

/* Notes files that determine how a model computes, and its weights. Files for a tokenizer or for
 * generation do not count. */
static weir_status note_name(void *arg, const char *name)
{
	struct listing *l = arg;
	const bool counts =
	    strcmp(name, "config.json") == 0 || strcmp(name, "adapter_config.json") == 0 || ends_with(name, ".safetensors");
	if (!counts)
		return WEIR_OK;
	if (l->count == WEIR_CONTENT_FOLDER_FILES)
		return WEIR_E_LIMIT;
	l->names[l->count] = strdup(name);
	return l->names[l->count++] ? WEIR_OK : WEIR_E_MEMORY;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static weir_status add_named(struct sample *s, const char *folder, const char *name, uint64_t blocks, weir_error *err)
{
	char path[WEIR_PATH_BYTES_MAX];
	struct stat about;
	if (snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path)
		return weir_fail(err, WEIR_E_LIMIT, "%.200s/%s is too long a path", folder, name);
	if (stat(path, &about) != 0)
		return weir_fail(err, WEIR_E_NOT_FOUND, "there is no %s", path);
	return add_file(s, path, (uint64_t)about.st_size, blocks, err);
}

weir_status content_of_folder(const char *folder, char out[WEIR_FINGERPRINT_VALUE_BYTES], weir_error *err)
{
	struct disk *disk = disk_system();
	struct listing l = {.count = 0};
	struct sample *s;
	weir_status status = sample_create(&s, err);
	if (status != WEIR_OK)
		return status;
	status = disk->ops->list(disk, folder, note_name, &l, err);
	if (status == WEIR_E_LIMIT || status == WEIR_E_MEMORY)
		(void)weir_fail(err, status, "%s has more than %u files of weights", folder, WEIR_CONTENT_FOLDER_FILES);
	qsort(l.names, l.count, sizeof *l.names, by_name);
	for (uint32_t i = 0; i < l.count && status == WEIR_OK; i++)
		status = add_named(s, folder, l.names[i], WEIR_CONTENT_BLOCKS_MAX / l.count, err);
	for (uint32_t i = 0; i < l.count; i++)
		free(l.names[i]);
	const uint64_t bytes = s->bytes;
	snprintf(out, WEIR_FINGERPRINT_VALUE_BYTES, "%" PRIu64 " bytes, %016" PRIx64, bytes, sample_end(s));
	return status;
}
