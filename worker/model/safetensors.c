#include "safetensors.h"

#include <assert.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
	const char *name;
	uint64_t bytes;
} types[] = {[SAFETENSOR_F32] = {"F32", 4}, [SAFETENSOR_U64] = {"U64", 8}};

uint64_t safetensor_elements(const struct safetensor *t)
{
	uint64_t n = 1;
	for (uint32_t i = 0; i < t->dims; i++)
		n *= t->shape[i];
	return n;
}

/* --- Writing */

static uint64_t tensor_bytes(const struct safetensor *t)
{
	return safetensor_elements(t) * types[t->type].bytes;
}

/* Indices of the tensors, wider elements first, otherwise as given. */
static void write_order(const struct safetensor *tensors, uint32_t count, uint32_t *order)
{
	uint32_t n = 0;
	for (uint64_t bytes = 8; bytes >= 4; bytes /= 2)
		for (uint32_t i = 0; i < count; i++)
			if (types[tensors[i].type].bytes == bytes)
				order[n++] = i;
	assert(n == count);
}

static char *header_text(const struct safetensor *tensors, const uint32_t *order, uint32_t count, const char *const *metadata)
{
	json_t *root = json_object();
	if (metadata != NULL) {
		json_t *m = json_object();
		for (; metadata[0] != NULL; metadata += 2)
			json_object_set_new(m, metadata[0], json_string(metadata[1]));
		json_object_set_new(root, "__metadata__", m);
	}
	uint64_t at = 0;
	for (uint32_t i = 0; i < count; i++) {
		const struct safetensor *t = &tensors[order[i]];
		json_t *shape = json_array();
		for (uint32_t d = 0; d < t->dims; d++)
			json_array_append_new(shape, json_integer((json_int_t)t->shape[d]));
		json_object_set_new(root, t->name,
		                    json_pack("{s:s,s:o,s:[I,I]}", "dtype", types[t->type].name, "shape", shape, "data_offsets",
		                              (json_int_t)at, (json_int_t)(at + tensor_bytes(t))));
		at += tensor_bytes(t);
	}
	char *text = json_object_size(root) == count + (metadata != NULL) ? json_dumps(root, JSON_COMPACT) : NULL;
	json_decref(root);
	return text;
}

struct contents {
	const struct safetensor *tensors;
	const uint32_t *order;
	uint32_t count;
	const char *header;
};

static weir_status write_header(struct disk_file *f, const char *text, uint64_t padded, weir_error *err)
{
	static const char padding[8] = "       ";
	const uint64_t length = strlen(text);
	weir_status s = f->disk->ops->write_at(f, 0, &padded, 8, err);
	if (s == WEIR_OK)
		s = f->disk->ops->write_at(f, 8, text, length, err);
	if (s == WEIR_OK && padded > length)
		s = f->disk->ops->write_at(f, 8 + length, padding, padded - length, err);
	return s;
}

static weir_status write_tensor(struct disk_file *f, uint64_t at, const struct safetensor *t, weir_error *err)
{
	const uint64_t bytes = tensor_bytes(t);
	if (t->file != NULL)
		return disk_copy_bytes(t->file, bytes, f, at, err);
	return bytes > 0 ? f->disk->ops->write_at(f, at, t->data, bytes, err) : WEIR_OK;
}

static weir_status write_all(void *arg, struct disk_file *f, weir_error *err)
{
	const struct contents *c = arg;
	const uint64_t padded = (strlen(c->header) + 7) / 8 * 8;
	weir_status s = write_header(f, c->header, padded, err);
	uint64_t at = 8 + padded;
	for (uint32_t i = 0; i < c->count && s == WEIR_OK; i++) {
		const struct safetensor *t = &c->tensors[c->order[i]];
		s = write_tensor(f, at, t, err);
		at += tensor_bytes(t);
	}
	return s;
}

weir_status safetensors_write(struct disk *disk, const char *path, const struct safetensor *tensors, uint32_t count,
                              const char *const *metadata, weir_error *err)
{
	uint32_t *order = malloc((count + 1) * sizeof *order);
	if (order == NULL)
		return weir_fail(err, WEIR_E_MEMORY, "out of memory for the header of %s", path);
	write_order(tensors, count, order);
	char *header = header_text(tensors, order, count, metadata);
	struct contents c = {.tensors = tensors, .order = order, .count = count, .header = header};
	weir_status s = header != NULL ? disk_replace_file(disk, path, write_all, &c, err)
	                               : weir_fail(err, WEIR_E_INVALID, "%s: two tensors have one name, or no memory", path);
	free(header);
	free(order);
	return s;
}

/* --- Reading */

struct safetensors {
	char *file;
	json_t *metadata;
	struct safetensor *tensors;
	uint32_t count;
};

static bool read_type(const char *name, enum safetensor_type *out)
{
	for (size_t i = 0; i < sizeof types / sizeof *types; i++)
		if (strcmp(types[i].name, name) == 0) {
			*out = (enum safetensor_type)i;
			return true;
		}
	return false;
}

/* Fills shape; false when it is none or its size overflows. */
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

static weir_status read_tensor(struct safetensor *t, const char *path, const char *name, const json_t *entry, const char *data,
                               uint64_t bytes, weir_error *err)
{
	const char *type = json_string_value(json_object_get(entry, "dtype"));
	const json_t *offsets = json_object_get(entry, "data_offsets");
	const json_t *begin = json_array_get(offsets, 0), *end = json_array_get(offsets, 1);
	if (type == NULL || strlen(name) >= sizeof t->name || !read_shape(json_object_get(entry, "shape"), t) ||
	    json_array_size(offsets) != 2 || !json_is_integer(begin) || !json_is_integer(end))
		return weir_fail(err, WEIR_E_CORRUPT, "%s: the entry of tensor '%.80s' is not dtype, shape and data_offsets", path, name);
	if (!read_type(type, &t->type))
		return weir_fail(err, WEIR_E_UNSUPPORTED, "%s: tensor '%s' has elements of type %.16s: F32 and U64 can be read", path,
		                 name, type);
	json_int_t b = json_integer_value(begin), e = json_integer_value(end);
	if (b < 0 || e < b || (uint64_t)e > bytes || (uint64_t)(e - b) != tensor_bytes(t))
		return weir_fail(err, WEIR_E_CORRUPT,
		                 "%s: tensor '%s' lies at [%" PRId64 ", %" PRId64 ") of %" PRIu64 " bytes, its shape needs %" PRIu64,
		                 path, name, (int64_t)b, (int64_t)e, bytes, tensor_bytes(t));
	if ((uint64_t)b % types[t->type].bytes != 0)
		return weir_fail(err, WEIR_E_UNSUPPORTED, "%s: tensor '%s' is not aligned to its elements", path, name);
	snprintf(t->name, sizeof t->name, "%s", name);
	t->data = data + b;
	return WEIR_OK;
}

static weir_status read_header(struct safetensors *s, const char *path, const json_t *root, const char *data, uint64_t bytes,
                               weir_error *err)
{
	s->tensors = calloc(json_object_size(root) + 1, sizeof *s->tensors);
	if (s->tensors == NULL)
		return weir_fail(err, WEIR_E_MEMORY, "out of memory for the header of %s", path);
	const char *name;
	json_t *entry;
	json_object_foreach((json_t *)(uintptr_t)root, name, entry)
	{
		if (strcmp(name, "__metadata__") == 0) {
			s->metadata = json_incref(entry);
			continue;
		}
		weir_status status = read_tensor(&s->tensors[s->count], path, name, entry, data, bytes, err);
		if (status != WEIR_OK)
			return status;
		s->count++;
	}
	return WEIR_OK;
}

weir_status safetensors_open(struct safetensors **out, struct disk *disk, const char *path, weir_error *err)
{
	size_t bytes = 0;
	struct safetensors *s = calloc(1, sizeof *s);
	if (s == NULL)
		return weir_fail(err, WEIR_E_MEMORY, "out of memory");
	weir_status status = disk_read_file(disk, path, SAFETENSORS_FILE_BYTES_MAX, &s->file, &bytes, err);
	uint64_t header = 0;
	json_t *root = NULL;
	if (status == WEIR_OK && bytes >= 8)
		memcpy(&header, s->file, 8);
	if (status == WEIR_OK && (bytes < 8 || header > SAFETENSORS_HEADER_BYTES_MAX || header > bytes - 8))
		status = weir_fail(err, WEIR_E_CORRUPT, "%s is not a safetensors file: its header would be %" PRIu64 " of %zu bytes",
		                   path, header, bytes);
	if (status == WEIR_OK) {
		json_error_t why;
		root = json_loadb(s->file + 8, header, JSON_REJECT_DUPLICATES, &why);
		if (!json_is_object(root))
			status = weir_fail(err, WEIR_E_CORRUPT, "%s: its header is not a JSON object: %s", path, why.text);
	}
	/* Tensors are aligned relative to the data's start; the file begins aligned, so the header's length decides. */
	if (status == WEIR_OK && header % 8 != 0)
		status = weir_fail(err, WEIR_E_UNSUPPORTED, "%s: its header is not padded to 8 bytes", path);
	if (status == WEIR_OK)
		status = read_header(s, path, root, s->file + 8 + header, bytes - 8 - header, err);
	json_decref(root);
	if (status == WEIR_OK)
		*out = s;
	else
		safetensors_close(s);
	return status;
}

void safetensors_close(struct safetensors *s)
{
	if (s == NULL)
		return;
	json_decref(s->metadata);
	free(s->tensors);
	free(s->file);
	free(s);
}

const struct safetensor *safetensors_find(const struct safetensors *s, const char *name)
{
	for (uint32_t i = 0; i < s->count; i++)
		if (strcmp(s->tensors[i].name, name) == 0)
			return &s->tensors[i];
	return NULL;
}

const char *safetensors_metadata(const struct safetensors *s, const char *key)
{
	const char *value = json_string_value(json_object_get(s->metadata, key));
	return value != NULL ? value : "";
}
