/* CRC-32C (Castagnoli, reflected 0x82f63b78), by the widest instructions that the CPU has. */
#ifndef WEIR_CRC32C_H
#define WEIR_CRC32C_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Extends `crc`, the checksum of the bytes so far, by `data`. Start with 0. crc32c(0, "123456789",
 * 9) == 0xe3069283. */
uint32_t crc32c(uint32_t crc, const void *data, size_t bytes);
/* The same without the data: `tail` is crc32c(0, data, bytes). */
uint32_t crc32c_append(uint32_t crc, uint32_t tail, size_t bytes);

/* The variants of this build, fastest first; the last one runs on any CPU. All give the same value.
 * For tests and benchmarks. */
struct crc32c_variant {
	const char *name;
	bool (*supported)(void); /* by this CPU */
	uint32_t (*update)(uint32_t crc, const void *data, size_t bytes);
};
const struct crc32c_variant *crc32c_variants(uint32_t *count);

#endif
