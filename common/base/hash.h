/* xxh3 behind our own names; hash.c is the only user of xxhash.h. */
#ifndef WEIR_HASH_H
#define WEIR_HASH_H

#include <stddef.h>
#include <stdint.h>

uint64_t hash_bytes(const void *data, size_t bytes, uint64_t seed);
void hash128_bytes(const void *data, size_t bytes, uint8_t out[16]);
/* The same for bytes that come in pieces. */
struct hash128_stream;
struct hash128_stream *hash128_create(void); /* NULL when out of memory */
void hash128_update(struct hash128_stream *h, const void *data, size_t bytes);
void hash128_digest(const struct hash128_stream *h, uint8_t out[16]); /* hash of all bytes so far */
void hash128_destroy(struct hash128_stream *h);                       /* NULL is allowed */
/* A fixed bijective mix of one word, for tables and placement. Fast, inline, and part of the
 * on-disk format. */
static inline uint64_t hash_u64(uint64_t x)
{
	x ^= x >> 32;
	x *= 0xd6e8feb86659fd93ull;
	x ^= x >> 32;
	x *= 0xd6e8feb86659fd93ull;
	x ^= x >> 32;
	return x;
}

#endif
