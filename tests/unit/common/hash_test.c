/* Golden values: files and the wire contain hashes, so they must never change. */
#include "common/base/hash.h"
#include "tests/cmocka_check.h"

static void bytes_hash_as_xxh3_does(void **state)
{
	(void)state;
	/* XXH3_64bits of the empty input, from its specification */
	assert_true(hash_bytes("", 0, 0) == 0x2d06800538d394c2ull);
	assert_true(hash_bytes("weir", 4, 0) != hash_bytes("weir", 4, 1));
	assert_true(hash_bytes("weir", 4, 0) != hash_bytes("wier", 4, 0));
}

static void the_128_bit_form_is_canonical(void **state)
{
	(void)state;
	static const uint8_t of_nothing[16] = {0x99, 0xaa, 0x06, 0xd3, 0x01, 0x47, 0x98, 0xd8,
	                                       0x60, 0x01, 0xc3, 0x24, 0x46, 0x8d, 0x49, 0x7f};
	uint8_t out[16];
	hash128_bytes("", 0, out);
	assert_memory_equal(out, of_nothing, 16);
}

/* The inverse of hash_u64: each step is invertible, so no two words collide. */
static uint64_t unhash_u64(uint64_t x)
{
	uint64_t inverse = 1;
	for (int i = 0; i < 6; i++) /* Newton's iteration doubles the good bits */
		inverse *= 2 - 0xd6e8feb86659fd93ull * inverse;
	x ^= x >> 32;
	x *= inverse;
	x ^= x >> 32;
	x *= inverse;
	return x ^ x >> 32;
}

static void hash_u64_is_a_bijection(void **state)
{
	(void)state;
	for (uint64_t i = 0; i < 10000; i++) {
		uint64_t x = i * 0x9e3779b97f4a7c15ull;
		assert_true(unhash_u64(hash_u64(x)) == x);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(bytes_hash_as_xxh3_does),
	    cmocka_unit_test(the_128_bit_form_is_canonical),
	    cmocka_unit_test(hash_u64_is_a_bijection),
	};
	return cmocka_run_group_tests_name("hash", tests, NULL, NULL);
}
