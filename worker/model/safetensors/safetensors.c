#include "worker/model/safetensors/safetensors.h"

#include <assert.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
	const char *name;
	uint64_t bytes;
} types[] = {[SAFETENSOR_F32] = {"F32", 4}, [SAFETENSOR_U64] = {"U64", 8}, [SAFETENSOR_BF16] = {"BF16", 2},
             [SAFETENSOR_F16] = {"F16", 2}, [SAFETENSOR_U8] = {"U8", 1},   [SAFETENSOR_BOOL] = {"BOOL", 1}};

const char *safetensor_type_name(enum safetensor_type type)
{
	return types[type].name;
}

bool safetensor_is_real(enum safetensor_type type)
{
	return type == SAFETENSOR_F32 || type == SAFETENSOR_BF16 || type == SAFETENSOR_F16;
}

bool safetensor_type_from_name(const char *name, enum safetensor_type *out)
{
	for (size_t i = 0; i < sizeof types / sizeof *types; i++)
		if (strcmp(types[i].name, name) == 0) {
			*out = (enum safetensor_type)i;
			return true;
		}
	return false;
}

uint64_t safetensor_elements(const struct safetensor *t)
{
	uint64_t n = 1;
	for (uint32_t i = 0; i < t->dims; i++)
		n *= t->shape[i];
	return n;
}

uint64_t safetensor_bytes(const struct safetensor *t)
{
	return safetensor_elements(t) * types[t->type].bytes;
}

/* --- Writing */

/* Orders tensors by element width, widest first; equal widths keep their order. */
static void write_order(const struct safetensor *tensors, uint32_t count, uint32_t *order)
{
	uint32_t n = 0;
	for (uint64_t bytes = 8; bytes >= 1; bytes /= 2)
		for (uint32_t i = 0; i < count; i++)
			if (types[tensors[i].type].bytes == bytes)
				order[n++] = i;
	assert(n == count);
}

static char *header_text(const struct safetensor *tensors, const uint32_t *order, uint32_t count, const char *const *metadata)
{
	json_t *root = json_object();
	if (metadata) {
		json_t *m = json_object();
		for (; metadata[0]; metadata += 2)
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
		                              (json_int_t)at, (json_int_t)(at + safetensor_bytes(t))));
		at += safetensor_bytes(t);
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
	weir_status status = f->disk->ops->write_at(f, 0, &padded, 8, err);
	if (status == WEIR_OK)
		status = f->disk->ops->write_at(f, 8, text, length, err);
	if (status == WEIR_OK && padded > length)
		status = f->disk->ops->write_at(f, 8 + length, padding, padded - length, err);
	return status;
}

static weir_status write_made(struct disk_file *f, uint64_t at, const struct safetensor *t, weir_error *err)
{
	uint64_t block[SAFETENSORS_BLOCK];
	const uint64_t elements = safetensor_elements(t), width = types[t->type].bytes;
	weir_status status = WEIR_OK;
	for (uint64_t first = 0; first < elements && status == WEIR_OK; first += SAFETENSORS_BLOCK) {
		const uint64_t n = elements - first < SAFETENSORS_BLOCK ? elements - first : SAFETENSORS_BLOCK;
		t->make(t->arg, first, n, block);
		status = f->disk->ops->write_at(f, at + first * width, block, n * width, err);
	}
	return status;
}

static weir_status write_tensor(struct disk_file *f, uint64_t at, const struct safetensor *t, weir_error *err)
{
	if (t->make)
		return write_made(f, at, t, err);
	const uint64_t bytes = safetensor_bytes(t);
	if (t->file)
		return disk_copy_bytes(t->file, bytes, f, at, err);
	return bytes > 0 ? f->disk->ops->write_at(f, at, t->data, bytes, err) : WEIR_OK;
}

static weir_status write_all(void *arg, struct disk_file *f, weir_error *err)
{
	const struct contents *c = arg;
	const uint64_t padded = (strlen(c->header) + 7) / 8 * 8;
	weir_status status = write_header(f, c->header, padded, err);
	uint64_t at = 8 + padded;
	for (uint32_t i = 0; i < c->count && status == WEIR_OK; i++) {
		const struct safetensor *t = &c->tensors[c->order[i]];
		status = write_tensor(f, at, t, err);
		at += safetensor_bytes(t);
	}
	return status;
}

weir_status safetensors_write(struct disk *disk, const char *path, const struct safetensor *tensors, uint32_t count,
                              const char *const *metadata, weir_error *err)
{
	uint32_t *order = malloc((count + 1) * sizeof *order);
	if (!order)
		return weir_fail(err, WEIR_E_MEMORY, "out of memory for the header of %s", path);
	write_order(tensors, count, order);
	char *header = header_text(tensors, order, count, metadata);
	struct contents c = {.tensors = tensors, .order = order, .count = count, .header = header};
	weir_status status = header ? disk_replace_file(disk, path, write_all, &c, err)
	                            : weir_fail(err, WEIR_E_INVALID, "%s: two tensors have one name, or no memory", path);
	free(header);
	free(order);
	return status;
}
