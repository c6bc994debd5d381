/* Maps safetensors files and checks each header completely before using it. */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/limits.h"
#include "kernels/codec.h"
#include "worker/model/safetensors/safetensors.h"

#define EQUAL_BLOCK 4096u /* elements compared at once */

#define HEADER_AT 8u
#define F16_END   65520.0f /* from here on, rounding to fp16 gives infinity */

struct mapped {
	char *at; /* NULL: an empty file */
	size_t bytes;
	json_t *metadata;
};

struct safetensors {
	struct mapped *files; /* (files_count) */
	uint32_t files_count;
	struct safetensor *tensors; /* (count of capacity) sorted by name once all files are read */
	uint32_t count, capacity;
};

/* --- Numbers */

bool safetensor_is_aligned(const struct safetensor *t)
{
	const uint64_t width = safetensor_bytes(&(struct safetensor){.type = t->type});
	return (uintptr_t)t->data % width == 0;
}

static struct coding coding_of(enum safetensor_type type)
{
	static const weir_codec codecs[] = {
	    [SAFETENSOR_F32] = WEIR_CODEC_FP32, [SAFETENSOR_BF16] = WEIR_CODEC_BF16, [SAFETENSOR_F16] = WEIR_CODEC_FP16};
	assert(safetensor_is_real(type));
	return (struct coding){.codec = codecs[type]};
}

void safetensor_round(enum safetensor_type type, const float *in, uint64_t n, void *out)
{
	const struct coding coding = coding_of(type);
	codec_encode(&coding, in, NULL, n, out);
}

uint64_t safetensor_beyond(enum safetensor_type type, const float *in, uint64_t n)
{
	uint64_t i = 0;
	while (i < n && !(type == SAFETENSOR_F16 && isfinite(in[i]) && fabsf(in[i]) >= F16_END))
		i++;
	return i;
}

void safetensor_floats(const struct safetensor *t, uint64_t first, uint64_t n, float *out)
{
	const struct coding coding = coding_of(t->type);
	codec_decode(&coding, (const uint8_t *)t->data + first * codec_element_bytes(coding.codec), n, out);
}

bool safetensor_same_shape(const struct safetensor *a, const struct safetensor *b)
{
	return a->dims == b->dims && memcmp(a->shape, b->shape, a->dims * sizeof *a->shape) == 0;
}

bool safetensor_equal(const struct safetensor *a, const struct safetensor *b)
{
	float x[EQUAL_BLOCK], y[EQUAL_BLOCK];
	if (!safetensor_is_real(a->type) || !safetensor_is_real(b->type) || !safetensor_same_shape(a, b))
		return false;
	const uint64_t elements = safetensor_elements(a);
	for (uint64_t first = 0; first < elements; first += EQUAL_BLOCK) {
		const uint64_t n = elements - first < EQUAL_BLOCK ? elements - first : EQUAL_BLOCK;
		safetensor_floats(a, first, n, x);
		safetensor_floats(b, first, n, y);
		for (uint64_t i = 0; i < n; i++)
			if (!(x[i] >= y[i] && x[i] <= y[i]))
				return false;
	}
	return true;
}

/* --- Mapping */

static weir_status cannot_read(const char *path, weir_error *err)
{
	return weir_fail(err, errno == ENOENT ? WEIR_E_NOT_FOUND : WEIR_E_IO, "cannot read %s: %s", path, strerror(errno));
}

static weir_status map_open(struct mapped *out, int fd, const char *path, weir_error *err)
{
	struct stat about;
	if (fstat(fd, &about) != 0)
		return cannot_read(path, err);
	if (!S_ISREG(about.st_mode))
		return weir_fail(err, WEIR_E_INVALID, "%s is not a file", path);
	if ((uint64_t)about.st_size > SAFETENSORS_FILE_BYTES_MAX)
		return weir_fail(err, WEIR_E_LIMIT, "%s has %lld bytes; the most is %llu", path, (long long)about.st_size,
		                 (unsigned long long)SAFETENSORS_FILE_BYTES_MAX);
	out->bytes = (size_t)about.st_size;
	if (out->bytes == 0)
		return WEIR_OK;
	void *at = mmap(NULL, out->bytes, PROT_READ, MAP_PRIVATE, fd, 0);
	if (at == MAP_FAILED)
		return cannot_read(path, err);
	out->at = at;
	return WEIR_OK;
}

static weir_status map_file(struct mapped *out, const char *path, weir_error *err)
{
	/* Does not wait for a pipe; it is refused later. */
	const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return cannot_read(path, err);
	const weir_status status = map_open(out, fd, path, err);
	close(fd);
	return status;
}

/* --- A file's header */

/* Fills shape. Returns false if the shape is invalid or its size overflows. */
static bool read_shape(const json_t *shape, struct safetensor *t)
{
	if (!json_is_array(shape) || json_array_size(shape) > SAFETENSORS_DIMS_MAX)
		return false;
	uint64_t elements = 1;
	t->dims = (uint32_t)json_array_size(shape);
	for (uint32_t d = 0; d < t->dims; d++) {
		const json_t *n = json_array_get(shape, d);
		if (!json_is_integer(n) || json_integer_value(n) < 0)
			return false;
		t->shape[d] = (uint64_t)json_integer_value(n);
		if (t->shape[d] != 0 && elements > SAFETENSORS_FILE_BYTES_MAX / t->shape[d])
			return false;
		elements *= t->shape[d];
	}
	return true;
}

/* data (bytes): the file's tensor data. */
static weir_status read_tensor(struct safetensor *t, const char *path, const char *name, const json_t *entry, const char *data,
                               uint64_t bytes, weir_error *err)
{
	const char *type = json_string_value(json_object_get(entry, "dtype"));
	const json_t *offsets = json_object_get(entry, "data_offsets");
	const json_t *begin = json_array_get(offsets, 0), *end = json_array_get(offsets, 1);
	if (strlen(name) >= sizeof t->name)
		return weir_fail(err, WEIR_E_LIMIT, "%s: a tensor's name has %zu bytes; the most is %zu: %.80s...", path, strlen(name),
		                 sizeof t->name - 1, name);
	if (!type || !read_shape(json_object_get(entry, "shape"), t) || json_array_size(offsets) != 2 || !json_is_integer(begin) ||
	    !json_is_integer(end))
		return weir_fail(err, WEIR_E_CORRUPT, "%s: the entry of tensor '%.80s' is not dtype, shape and data_offsets", path, name);
	if (!safetensor_type_from_name(type, &t->type))
		return weir_fail(err, WEIR_E_UNSUPPORTED,
		                 "%s: tensor '%s' has elements of type %.16s: F32, BF16, F16, U64, U8 and BOOL can be read", path, name,
		                 type);
	const json_int_t b = json_integer_value(begin), e = json_integer_value(end);
	if (b >= 0 && b <= e && (uint64_t)(e - b) == safetensor_bytes(t) && (uint64_t)e > bytes)
		return weir_fail(err, WEIR_E_CORRUPT,
		                 "%s: tensor '%s' ends at byte %" PRId64 " of %" PRIu64 ": the file is cut short; copy it again", path,
		                 name, (int64_t)e, bytes);
	if (b < 0 || e < b || (uint64_t)(e - b) != safetensor_bytes(t))
		return weir_fail(err, WEIR_E_CORRUPT,
		                 "%s: tensor '%s' lies at [%" PRId64 ", %" PRId64 ") of %" PRIu64 " bytes, its shape needs %" PRIu64,
		                 path, name, (int64_t)b, (int64_t)e, bytes, safetensor_bytes(t));
	snprintf(t->name, sizeof t->name, "%s", name);
	t->data = data + b;
	return WEIR_OK;
}

static weir_status no_memory(const char *path, weir_error *err)
{
	return weir_fail(err, WEIR_E_MEMORY, "out of memory for the header of %s", path);
}

static bool make_room(struct safetensors *s, size_t more)
{
	if (s->count + more > UINT32_MAX / 2)
		return false;
	if (s->count + more <= s->capacity)
		return true;
	const uint32_t capacity = 2 * (uint32_t)(s->count + more);
	struct safetensor *grown = realloc(s->tensors, capacity * sizeof *grown);
	if (!grown)
		return false;
	s->tensors = grown;
	s->capacity = capacity;
	return true;
}

static int by_place(const void *a, const void *b)
{
	const struct safetensor *x = a, *y = b;
	const uintptr_t from_x = (uintptr_t)x->data, from_y = (uintptr_t)y->data;
	if (from_x != from_y)
		return from_x < from_y ? -1 : 1;
	/* Empty tensors first. */
	const uint64_t bytes_x = safetensor_bytes(x), bytes_y = safetensor_bytes(y);
	return (bytes_x > bytes_y) - (bytes_x < bytes_y);
}

/* Tensors must not share bytes, and every byte must belong to a tensor. */
static weir_status check_places(struct safetensor *tensors, uint32_t count, const char *path, const char *data, uint64_t bytes,
                                weir_error *err)
{
	uint64_t at = 0;
	if (count > 0)
		qsort(tensors, count, sizeof *tensors, by_place);
	for (uint32_t i = 0; i < count; i++) {
		const uint64_t begin = (uint64_t)((const char *)tensors[i].data - data);
		if (begin != at)
			return weir_fail(err, WEIR_E_CORRUPT,
			                 "%s: tensor '%s' begins at byte %" PRIu64 ", the one before it ends at %" PRIu64, path,
			                 tensors[i].name, begin, at);
		at += safetensor_bytes(&tensors[i]);
	}
	return at == bytes ? WEIR_OK
	                   : weir_fail(err, WEIR_E_CORRUPT, "%s: its tensors end at byte %" PRIu64 " of %" PRIu64, path, at, bytes);
}

static weir_status read_header(struct safetensors *s, struct mapped *file, const char *path, json_t *root, const char *data,
                               uint64_t bytes, weir_error *err)
{
	const uint32_t before = s->count;
	const char *name;
	json_t *entry;
	if (!make_room(s, json_object_size(root)))
		return no_memory(path, err);
	json_object_foreach(root, name, entry)
	{
		if (strcmp(name, "__metadata__") == 0) {
			file->metadata = json_incref(entry);
			continue;
		}
		struct safetensor *t = &s->tensors[s->count];
		*t = (struct safetensor){.data = NULL};
		const weir_status status = read_tensor(t, path, name, entry, data, bytes, err);
		if (status != WEIR_OK)
			return status;
		s->count++;
	}
	return check_places(s->tensors + before, s->count - before, path, data, bytes, err);
}

static weir_status read_file(struct safetensors *s, struct mapped *file, const char *path, weir_error *err)
{
	uint64_t header = 0;
	json_error_t why;
	weir_status status = map_file(file, path, err);
	if (status != WEIR_OK)
		return status;
	if (file->bytes >= HEADER_AT)
		memcpy(&header, file->at, sizeof header);
	if (file->bytes < HEADER_AT || header > SAFETENSORS_HEADER_BYTES_MAX || header > file->bytes - HEADER_AT)
		return weir_fail(err, WEIR_E_CORRUPT, "%s is not a safetensors file: its header would be %" PRIu64 " of %zu bytes", path,
		                 header, file->bytes);
	json_t *root = json_loadb(file->at + HEADER_AT, header, JSON_REJECT_DUPLICATES, &why);
	if (!json_is_object(root))
		status = weir_fail(err, WEIR_E_CORRUPT, "%s: its header is not a JSON object: %s", path,
		                   !root ? why.text : "it is of another type");
	else
		status = read_header(s, file, path, root, file->at + HEADER_AT + header, file->bytes - HEADER_AT - header, err);
	json_decref(root);
	return status;
}

/* --- An index */

/* Opens each named file once. */
static weir_status open_files(struct safetensors *s, const char *path, const json_t *files, weir_error *err)
{
	const char *name, *slash = strrchr(path, '/');
	json_t *unused;
	s->files = calloc(json_object_size(files) + 1, sizeof *s->files);
	if (!s->files)
		return no_memory(path, err);
	json_object_foreach((json_t *)(uintptr_t)files, name, unused)
	{
		char file[WEIR_PATH_BYTES_MAX];
		const int n = snprintf(file, sizeof file, "%.*s%s", slash ? (int)(slash + 1 - path) : 0, path, name);
		if (n < 0 || (size_t)n >= sizeof file)
			return weir_fail(err, WEIR_E_LIMIT, "%s: the name of a file is too long: %.80s", path, name);
		const weir_status status = read_file(s, &s->files[s->files_count++], file, err);
		if (status != WEIR_OK)
			return status;
	}
	return WEIR_OK;
}

/* files: an object that gets the name of each file as a key. */
static weir_status read_weight_map(const json_t *map, json_t *files, const char *path, weir_error *err)
{
	const char *name;
	json_t *value;
	if (!json_is_object(map) || json_object_size(map) == 0)
		return weir_fail(err, WEIR_E_CORRUPT, "%s: there is no weight_map that names the files of tensors", path);
	json_object_foreach((json_t *)(uintptr_t)map, name, value)
	{
		const char *file = json_string_value(value);
		if (!file || file[0] == '\0' || strchr(file, '/') || strcmp(file, "..") == 0)
			return weir_fail(err, WEIR_E_CORRUPT, "%s: the file of tensor '%.80s' is not the name of one beside it", path, name);
		if (json_object_set_new(files, file, json_null()) != 0)
			return no_memory(path, err);
	}
	if (json_object_size(files) > SAFETENSORS_FILES_MAX)
		return weir_fail(err, WEIR_E_LIMIT, "%s names %zu files; the most is %u", path, json_object_size(files),
		                 SAFETENSORS_FILES_MAX);
	return WEIR_OK;
}

static weir_status open_index(struct safetensors *s, const char *path, weir_error *err)
{
	char *text = NULL;
	size_t bytes = 0;
	json_error_t why;
	weir_status status = disk_read_file(disk_system(), path, SAFETENSORS_HEADER_BYTES_MAX, &text, &bytes, err);
	if (status != WEIR_OK)
		return status;
	json_t *root = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &why), *files = json_object();
	if (!json_is_object(root))
		status = weir_fail(err, WEIR_E_CORRUPT, "%s is not a JSON object: %s", path, !root ? why.text : "it is of another type");
	else
		status = read_weight_map(json_object_get(root, "weight_map"), files, path, err);
	if (status == WEIR_OK)
		status = open_files(s, path, files, err);
	json_decref(files);
	json_decref(root);
	free(text);
	return status;
}

/* --- Opening */

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct safetensor *)a)->name, ((const struct safetensor *)b)->name);
}

static weir_status sort_names(struct safetensors *s, const char *path, weir_error *err)
{
	if (s->count > 0)
		qsort(s->tensors, s->count, sizeof *s->tensors, by_name);
	for (uint32_t i = 1; i < s->count; i++)
		if (strcmp(s->tensors[i - 1].name, s->tensors[i].name) == 0)
			return weir_fail(err, WEIR_E_CORRUPT, "%s: two of its files have a tensor '%s'", path, s->tensors[i].name);
	return WEIR_OK;
}

static bool is_index(const char *path)
{
	const size_t n = strlen(path), suffix = sizeof ".json" - 1;
	return n > suffix && strcmp(path + n - suffix, ".json") == 0;
}

weir_status safetensors_open(struct safetensors **out, const char *path, weir_error *err)
{
	struct safetensors *s = calloc(1, sizeof *s);
	if (!s)
		return weir_fail(err, WEIR_E_MEMORY, "out of memory");
	weir_status status = WEIR_OK;
	if (is_index(path)) {
		status = open_index(s, path, err);
	} else if (!(s->files = calloc(1, sizeof *s->files))) {
		status = no_memory(path, err);
	} else {
		s->files_count = 1;
		status = read_file(s, s->files, path, err);
	}
	if (status == WEIR_OK)
		status = sort_names(s, path, err);
	if (status == WEIR_OK)
		*out = s;
	else
		safetensors_close(s);
	return status;
}

void safetensors_close(struct safetensors *s)
{
	if (!s)
		return;
	for (uint32_t i = 0; i < s->files_count; i++) {
		json_decref(s->files[i].metadata);
		if (s->files[i].at)
			munmap(s->files[i].at, s->files[i].bytes);
	}
	free(s->files);
	free(s->tensors);
	free(s);
}

uint32_t safetensors_count(const struct safetensors *s)
{
	return s->count;
}

const struct safetensor *safetensors_at(const struct safetensors *s, uint32_t i)
{
	return &s->tensors[i];
}

const struct safetensor *safetensors_find(const struct safetensors *s, const char *name)
{
	struct safetensor wanted;
	if (s->count == 0 || strlen(name) >= sizeof wanted.name)
		return NULL;
	snprintf(wanted.name, sizeof wanted.name, "%s", name);
	return bsearch(&wanted, s->tensors, s->count, sizeof *s->tensors, by_name);
}

const char *safetensors_metadata(const struct safetensors *s, const char *key)
{
	for (uint32_t i = 0; i < s->files_count; i++) {
		const char *value = json_string_value(json_object_get(s->files[i].metadata, key));
		if (value)
			return value;
	}
	return "";
}

const char **safetensors_metadata_list(const struct safetensors *s)
{
	const char *key;
	json_t *value, *metadata = s->files_count > 0 ? s->files[0].metadata : NULL;
	const char **list = calloc(2 * json_object_size(metadata) + 1, sizeof *list);
	size_t n = 0;
	if (!list)
		return NULL;
	json_object_foreach(metadata, key, value)
	{
		if (!json_is_string(value))
			continue;
		list[n++] = key;
		list[n++] = json_string_value(value);
	}
	return list;
}
