/* Hashing by xxh3. The 128-bit form is stored in its canonical (big-endian) order. */
#include "common/base/hash.h"

#include <string.h>
#include <xxhash.h>

uint64_t hash_bytes(const void *data, size_t bytes, uint64_t seed)
{
	return XXH3_64bits_withSeed(data, bytes, seed);
}

static void put_canonical(XXH128_hash_t hash, uint8_t out[16])
{
	XXH128_canonical_t canonical;
	XXH128_canonicalFromHash(&canonical, hash);
	memcpy(out, canonical.digest, sizeof canonical.digest);
}

void hash128_bytes(const void *data, size_t bytes, uint8_t out[16])
{
	put_canonical(XXH3_128bits(data, bytes), out);
}

/* xxh3's state needs a larger alignment than malloc guarantees, so the library allocates it. */
struct hash128_stream *hash128_create(void)
{
	XXH3_state_t *h = XXH3_createState();
	if (h && XXH3_128bits_reset(h) != XXH_OK) {
		XXH3_freeState(h);
		return NULL;
	}
	return (struct hash128_stream *)h;
}

void hash128_update(struct hash128_stream *h, const void *data, size_t bytes)
{
	if (bytes)
		(void)XXH3_128bits_update((XXH3_state_t *)h, data, bytes);
}

void hash128_digest(const struct hash128_stream *h, uint8_t out[16])
{
	put_canonical(XXH3_128bits_digest((const XXH3_state_t *)h), out);
}

void hash128_destroy(struct hash128_stream *h)
{
	if (h)
		XXH3_freeState((XXH3_state_t *)h);
}
