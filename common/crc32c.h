/* CRC-32C (Castagnoli, reflected 0x82f63b78), with the CPU's instruction in interleaved streams where there is one. */
#ifndef WEIR_CRC32C_H
#define WEIR_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* crc of data appended to what `crc` covers already; start with 0. crc32c(0, "123456789", 9) == 0xe3069283. */
uint32_t crc32c(uint32_t crc, const void *data, size_t bytes);

#endif
