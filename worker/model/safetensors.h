/* The safetensors format: named tensors in one file that PyTorch and others open.
 *
 *     0        8              8 + n
 *     +--------+--------------+----------------------------------------+
 *     | u64 n  | JSON, n bytes| tensors, packed, in the order written   |      all little-endian
 *     +--------+--------------+----------------------------------------+
 *     {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [begin, end]}, ...}, offsets from byte 8 + n; padded with spaces to 8
 *
 * Tensors of wider elements are written first, so that each is aligned. The reader checks everything before it hands out a view. */
#ifndef WEIR_SAFETENSORS_H
#define WEIR_SAFETENSORS_H

#include <stdint.h>

#include "disk.h"
#include "weir/status.h"

#define SAFETENSORS_NAME_BYTES       128
#define SAFETENSORS_DIMS_MAX         8
#define SAFETENSORS_HEADER_BYTES_MAX (100u << 20)
#define SAFETENSORS_FILE_BYTES_MAX   (1ull << 38)

enum safetensor_type { SAFETENSOR_F32, SAFETENSOR_U64 };

struct safetensor {
	char name[SAFETENSORS_NAME_BYTES];
	enum safetensor_type type;
	uint32_t dims;
	uint64_t shape[SAFETENSORS_DIMS_MAX];
	const void *data;       /* writing: borrowed; reading: inside the file */
	struct disk_file *file; /* writing: begins with the tensor's bytes; NULL: they are at data */
};

/* Elements of the shape. */
uint64_t safetensor_elements(const struct safetensor *t);

/* Writes atomically: a temporary name, sync, rename. metadata: pairs of strings for "__metadata__", ended by NULL; may be NULL. */
weir_status safetensors_write(struct disk *disk, const char *path, const struct safetensor *tensors, uint32_t count,
                              const char *const *metadata, weir_error *err) WEIR_MUST_CHECK;

struct safetensors;
/* E_CORRUPT says what does not hold; E_UNSUPPORTED names an element type other than F32 and U64. */
weir_status safetensors_open(struct safetensors **out, struct disk *disk, const char *path, weir_error *err) WEIR_MUST_CHECK;
void safetensors_close(struct safetensors *s);
const struct safetensor *safetensors_find(const struct safetensors *s, const char *name); /* NULL when absent */
/* "" when absent. */
const char *safetensors_metadata(const struct safetensors *s, const char *key);

#endif
