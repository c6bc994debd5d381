#include "worker/data/format/arrow_views.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/limits.h"

#define INLINE_BYTES 12

/* An element of more than INLINE_BYTES; a shorter one has its bytes from `prefix` on. */
struct view {
	int32_t length;
	char prefix[4];
	int32_t buffer, offset;
};
_Static_assert(sizeof(struct view) == 16, "the layout of Arrow's views");

/* The array's buffers: validity, views, `count` of texts, and their sizes. */
struct texts {
	const struct view *views;
	const void *const *at;
	const int64_t *sizes; /* (count) */
	int64_t count;
};

/* The bytes of a view; NULL: it is outside of its buffer. */
static const char *bytes_of(const struct texts *t, const struct view *v)
{
	if (v->length >= 0 && v->length <= INLINE_BYTES)
		return v->prefix;
	const bool inside = v->length >= 0 && v->buffer >= 0 && v->buffer < t->count && v->offset >= 0 && t->at[v->buffer] &&
	                    (int64_t)v->offset + v->length <= t->sizes[v->buffer];
	return inside ? (const char *)t->at[v->buffer] + v->offset : NULL;
}

static size_t kept_bytes(const struct view *v)
{
	return v->length > (int32_t)WEIR_CELL_BYTES_MAX ? WEIR_CELL_BYTES_MAX + 1 : (size_t)v->length;
}

/* Checks the elements and adds up their bytes. Returns false if one is wrong. */
static bool measure(const struct arrow_column *c, const struct texts *t, size_t *bytes)
{
	*bytes = 0;
	for (int64_t i = 0; i < c->length; i++) {
		const struct view *v = &t->views[c->offset + i];
		if (arrow_column_is_null(c, i))
			continue;
		if (!bytes_of(t, v))
			return false;
		*bytes += kept_bytes(v);
	}
	return true;
}

static void copy(const struct arrow_column *c, const struct texts *t, int64_t *offsets, char *text)
{
	int64_t used = 0;
	for (int64_t i = 0; i < c->length; i++) {
		const struct view *v = &t->views[c->offset + i];
		offsets[i] = used;
		if (arrow_column_is_null(c, i))
			continue;
		memcpy(text + used, bytes_of(t, v), kept_bytes(v));
		used += (int64_t)kept_bytes(v);
	}
	offsets[c->length] = used;
}

static weir_status fail_wrong(const char *column, weir_error *err)
{
	return weir_fail(err, WEIR_E_INVALID, "column '%.60s': the batch is not as Arrow's C data interface has it: views of texts",
	                 column);
}

weir_status arrow_views_copy(struct arrow_column *c, const char *column, const struct ArrowArray *a, weir_error *err)
{
	size_t bytes;
	const bool has =
	    a->n_buffers >= 3 && a->buffers && a->length >= 0 && a->offset >= 0 && a->length <= INT64_MAX / 32 - a->offset;
	if (!has)
		return fail_wrong(column, err);
	const struct texts t = {a->buffers[1], a->buffers + 2, a->buffers[a->n_buffers - 1], a->n_buffers - 3};
	c->valid = a->buffers[0];
	if ((c->length > 0 && !t.views) || (t.count > 0 && !t.sizes) || !measure(c, &t, &bytes))
		return fail_wrong(column, err);
	const size_t offsets = ((size_t)c->offset + (size_t)c->length + 1) * sizeof(int64_t);
	int64_t *owned = malloc(offsets + bytes);
	if (!owned)
		return weir_fail(err, WEIR_E_MEMORY, "out of memory reading column '%.60s'", column);
	c->owned = owned;
	c->values = owned;
	c->text = (const char *)owned + offsets;
	c->text_bytes = (int64_t)bytes;
	copy(c, &t, owned + c->offset, (char *)owned + offsets);
	return WEIR_OK;
}
