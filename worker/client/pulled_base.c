#include "worker/client/pulled_base.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/little_endian.h"
#include "proto/frame/frame.h"

struct pulled_base {
	weir_pull_coding coding;
	uint64_t elements, chunks, incarnation;
	struct pulled_base_version *versions; /* (chunks) */
	float *values;                        /* (elements) */
};

bool pulled_base_is_needed(const weir_table_spec *spec)
{
	return spec->kind == WEIR_DENSE && spec->pull.codec != WEIR_CODEC_FP32;
}

struct pulled_base *pulled_base_create(const weir_table_spec *spec, weir_error *err)
{
	struct pulled_base *h = calloc(1, sizeof *h);
	if (!h)
		goto no_memory;
	h->coding = spec->pull;
	h->elements = spec->elements;
	h->chunks = weir_chunks(spec->elements);
	h->versions = calloc(h->chunks, sizeof *h->versions);
	h->values = calloc(h->elements, sizeof *h->values);
	if (h->versions && h->values)
		return h;
no_memory:
	pulled_base_destroy(h);
	(void)weir_fail(err, WEIR_E_MEMORY, "table %s: out of memory for what its pulls are differences from", spec->name);
	return NULL;
}

void pulled_base_destroy(struct pulled_base *h)
{
	if (!h)
		return;
	free(h->versions);
	free(h->values);
	free(h);
}

void pulled_base_begin(struct pulled_base *h, uint64_t incarnation)
{
	if (h->incarnation == incarnation)
		return;
	h->incarnation = incarnation;
	memset(h->versions, 0, h->chunks * sizeof *h->versions);
}

struct pulled_base_version pulled_base_version(const struct pulled_base *h, uint64_t chunk)
{
	return h->versions[chunk];
}

const float *pulled_base_values(const struct pulled_base *h, uint64_t chunk)
{
	return h->values + chunk * WEIR_CHUNK;
}

size_t pulled_base_expected(const struct pulled_base *h, uint64_t chunk)
{
	const size_t n = weir_chunk_elements(h->elements, chunk), whole = n * sizeof(float);
	const size_t one = difference_expected(&h->coding, n);
	return DIFFERENCES_HEADER_BYTES + (h->versions[chunk].version && one < whole ? one : whole);
}

/* --- Answers */

static weir_status too_short(uint64_t chunk, size_t bytes, weir_error *err)
{
	return weir_fail(err, WEIR_E_CORRUPT, "differences of chunk %llu: its part ends within %zu bytes", (unsigned long long)chunk,
	                 bytes);
}

static weir_status take_refresh(struct pulled_base *h, uint64_t chunk, struct pulled_base_version to, struct cursor data,
                                weir_error *err)
{
	struct pulled_base_version *v = &h->versions[chunk];
	const size_t bytes = weir_chunk_elements(h->elements, chunk) * sizeof(float);
	if (data.left != bytes || to.version == 0)
		return weir_fail(err, WEIR_E_CORRUPT, "chunk %llu: version %llu of %zu bytes, expected one from 1 of %zu",
		                 (unsigned long long)chunk, (unsigned long long)to.version, data.left, bytes);
	if (v->origin == to.origin && v->version >= to.version)
		return WEIR_OK;
	*v = (struct pulled_base_version){0};
	const weir_status status = cursor_read(&data, h->values + chunk * WEIR_CHUNK, bytes);
	assert(status == WEIR_OK);
	*v = to;
	return status;
}

/* Applies the next difference, which leads to `version`. */
static weir_status take_difference(struct pulled_base *h, uint64_t chunk, uint64_t version, struct cursor *data, uint8_t *scratch,
                                   weir_error *err)
{
	uint8_t length[DIFFERENCE_LENGTH_BYTES];
	const uint8_t *bytes = NULL;
	const size_t n = weir_chunk_elements(h->elements, chunk);
	if (cursor_read(data, length, sizeof length))
		return too_short(chunk, sizeof length, err);
	const uint32_t size = get32(length);
	if (size > data->left || size > HELD_SCRATCH_BYTES)
		return weir_fail(err, WEIR_E_CORRUPT, "a difference of chunk %llu has %u bytes, %zu are left", (unsigned long long)chunk,
		                 size, data->left);
	if (h->versions[chunk].version >= version)
		return cursor_skip(data, size) ? too_short(chunk, size, err) : WEIR_OK;
	if (size && !cursor_run(data, size, 1, scratch, &bytes))
		return too_short(chunk, size, err);
	const weir_status status = difference_check(&h->coding, bytes ? bytes : scratch, size, n, err);
	if (status)
		return status;
	(void)difference_add(&h->coding, bytes, n, h->values + chunk * WEIR_CHUNK);
	h->versions[chunk].version = version;
	return WEIR_OK;
}

weir_status pulled_base_take(struct pulled_base *h, uint64_t chunk, uint64_t origin, struct cursor *data, uint8_t *scratch,
                             weir_error *err)
{
	struct pulled_base_version *v = &h->versions[chunk];
	uint8_t header[DIFFERENCES_HEADER_BYTES];
	assert(chunk < h->chunks);
	if (cursor_read(data, header, sizeof header))
		return too_short(chunk, sizeof header, err);
	const struct pulled_base_version to = {.origin = origin, .version = get64(header)};
	const uint32_t bytes = get32(header + 8), differences = get32(header + 12);
	if (bytes > data->left)
		return too_short(chunk, bytes, err);
	struct cursor part = cursor_take(data, bytes);
	if (!differences && bytes)
		return take_refresh(h, chunk, to, part, err);
	if (differences > to.version)
		return weir_fail(err, WEIR_E_CORRUPT, "chunk %llu: %u differences to version %llu", (unsigned long long)chunk,
		                 differences, (unsigned long long)to.version);
	if (!v->version || v->origin != origin || v->version < to.version - differences) {
		*v = (struct pulled_base_version){0};
		return weir_fail(err, WEIR_E_NOT_CURRENT, "chunk %llu: what came are differences from what is not held",
		                 (unsigned long long)chunk);
	}
	weir_status status = WEIR_OK;
	for (uint32_t i = differences; i > 0 && !status; i--)
		status = take_difference(h, chunk, to.version - i + 1, &part, scratch, err);
	if (!status && part.left)
		return weir_fail(err, WEIR_E_CORRUPT, "chunk %llu: %zu bytes behind its differences", (unsigned long long)chunk,
		                 part.left);
	return status;
}
