/* Identifies data by content: file names without folders, sizes, and a hash of sampled blocks. The
 * location and modification time of files do not count. */
#ifndef WEIR_CONTENT_H
#define WEIR_CONTENT_H

#include "common/base/limits.h"
#include "worker/data/format/sources.h"

/* Describes data files: "train.svm (32339 bytes, 0123456789abcdef)", or "24 files from day_0.gz to
 * day_9.gz (N bytes, HASH)". Hashes the compressed bytes of compressed files. */
weir_status content_of_sources(const struct sources *s, char out[WEIR_FINGERPRINT_VALUE_BYTES], weir_error *err) WEIR_MUST_CHECK;
/* Describes a folder of a model or of adapters: "N bytes, HASH" of its configuration and
 * weights. */
weir_status content_of_folder(const char *folder, char out[WEIR_FINGERPRINT_VALUE_BYTES], weir_error *err) WEIR_MUST_CHECK;

#endif
