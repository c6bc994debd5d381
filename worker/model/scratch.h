/* Activation buffers of one layer stack, in backend memory. They grow to the largest batch seen and
 * keep that size. */
#ifndef WEIR_SCRATCH_H
#define WEIR_SCRATCH_H

#include <stddef.h>

#include "kernels/backend.h"

/* Grows *buffer to at least `elements` floats; growing loses its contents. E_MEMORY leaves it
 * NULL. */
static inline weir_status scratch_grow(struct backend *b, float **buffer, size_t elements)
{
	if (*buffer)
		b->ops->buffer_free(b, *buffer);
	*buffer = b->ops->buffer_alloc(b, (elements > 0 ? elements : 1) * sizeof(float));
	return *buffer ? WEIR_OK : WEIR_E_MEMORY;
}

/* The same for whole numbers. */
static inline weir_status scratch_grow_words(struct backend *b, uint32_t **buffer, size_t elements)
{
	if (*buffer)
		b->ops->buffer_free(b, *buffer);
	*buffer = b->ops->buffer_alloc(b, (elements > 0 ? elements : 1) * sizeof(uint32_t));
	return *buffer ? WEIR_OK : WEIR_E_MEMORY;
}

/* Reports "out of memory for the activations of WHAT", with the device's own words about its
 * memory. */
static inline weir_status scratch_refused(struct backend *b, const char *what, weir_error *err)
{
	weir_error why = {0};
	(void)b->ops->sync(b, &why);
	return weir_fail(err, WEIR_E_MEMORY, "out of memory for the activations of %s%s%s", what, why.text[0] != '\0' ? ": " : "",
	                 why.text);
}

static inline void scratch_free(struct backend *b, float **buffer)
{
	if (*buffer)
		b->ops->buffer_free(b, *buffer);
	*buffer = NULL;
}

static inline void scratch_free_words(struct backend *b, uint32_t **buffer)
{
	if (*buffer)
		b->ops->buffer_free(b, *buffer);
	*buffer = NULL;
}

#endif
