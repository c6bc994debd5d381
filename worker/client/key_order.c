/* A radix sort, from the highest bit in which keys differ down. Buckets hold about one key each, so
 * hashes are in order after one round and an insertion sort of the rest. Keys that cluster take
 * more rounds, at most one per bit. */
#include "worker/client/key_order.h"

#include <stdbool.h>
#include <string.h>

#define INSERTION_MAX  24u
#define DIGIT_BITS_MAX 8u /* the ends of 256 buckets stay in the first-level cache */
#define DIGIT_BUCKETS  (1u << DIGIT_BITS_MAX)

static void insertion(uint64_t *keys, uint32_t *order, size_t n)
{
	for (size_t i = 1; i < n; i++) {
		const uint64_t key = keys[i];
		const uint32_t place = order[i];
		size_t at = i;
		for (; at > 0 && keys[at - 1] > key; at--) {
			keys[at] = keys[at - 1];
			order[at] = order[at - 1];
		}
		keys[at] = key;
		order[at] = place;
	}
}

/* The bits in which keys differ; 0: they are in order already. */
static uint64_t differing(const uint64_t *keys, size_t n)
{
	uint64_t bits = 0;
	bool falls = false;
	for (size_t i = 1; i < n; i++) {
		bits |= keys[i] ^ keys[0];
		falls |= keys[i] < keys[i - 1];
	}
	return falls ? bits : 0;
}

static uint32_t bits_of(uint64_t x) /* x > 0 */
{
	return 64 - (uint32_t)__builtin_clzll(x);
}

void key_order(uint64_t *keys, uint32_t *order, size_t n, uint64_t *keys_scratch, uint32_t *order_scratch)
{
	if (n <= INSERTION_MAX) {
		insertion(keys, order, n);
		return;
	}
	const uint64_t bits = differing(keys, n);
	if (!bits)
		return;
	uint32_t ends[DIGIT_BUCKETS] = {0}, digit = bits_of(n) - 1;
	digit = digit < DIGIT_BITS_MAX ? digit : DIGIT_BITS_MAX;
	digit = digit < bits_of(bits) ? digit : bits_of(bits);
	const uint32_t shift = bits_of(bits) - digit, buckets = 1u << digit;
	for (size_t i = 0; i < n; i++)
		ends[keys[i] >> shift & (buckets - 1)]++;
	/* Bucket starts; scattering moves each to its bucket's end. */
	for (uint32_t b = 0, at = 0, count; b < buckets; b++, at += count) {
		count = ends[b];
		ends[b] = at;
	}
	for (size_t i = 0; i < n; i++) {
		const uint32_t at = ends[keys[i] >> shift & (buckets - 1)]++;
		keys_scratch[at] = keys[i];
		order_scratch[at] = order[i];
	}
	memcpy(keys, keys_scratch, n * sizeof *keys);
	memcpy(order, order_scratch, n * sizeof *order);
	for (uint32_t b = 0, begin = 0; shift > 0 && b < buckets; begin = ends[b++])
		if (ends[b] > begin + 1)
			key_order(keys + begin, order + begin, ends[b] - begin, keys_scratch, order_scratch);
}
