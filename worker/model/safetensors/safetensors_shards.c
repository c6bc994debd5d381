/* Writes a model's tensors into a folder: one file, or several of moderate size and the index that
 * names them, in the format of Hugging Face's libraries. */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/limits.h"
#include "worker/model/safetensors/safetensors.h"

struct shards {
	struct disk *disk;
	const char *folder, *stem;
	const struct safetensor *tensors;
	uint32_t count;
	uint64_t file_bytes;
	const char *const *metadata;
};

/* Returns how many tensors from `first` on fit into one file, at least one. */
static uint32_t fitting(const struct shards *s, uint32_t first)
{
	uint64_t bytes = safetensor_bytes(&s->tensors[first]);
	uint32_t n = 1;
	while (first + n < s->count && (bytes += safetensor_bytes(&s->tensors[first + n])) <= s->file_bytes)
		n++;
	return n;
}

static uint32_t files_needed(const struct shards *s)
{
	uint32_t files = 0;
	for (uint32_t first = 0; first < s->count; first += fitting(s, first))
		files++;
	return files > 0 ? files : 1;
}

static weir_status path_of(const struct shards *s, const char *name, char path[WEIR_PATH_BYTES_MAX], weir_error *err)
{
	const int n = snprintf(path, WEIR_PATH_BYTES_MAX, "%s/%s", s->folder, name);
	return n < (int)WEIR_PATH_BYTES_MAX ? WEIR_OK : weir_fail(err, WEIR_E_LIMIT, "the path of %.80s... is too long", s->folder);
}

static weir_status write_file(const struct shards *s, const char *name, uint32_t first, uint32_t count, weir_error *err)
{
	char path[WEIR_PATH_BYTES_MAX];
	const weir_status status = path_of(s, name, path, err);
	return status == WEIR_OK ? safetensors_write(s->disk, path, s->tensors + first, count, s->metadata, err) : status;
}

static weir_status write_index(const struct shards *s, json_t *map, weir_error *err)
{
	char path[WEIR_PATH_BYTES_MAX], name[SAFETENSORS_NAME_BYTES];
	uint64_t total = 0;
	for (uint32_t i = 0; i < s->count; i++)
		total += safetensor_bytes(&s->tensors[i]);
	snprintf(name, sizeof name, "%s.safetensors.index.json", s->stem);
	weir_status status = path_of(s, name, path, err);
	json_t *index = json_pack("{s:{s:I},s:O}", "metadata", "total_size", (json_int_t)total, "weight_map", map);
	char *text = json_object_size(map) == s->count ? json_dumps(index, JSON_INDENT(2)) : NULL;
	if (status == WEIR_OK)
		status = text ? disk_write_file(s->disk, path, text, strlen(text), err)
		              : weir_fail(err, WEIR_E_INVALID, "%s: two tensors have one name, or no memory", path);
	free(text);
	json_decref(index);
	return status;
}

static weir_status write_files(const struct shards *s, uint32_t files, json_t *map, weir_error *err)
{
	char name[SAFETENSORS_NAME_BYTES];
	weir_status status = WEIR_OK;
	uint32_t first = 0;
	for (uint32_t file = 1; file <= files && status == WEIR_OK; file++) {
		const uint32_t n = fitting(s, first);
		snprintf(name, sizeof name, "%s-%05" PRIu32 "-of-%05" PRIu32 ".safetensors", s->stem, file, files);
		status = write_file(s, name, first, n, err);
		for (uint32_t i = first; i < first + n; i++)
			json_object_set_new(map, s->tensors[i].name, json_string(name));
		first += n;
	}
	return status;
}

weir_status safetensors_write_folder(struct disk *disk, const char *folder, const char *stem, const struct safetensor *tensors,
                                     uint32_t count, uint64_t file_bytes, const char *const *metadata, weir_error *err)
{
	char name[SAFETENSORS_NAME_BYTES];
	const struct shards s = {.disk = disk,
	                         .folder = folder,
	                         .stem = stem,
	                         .tensors = tensors,
	                         .count = count,
	                         .file_bytes = file_bytes,
	                         .metadata = metadata};
	const uint32_t files = files_needed(&s);
	if (files > SAFETENSORS_FILES_MAX)
		return weir_fail(err, WEIR_E_LIMIT, "%s would have %" PRIu32 " files of at most %" PRIu64 " bytes: the most is %u",
		                 folder, files, file_bytes, SAFETENSORS_FILES_MAX);
	snprintf(name, sizeof name, "%s.safetensors", stem);
	if (files == 1)
		return write_file(&s, name, 0, count, err);
	json_t *map = json_object();
	weir_status status = write_files(&s, files, map, err);
	if (status == WEIR_OK)
		status = write_index(&s, map, err);
	json_decref(map);
	return status;
}
