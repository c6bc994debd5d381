/* xxh3: the only user of xxhash.h. The 128-bit form is stored in its canonical (big-endian) order. */
#include "hash.h"

#include <string.h>
#include <xxhash.h>

uint64_t hash_bytes(const void *data, size_t bytes, uint64_t seed)
{
	return XXH3_64bits_withSeed(data, bytes, seed);
}

void hash128_bytes(const void *data, size_t bytes, uint8_t out[16])
{
	XXH128_canonical_t canonical;
	XXH128_canonicalFromHash(&canonical, XXH3_128bits(data, bytes));
	memcpy(out, canonical.digest, sizeof canonical.digest);
}
