/* The safetensors format: named tensors in one file that PyTorch and others open.
 *
 *     0        8              8 + n
 *     +--------+--------------+----------------------------------------+
 *     | u64 n  | JSON, n bytes| tensors, packed, in the order written   |      all little-endian
 *     +--------+--------------+----------------------------------------+
 *     {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [begin, end]}, ...}, offsets from byte 8 + n; padded with spaces to 8
 *
 * Large models come as several such files and an index, FILE.index.json: {"weight_map": {"name": "file", ...}}. It is opened as one: all tensors of the files
 * that it names.
 *
 * Tensors of wider elements are written first, so that each is aligned. Files of others need not be: their numbers are read by safetensor_floats.
 * The reader maps files, and checks everything before it hands out a view: tensors lie one behind the other, without gaps and within the file. */
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
#define SAFETENSORS_FILES_MAX        1024u /* that an index names */
#define SAFETENSORS_BLOCK            16384u

/* The metadata's key of the fingerprint of the job that trained the weights (common/base/fingerprint.h). */
#define SAFETENSORS_FINGERPRINT "weir.fingerprint"

enum safetensor_type { SAFETENSOR_F32, SAFETENSOR_U64, SAFETENSOR_BF16, SAFETENSOR_F16, SAFETENSOR_U8, SAFETENSOR_BOOL };
const char *safetensor_type_name(enum safetensor_type type); /* "BF16" */
/* Whether it is what weights are of: not keys (U64), nor masks (U8, BOOL). */
bool safetensor_is_real(enum safetensor_type type);
bool safetensor_type_from_name(const char *name, enum safetensor_type *out);

struct safetensor {
	char name[SAFETENSORS_NAME_BYTES];
	enum safetensor_type type;
	uint32_t dims;
	uint64_t shape[SAFETENSORS_DIMS_MAX];
	const void *data;       /* writing: borrowed; reading: inside the file, at any address */
	struct disk_file *file; /* writing: begins with the tensor's bytes; NULL: they are at data */
	/* Writing: puts elements [first, first + n) at out, SAFETENSORS_BLOCK at most; NULL: they are as above. */
	void (*make)(const void *arg, uint64_t first, uint64_t n, void *out);
	const void *arg;
};

/* Elements of the shape, and their bytes. */
uint64_t safetensor_elements(const struct safetensor *t);
uint64_t safetensor_bytes(const struct safetensor *t);
/* Whether data may be read as an array of the tensor's elements. */
bool safetensor_is_aligned(const struct safetensor *t);
/* n elements from `first` on as fp32; of a real type. */
void safetensor_floats(const struct safetensor *t, uint64_t first, uint64_t n, float *out);
bool safetensor_same_shape(const struct safetensor *a, const struct safetensor *b);
/* Whether both are of real types and have one shape and equal numbers. A NaN equals none. */
bool safetensor_equal(const struct safetensor *a, const struct safetensor *b);
/* And fp32 as n elements of that type, to the nearest. */
void safetensor_round(enum safetensor_type type, const float *in, uint64_t n, void *out);
/* Which of n numbers is the first that would become an infinity so; n: none. */
uint64_t safetensor_beyond(enum safetensor_type type, const float *in, uint64_t n);

/* Writes atomically: a temporary name, sync, rename. metadata: pairs of strings for "__metadata__", ended by NULL; may be NULL. */
weir_status safetensors_write(struct disk *disk, const char *path, const struct safetensor *tensors, uint32_t count,
                              const char *const *metadata, weir_error *err) WEIR_MUST_CHECK;
/* The same into FOLDER, as STEM.safetensors; tensors that would make it longer than file_bytes go, in their order, to several files of at most so much (or of one
 * tensor), with an index. E_LIMIT: more than SAFETENSORS_FILES_MAX. */
weir_status safetensors_write_folder(struct disk *disk, const char *folder, const char *stem, const struct safetensor *tensors,
                                     uint32_t count, uint64_t file_bytes, const char *const *metadata,
                                     weir_error *err) WEIR_MUST_CHECK;

struct safetensors;
/* A file, or where path ends in ".json" an index with its files, which lie beside it. E_CORRUPT says what does not hold, and where; E_UNSUPPORTED names an element
 * type other than those above; E_NOT_FOUND a file that is not there. Who makes a file shorter while it is open ends the process. */
weir_status safetensors_open(struct safetensors **out, const char *path, weir_error *err) WEIR_MUST_CHECK;
void safetensors_close(struct safetensors *s);
uint32_t safetensors_count(const struct safetensors *s);
const struct safetensor *safetensors_at(const struct safetensors *s, uint32_t i);         /* in the order of their names */
const struct safetensor *safetensors_find(const struct safetensors *s, const char *name); /* NULL when absent */
/* "" when absent; of several files the first one's that has it. */
const char *safetensors_metadata(const struct safetensors *s, const char *key);
/* All texts of the first file's: pairs as safetensors_write takes them, borrowed, in a list of the caller's to free; NULL: out of memory. */
const char **safetensors_metadata_list(const struct safetensors *s);

#endif
