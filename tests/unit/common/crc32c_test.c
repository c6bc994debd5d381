/* Every variant of this CPU against known vectors and a bit-by-bit reference, on random lengths and
 * alignments. */
#include "common/base/crc32c.h"

#include <stdlib.h>

#include "common/base/prng.h"
#include "tests/cmocka_check.h"

static uint32_t reference(uint32_t crc, const uint8_t *p, size_t bytes)
{
	crc = ~crc;
	while (bytes-- > 0) {
		crc ^= *p++;
		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
	}
	return ~crc;
}

/* RFC 3720, appendix B.4. */
static void known_vectors(void **state)
{
	(void)state;
	uint8_t zeros[32] = {0}, ones[32], up[32], down[32];
	memset(ones, 0xff, sizeof ones);
	for (int i = 0; i < 32; i++) {
		up[i] = (uint8_t)i;
		down[i] = (uint8_t)(31 - i);
	}
	uint32_t count;
	const struct crc32c_variant *v = crc32c_variants(&count);
	for (uint32_t i = 0; i < count; i++) {
		if (!v[i].supported()) {
			print_message("this CPU has no %s\n", v[i].name);
			continue;
		}
		assert_int_equal(v[i].update(0, zeros, 32), 0x8a9136aau);
		assert_int_equal(v[i].update(0, ones, 32), 0x62a8ab43u);
		assert_int_equal(v[i].update(0, up, 32), 0x46dd794eu);
		assert_int_equal(v[i].update(0, down, 32), 0x113fdb5cu);
		assert_int_equal(v[i].update(0, "123456789", 9), 0xe3069283u);
		assert_int_equal(v[i].update(0, "", 0), 0);
	}
}

static void random_lengths_and_alignments(void **state)
{
	(void)state;
	enum { SIZE = 20000 };
	uint8_t *data = malloc(SIZE);
	struct prng r;
	prng_seed(&r, 7);
	for (int i = 0; i < SIZE; i++)
		data[i] = (uint8_t)prng_u64(&r);
	uint32_t count;
	const struct crc32c_variant *v = crc32c_variants(&count);
	for (int round = 0; round < 600; round++) {
		size_t at = (size_t)prng_below(&r, 200);
		size_t bytes = (size_t)prng_below(&r, round % 3 == 0 ? 700 : round % 3 == 1 ? 4000 : SIZE - 200);
		uint32_t start = (uint32_t)prng_u64(&r), want = reference(start, data + at, bytes);
		for (uint32_t i = 0; i < count; i++)
			if (v[i].supported() && v[i].update(start, data + at, bytes) != want)
				fail_msg("%s: %zu bytes at %zu", v[i].name, bytes, at);
		assert_int_equal(crc32c(start, data + at, bytes), want);
	}
	free(data);
}

static void every_length_up_to_a_few_blocks(void **state)
{
	(void)state;
	uint8_t data[1400];
	struct prng r;
	prng_seed(&r, 8);
	for (size_t i = 0; i < sizeof data; i++)
		data[i] = (uint8_t)prng_u64(&r);
	uint32_t count, want = 0;
	const struct crc32c_variant *v = crc32c_variants(&count);
	for (size_t bytes = 0; bytes <= sizeof data; bytes++) {
		for (uint32_t i = 0; i < count; i++)
			if (v[i].supported() && v[i].update(0, data, bytes) != want)
				fail_msg("%s: %zu bytes", v[i].name, bytes);
		if (bytes < sizeof data)
			want = reference(want, data + bytes, 1);
	}
}

static void pieces_add_up(void **state)
{
	(void)state;
	uint8_t data[5000];
	memset(data, 0x5a, sizeof data);
	uint32_t whole = crc32c(0, data, sizeof data);
	for (size_t cut = 0; cut <= sizeof data; cut += 311)
		assert_int_equal(crc32c(crc32c(0, data, cut), data + cut, sizeof data - cut), whole);
}

static void appending_needs_no_data(void **state)
{
	(void)state;
	enum { SIZE = 3 << 20 };
	uint8_t *data = malloc(SIZE);
	struct prng r;
	prng_seed(&r, 9);
	for (int i = 0; i < SIZE; i++)
		data[i] = (uint8_t)prng_u64(&r);
	static const size_t lengths[] = {0, 1, 7, 8, 255, 4096, 65536, 262144, 1048577, SIZE};
	for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
		uint32_t start = (uint32_t)prng_u64(&r), tail = crc32c(0, data, lengths[i]);
		assert_int_equal(crc32c_append(start, tail, lengths[i]), crc32c(start, data, lengths[i]));
	}
	free(data);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(known_vectors),
	    cmocka_unit_test(random_lengths_and_alignments),
	    cmocka_unit_test(every_length_up_to_a_few_blocks),
	    cmocka_unit_test(pieces_add_up),
	    cmocka_unit_test(appending_needs_no_data),
	};
	return cmocka_run_group_tests_name("crc32c", tests, NULL, NULL);
}
