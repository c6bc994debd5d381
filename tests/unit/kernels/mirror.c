/* An array that an op has twice (in place) is one buffer on the device too: its address identifies
 * it. Memory ops (buffer_alloc and others) are the device's own. */
#include <assert.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/kernels/mirror_ops.h"

#define GUARD_BYTES ((size_t)256) /* also keeps the alignment of the array between them */
#define GUARD       0x5a

static void check_device(struct mirror *m)
{
	weir_error err = {0};
	if (m->device->ops->sync(m->device, &err) != WEIR_OK)
		fail_msg("%s", err.text);
}

void *mirror_array(struct mirror *m, const void *host, size_t bytes)
{
	const struct backend_ops *ops = m->device->ops;
	if (host == NULL)
		return NULL;
	for (size_t i = 0; i < m->count; i++)
		if (m->arrays[i].host == host && m->arrays[i].bytes > 0 && bytes > 0) {
			assert(bytes <= m->arrays[i].bytes);
			return m->arrays[i].buffer + GUARD_BYTES;
		}
	assert(m->count < ARRAYS_MAX);
	struct array *a = &m->arrays[m->count++];
	*a = (struct array){(void *)(uintptr_t)host, bytes, ops->buffer_alloc(m->device, bytes + 2 * GUARD_BYTES)};
	if (a->buffer == NULL)
		check_device(m);
	assert_non_null(a->buffer);
	unsigned char *whole = malloc(bytes + 2 * GUARD_BYTES);
	assert_non_null(whole);
	memset(whole, GUARD, bytes + 2 * GUARD_BYTES);
	memcpy(whole + GUARD_BYTES, host, bytes);
	ops->to_device(m->device, a->buffer, whole, bytes + 2 * GUARD_BYTES);
	free(whole);
	return a->buffer + GUARD_BYTES;
}

float *mirror_floats(struct mirror *m, const float *host, size_t n)
{
	return mirror_array(m, host, n * sizeof *host);
}

uint32_t *mirror_words(struct mirror *m, const uint32_t *host, size_t n)
{
	return mirror_array(m, host, n * sizeof *host);
}

void mirror_back(struct mirror *m)
{
	const struct backend_ops *ops = m->device->ops;
	for (size_t i = 0; i < m->count; i++) {
		struct array *a = &m->arrays[i];
		const size_t bytes = a->bytes + 2 * GUARD_BYTES, last = GUARD_BYTES + a->bytes;
		unsigned char *whole = malloc(bytes), *now = whole + GUARD_BYTES;
		assert_non_null(whole);
		ops->to_host(m->device, whole, a->buffer, bytes);
		for (size_t j = 0; j < bytes; j++)
			if ((j < GUARD_BYTES || j >= last) && whole[j] != GUARD)
				fail_msg("array %zu of an op, of %zu bytes: byte %td was written", i, a->bytes,
				         (ptrdiff_t)j - (ptrdiff_t)GUARD_BYTES);
		if (a->bytes > 0 &&
		    /* an unchanged constant may lie in read-only memory */
		    memcmp(now, a->host, a->bytes) != 0)
			memcpy(a->host, now, a->bytes);
		free(whole);
		ops->buffer_free(m->device, a->buffer);
	}
	m->count = 0;
	check_device(m);
}

size_t mirror_strided(size_t rows, size_t columns, size_t stride)
{
	return rows == 0 || columns == 0 ? 0 : (rows - 1) * stride + columns;
}

/* --- Life and memory */

static void mirror_destroy(struct backend *b)
{
	mirror(b)->device->ops->destroy(mirror(b)->device);
	free(b);
}
static weir_status mirror_sync(struct backend *b, weir_error *err)
{
	return mirror(b)->device->ops->sync(mirror(b)->device, err);
}
static void mirror_info(const struct backend *b, struct backend_info *out)
{
	const struct backend *device = ((const struct mirror *)b)->device;
	device->ops->info(device, out);
}
static void *mirror_buffer_alloc(struct backend *b, size_t bytes)
{
	return mirror(b)->device->ops->buffer_alloc(mirror(b)->device, bytes);
}
static void mirror_buffer_free(struct backend *b, void *p)
{
	mirror(b)->device->ops->buffer_free(mirror(b)->device, p);
}
static void *mirror_host_alloc(struct backend *b, size_t bytes)
{
	return mirror(b)->device->ops->host_alloc(mirror(b)->device, bytes);
}
static void mirror_host_free(struct backend *b, void *p)
{
	mirror(b)->device->ops->host_free(mirror(b)->device, p);
}
static void mirror_to_device(struct backend *b, void *device, const void *host, size_t bytes)
{
	mirror(b)->device->ops->to_device(mirror(b)->device, device, host, bytes);
}
static void mirror_to_host(struct backend *b, void *host, const void *device, size_t bytes)
{
	mirror(b)->device->ops->to_host(mirror(b)->device, host, device, bytes);
}

static void mirror_to_host_later(struct backend *b, void *host, const void *device, size_t bytes)
{
	mirror(b)->device->ops->to_host_later(mirror(b)->device, host, device, bytes);
}

/* --- Order */

static enum backend_stream mirror_choose_stream(struct backend *b, enum backend_stream s)
{
	return mirror(b)->device->ops->choose_stream(mirror(b)->device, s);
}
static weir_status mirror_sync_stream(struct backend *b, weir_error *err)
{
	return mirror(b)->device->ops->sync_stream(mirror(b)->device, err);
}
static void mirror_set_mark(struct backend *b, struct backend_mark *m)
{
	mirror(b)->device->ops->set_mark(mirror(b)->device, m);
}
static void mirror_free_mark(struct backend *b, struct backend_mark *m)
{
	mirror(b)->device->ops->free_mark(mirror(b)->device, m);
}
static void mirror_follow_mark(struct backend *b, const struct backend_mark *m)
{
	mirror(b)->device->ops->follow_mark(mirror(b)->device, m);
}
static weir_status mirror_await_mark(struct backend *b, const struct backend_mark *m, weir_error *err)
{
	return mirror(b)->device->ops->await_mark(mirror(b)->device, m, err);
}

/* Every op copies its arrays, and a run cannot contain copies. */
static void mirror_replay(struct backend *b, const void *key, size_t bytes, void (*issue)(void *arg), void *arg)
{
	(void)b, (void)key, (void)bytes;
	issue(arg);
}
static void mirror_forget_replays(struct backend *b)
{
	mirror(b)->device->ops->forget_replays(mirror(b)->device);
}

/* --- Creation */

struct backend *mirror_device(struct backend *b)
{
	return mirror(b)->device;
}

struct backend *mirror_of(struct backend *device)
{
	struct mirror *m = calloc(1, sizeof *m);
	assert_non_null(m);
	m->device = device;
	m->base.ops = &m->ops;
	m->ops = (struct backend_ops){
	    .name = device->ops->name,
	    .destroy = mirror_destroy,
	    .sync = mirror_sync,
	    .info = mirror_info,
	    .buffer_alloc = mirror_buffer_alloc,
	    .buffer_free = mirror_buffer_free,
	    .host_alloc = mirror_host_alloc,
	    .host_free = mirror_host_free,
	    .to_device = mirror_to_device,
	    .to_host = mirror_to_host,
	    .to_host_later = mirror_to_host_later,
	    .choose_stream = mirror_choose_stream,
	    .sync_stream = mirror_sync_stream,
	    .set_mark = mirror_set_mark,
	    .free_mark = mirror_free_mark,
	    .follow_mark = mirror_follow_mark,
	    .await_mark = mirror_await_mark,
	    .replay = mirror_replay,
	    .forget_replays = mirror_forget_replays,
	};
	mirror_layers(&m->ops);
	mirror_compression(&m->ops);
	mirror_transformers(&m->ops);
	/* a new op needs a mirror */
	for (size_t i = offsetof(struct backend_ops, destroy) / sizeof(void *); i < sizeof m->ops / sizeof(void *); i++)
		assert_true(((void *const *)&m->ops)[i] != NULL);
	return &m->base;
}
