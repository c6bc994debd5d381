/* Fields of file formats that a fuzz target reads and repairs. */
#ifndef FILE_FIELDS_H
#define FILE_FIELDS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "common/base/crc32c.h"

/* A little-endian number of up to 8 bytes. */
static inline uint64_t field_get(const uint8_t *p, size_t bytes)
{
	uint64_t v = 0;
	memcpy(&v, p, bytes);
	return v;
}

/* Writes the checksum of n bytes. */
static inline void field_put_crc(uint8_t *at, const uint8_t *p, size_t n)
{
	memcpy(at, &(uint32_t){crc32c(0, p, n)}, 4);
}

#endif
