/* Runs a fuzz target without libFuzzer: its seeds, then ITERATIONS mutations of them (rounds.h),
 * the same ones in every run.
 *
 *     fuzz_X ITERATIONS
 *     fuzz_X --write FOLDER    writes the seeds as files for libFuzzer */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/prng.h"
#include "tests/fuzz/fuzz.h"
#include "tests/rounds.h"

#define INPUT_BYTES_MAX 65536u
#define EDITS_MAX       8u
#define SEEDS_MAX       256u

struct input {
	uint8_t *data;
	size_t size;
};

/* Copies the input to memory of exactly its size, so that sanitizers see an overrun. */
static void run(const uint8_t *data, size_t size)
{
	uint8_t *exact = malloc(size ? size : 1);
	assert(exact);
	if (size)
		memcpy(exact, data, size);
	LLVMFuzzerTestOneInput(exact, size);
	free(exact);
}

static const uint64_t edges[] = {0, 1, 0x7f, 0x80, 0xff, 0xffff, 0x7fffffff, 0x80000000, 0xffffffff, UINT64_MAX, 1ull << 63};

/* One edit of b (capacity INPUT_BYTES_MAX): flips a bit, sets a byte or an edge value, drops an end
 * or a piece, repeats a piece or takes one from another input. Returns the new size. */
static size_t edit(uint8_t *b, size_t n, const struct input *other, struct prng *random)
{
	size_t at = n ? prng_below(random, n) : 0, span = 1 + prng_below(random, 16);
	if (span > n - at)
		span = n - at;
	switch (n ? prng_below(random, 7) : 6) {
	case 0:
		b[at] ^= (uint8_t)(1u << prng_below(random, 8));
		return n;
	case 1:
		b[at] = (uint8_t)prng_u64(random);
		return n;
	case 2:
		memcpy(b + at, &edges[prng_below(random, sizeof edges / sizeof *edges)], span < 8 ? span : 8);
		return n;
	case 3:
		memmove(b + at, b + at + span, n - at - span);
		return n - span;
	case 4:
		return at;
	case 5:
		if (n + span > INPUT_BYTES_MAX)
			return n;
		memmove(b + at + span, b + at, n - at);
		return n + span;
	default: {
		size_t from = other->size ? prng_below(random, other->size) : 0, take = other->size - from;
		if (take > INPUT_BYTES_MAX - at)
			take = INPUT_BYTES_MAX - at;
		if (take)
			memcpy(b + at, other->data + from, take);
		return at + take;
	}
	}
}

static int write_seeds(const struct input *seeds, uint32_t count, const char *folder)
{
	for (uint32_t i = 0; i < count; i++) {
		char path[4096];
		snprintf(path, sizeof path, "%s/seed-%u", folder, i);
		FILE *f = fopen(path, "w");
		if (!f || fwrite(seeds[i].data, 1, seeds[i].size, f) != seeds[i].size || fclose(f) != 0) {
			perror(path);
			return 1;
		}
	}
	return 0;
}

static void mutate(const struct input *seeds, uint32_t count, unsigned long iterations)
{
	static uint8_t buffer[INPUT_BYTES_MAX];
	struct prng random;
	prng_seed(&random, 1);
	for (uint32_t i = 0; i < count; i++)
		run(seeds[i].data, seeds[i].size);
	for (unsigned long k = 0; k < iterations; k++) {
		const struct input *from = &seeds[prng_below(&random, count)];
		size_t n = from->size < INPUT_BYTES_MAX ? from->size : INPUT_BYTES_MAX;
		memcpy(buffer, from->data, n);
		for (uint64_t edits = 1 + prng_below(&random, EDITS_MAX); edits > 0; edits--)
			n = edit(buffer, n, &seeds[prng_below(&random, count)], &random);
		run(buffer, n);
	}
}

int main(int argc, char **argv)
{
	struct input seeds[SEEDS_MAX + 1]; /* one more, to detect a target with too many */
	uint32_t count = 0;
	while (count <= SEEDS_MAX && (seeds[count].data = fuzz_seed(count, &seeds[count].size)))
		count++;
	assert(count > 0 && count <= SEEDS_MAX && argc > 1);
	int failed = 0;
	if (strcmp(argv[1], "--write") == 0)
		failed = argc < 3 || write_seeds(seeds, count, argv[2]);
	else
		mutate(seeds, count, rounds((uint32_t)strtoul(argv[1], NULL, 10)));
	for (uint32_t i = 0; i < count; i++)
		free(seeds[i].data);
	return failed;
}
