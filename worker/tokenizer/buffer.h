/* A growing buffer of bytes, for the output of normalizers and pre-tokenizers. One thread reuses
 * it. */
#ifndef WEIR_BUFFER_H
#define WEIR_BUFFER_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct buffer {
	char *data; /* (size) */
	size_t size, capacity;
};

/* False: out of memory, or more than `bytes_max` in all; then nothing is appended. */
static inline bool buffer_append(struct buffer *b, const char *data, size_t bytes, size_t bytes_max)
{
	if (bytes > bytes_max || b->size > bytes_max - bytes)
		return false;
	if (!b->data || b->size + bytes > b->capacity) {
		const size_t capacity = (b->size + bytes) * 3 / 2 + 256;
		char *larger = (char *)realloc(b->data, capacity);
		if (!larger)
			return false;
		b->data = larger;
		b->capacity = capacity;
	}
	if (bytes > 0)
		memcpy(b->data + b->size, data, bytes);
	b->size += bytes;
	return true;
}

static inline void buffer_destroy(struct buffer *b)
{
	free(b->data);
	*b = (struct buffer){0};
}

#endif
