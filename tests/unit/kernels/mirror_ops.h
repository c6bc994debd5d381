/* For ops of a mirrored backend: their arrays on the device. Each file of ops fills in its own. */
#ifndef WEIR_TESTS_MIRROR_OPS_H
#define WEIR_TESTS_MIRROR_OPS_H

#include <stddef.h>
#include <stdint.h>

#include "tests/unit/kernels/mirror.h"

#define ARRAYS_MAX 16

struct array {
	void *host;
	size_t bytes;
	unsigned char *buffer; /* guard, array, guard */
};

struct mirror {
	struct backend base;
	struct backend_ops ops;
	struct backend *device;
	struct array arrays[ARRAYS_MAX];
	size_t count;
};

static inline struct mirror *mirror(struct backend *b)
{
	return (struct mirror *)b;
}

/* The array's address on the device; NULL for NULL. */
void *mirror_array(struct mirror *m, const void *host, size_t bytes);
float *mirror_floats(struct mirror *m, const float *host, size_t n);
uint32_t *mirror_words(struct mirror *m, const uint32_t *host, size_t n);
/* Elements from the first to the last of a strided matrix. Memory beyond the last row's end need
 * not exist. */
size_t mirror_strided(size_t rows, size_t columns, size_t stride);
/* Copies arrays back, together with stray writes beside them. */
void mirror_back(struct mirror *m);

/* RUN(m, op, ...) runs the op on the device and copies the arrays back. */
#define RUN(m, op, ...)                                 \
	do {                                                \
		(m)->device->ops->op((m)->device, __VA_ARGS__); \
		mirror_back(m);                                 \
	} while (0)
#define RUN_FOR(m, type, op, ...)                                      \
	do {                                                               \
		type result_ = (m)->device->ops->op((m)->device, __VA_ARGS__); \
		mirror_back(m);                                                \
		return result_;                                                \
	} while (0)

void mirror_layers(struct backend_ops *ops);
void mirror_compression(struct backend_ops *ops);
void mirror_transformers(struct backend_ops *ops);

#endif
