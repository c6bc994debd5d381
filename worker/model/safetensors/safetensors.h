/* The safetensors format: named tensors in one file that PyTorch and other programs open.
 *
 *     0        8              8 + n
 *     +--------+--------------+----------------------------------------+
 *     | u64 n  | JSON, n bytes| tensors, packed, in the order written   |      all little-endian
 *     +--------+--------------+----------------------------------------+
 *     {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [begin, end]}, ...}
 *     offsets count from byte 8 + n; the JSON is padded with spaces to a multiple of 8
 *
 * Large models have several such files and an index, FILE.index.json: {"weight_map": {"name":
 * "file", ...}}. The reader opens an index as one model, with all tensors of the files that it
 * names.
 *
 * The writer puts tensors of wider elements first, so that each is aligned. Files of other writers
 * may be unaligned; safetensor_floats reads their numbers. The reader maps files and checks
 * everything before it returns a view: tensors lie one after another, without gaps and within the
 * file. */
#ifndef WEIR_SAFETENSORS_H
#define WEIR_SAFETENSORS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/system/disk.h"
#include "weir/status.h"

#define SAFETENSORS_NAME_BYTES       128
#define SAFETENSORS_DIMS_MAX         8
#define SAFETENSORS_HEADER_BYTES_MAX (100u << 20)
#define SAFETENSORS_FILE_BYTES_MAX   (1ull << 38)
#define SAFETENSORS_FILES_MAX        1024u /* in one index */
#define SAFETENSORS_BLOCK            16384u

/* The metadata key for the fingerprint of the job that trained the weights
 * (common/base/fingerprint.h). */
#define SAFETENSORS_FINGERPRINT "weir.fingerprint"

enum safetensor_type { SAFETENSOR_F32, SAFETENSOR_U64, SAFETENSOR_BF16, SAFETENSOR_F16, SAFETENSOR_U8, SAFETENSOR_BOOL };
const char *safetensor_type_name(enum safetensor_type type); /* "BF16" */
/* Returns whether the type holds weights, not keys (U64) or masks (U8, BOOL). */
bool safetensor_is_real(enum safetensor_type type);
bool safetensor_type_from_name(const char *name, enum safetensor_type *out);

struct safetensor {
	char name[SAFETENSORS_NAME_BYTES];
	enum safetensor_type type;
	uint32_t dims;
	uint64_t shape[SAFETENSORS_DIMS_MAX];
	const void *data;       /* writing: borrowed; reading: inside the file, at any address */
	struct disk_file *file; /* writing: starts with the tensor's bytes; NULL: they are at data */
	/* Writing: stores elements [first, first + n) at out, at most SAFETENSORS_BLOCK. NULL: data or
	 * file has the elements. */
	void (*make)(const void *arg, uint64_t first, uint64_t n, void *out);
	const void *arg;
};

/* The number of elements in the shape, and of their bytes. */
uint64_t safetensor_elements(const struct safetensor *t);
uint64_t safetensor_bytes(const struct safetensor *t);
/* Returns whether data may be read as an array of the tensor's elements. */
bool safetensor_is_aligned(const struct safetensor *t);
/* Converts n elements of a real type, from `first` on, to fp32. */
void safetensor_floats(const struct safetensor *t, uint64_t first, uint64_t n, float *out);
bool safetensor_same_shape(const struct safetensor *a, const struct safetensor *b);
/* Returns whether both tensors are of real types and have one shape and equal numbers. A NaN equals
 * nothing. */
bool safetensor_equal(const struct safetensor *a, const struct safetensor *b);
/* Rounds fp32 to n elements of the type, to the nearest value. */
void safetensor_round(enum safetensor_type type, const float *in, uint64_t n, void *out);
/* Returns the index of the first of n numbers that rounding would turn into an infinity; n if there
 * is none. */
uint64_t safetensor_beyond(enum safetensor_type type, const float *in, uint64_t n);

/* Writes atomically: a temporary name, sync, rename. metadata: pairs of strings for "__metadata__",
 * ended by NULL; may be NULL. */
weir_status safetensors_write(struct disk *disk, const char *path, const struct safetensor *tensors, uint32_t count,
                              const char *const *metadata, weir_error *err) WEIR_MUST_CHECK;
/* Writes FOLDER/STEM.safetensors. Tensors beyond file_bytes go, in order, to several files with an
 * index, each of at most file_bytes or of a single tensor. E_LIMIT: more than SAFETENSORS_FILES_MAX
 * files. */
weir_status safetensors_write_folder(struct disk *disk, const char *folder, const char *stem, const struct safetensor *tensors,
                                     uint32_t count, uint64_t file_bytes, const char *const *metadata,
                                     weir_error *err) WEIR_MUST_CHECK;

struct safetensors;
/* Opens a file or, if path ends in ".json", an index with its files, which lie beside it. E_CORRUPT
 * names the violated rule and its place. E_UNSUPPORTED names an element type other than those
 * above. E_NOT_FOUND names a missing file. Truncating an open file ends the process. */
weir_status safetensors_open(struct safetensors **out, const char *path, weir_error *err) WEIR_MUST_CHECK;
void safetensors_close(struct safetensors *s);
uint32_t safetensors_count(const struct safetensors *s);
/* In order of names. */
const struct safetensor *safetensors_at(const struct safetensors *s, uint32_t i);
/* NULL: absent. */
const struct safetensor *safetensors_find(const struct safetensors *s, const char *name);
/* Returns "" if absent; with several files, the value of the first one that has the key. */
const char *safetensors_metadata(const struct safetensors *s, const char *key);
/* Returns all metadata of the first file: pairs as safetensors_write takes them, borrowed, in a
 * list that the caller frees. NULL: out of memory. */
const char **safetensors_metadata_list(const struct safetensors *s);

#endif
