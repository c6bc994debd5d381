/* bench_store [ROWS]: speed of finding and changing rows, relative to the limits of the memory: a
 * bare hash gather with the same prefetching, and memcpy. Prints one line per measurement. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/hash.h"
#include "common/base/prng.h"
#include "server/store/pages.h"
#include "server/store/store.h"

#define WIDTH  16u
#define BATCH  4096u
#define ROUNDS 400u
#define REPEAT 5u

static double seconds(void)
{
	return (double)clock_ns(clock_system()) * 1e-9;
}

static uint64_t key_of(uint64_t i)
{
	return hash_u64(i + 1);
}

/* --- The bare gather: slots and rows in two arrays */

struct bare {
	uint64_t mask;
	struct {
		uint64_t key, row;
	} * slots;
	float (*rows)[WIDTH];
};

static void bare_fill(struct bare *b, uint64_t rows)
{
	uint64_t slots = 1024;
	while (slots * 5 / 8 < rows)
		slots *= 2;
	b->mask = slots - 1;
	b->slots = pages_map(slots * sizeof *b->slots);
	b->rows = pages_map(rows * sizeof *b->rows);
	pages_prefer_huge(b->slots, slots * sizeof *b->slots);
	pages_prefer_huge(b->rows, rows * sizeof *b->rows);
	for (uint64_t i = 0; i < rows; i++) {
		uint64_t at = hash_u64(key_of(i)) & b->mask;
		while (b->slots[at].row)
			at = (at + 1) & b->mask;
		b->slots[at].key = key_of(i);
		b->slots[at].row = i + 1;
		b->rows[i][0] = (float)i;
	}
}

static void bare_gather(const struct bare *b, const uint64_t *keys, size_t n, float *out)
{
	enum { BLOCK = 64 };
	for (size_t base = 0; base < n; base += BLOCK) {
		uint64_t at[BLOCK];
		for (size_t i = 0; i < BLOCK; i++) {
			at[i] = hash_u64(keys[base + i]) & b->mask;
			__builtin_prefetch(&b->slots[at[i]]);
		}
		for (size_t i = 0; i < BLOCK; i++) {
			while (b->slots[at[i]].key != keys[base + i])
				at[i] = (at[i] + 1) & b->mask;
			at[i] = b->slots[at[i]].row - 1;
			__builtin_prefetch(b->rows[at[i]]);
		}
		for (size_t i = 0; i < BLOCK; i++)
			memcpy(out + (base + i) * WIDTH, b->rows[at[i]], sizeof b->rows[0]);
	}
}

/* --- The store */

static struct store_table *fill(struct store *s, weir_optimizer_kind kind, uint32_t id, uint64_t rows)
{
	const weir_init_segment zero = {.elements = WIDTH, .kind = WEIR_INIT_ZERO};
	weir_table_spec spec = {.name = "bench",
	                        .kind = WEIR_EMBEDDING,
	                        .width = WIDTH,
	                        .optimizer = {.kind = kind, .lr = 0.1f, .eps = 1e-8f},
	                        .segments_count = 1,
	                        .segments = &zero};
	struct store_table *t;
	weir_error err = {0};
	if (store_add_table(s, id, &spec, 0, 1, &t, &err)) {
		fprintf(stderr, "bench_store: %s\n", err.text);
		exit(1);
	}
	static float *values[BATCH];
	static struct row_meta *metas[BATCH];
	static uint64_t keys[BATCH];
	for (uint64_t base = 0; base < rows; base += BATCH) {
		for (uint64_t i = 0; i < BATCH; i++)
			keys[i] = key_of(base + i);
		if (store_upsert(t, keys, BATCH, values, metas)) {
			fprintf(stderr, "bench_store: out of memory\n");
			exit(1);
		}
	}
	return t;
}

static void apply_adagrad(struct store_table *t, const uint64_t *keys, const float *grads)
{
	enum { BLOCK = 256 };
	static float *rows[BLOCK];
	static struct row_meta *metas[BLOCK];
	static struct row_state *states[BLOCK];
	const struct optimizer_scalars scalars = {.lr = 0.1f, .grad_scale = 1};
	for (size_t base = 0; base < BATCH; base += BLOCK) {
		if (store_upsert(t, keys + base, BLOCK, rows, metas))
			exit(1);
		for (size_t i = 0; i < BLOCK; i++)
			states[i] = &metas[i]->state;
		optimizer_apply_rows(store_table_optimizer(t), &scalars, states, rows, WIDTH, grads + base * WIDTH, BLOCK);
	}
}

enum what { BARE, GATHER, ADAGRAD, WHATS };

static double run(enum what what, const struct bare *b, struct store_table *plain, struct store_table *adagrad, uint64_t rows,
                  float *out)
{
	static uint64_t keys[BATCH];
	double spent = 0;
	struct prng r;
	prng_seed(&r, 1);
	for (uint32_t round = 0; round < ROUNDS; round++) {
		for (uint32_t i = 0; i < BATCH; i++)
			keys[i] = key_of(prng_below(&r, rows));
		double start = seconds();
		if (what == BARE)
			bare_gather(b, keys, BATCH, out);
		else if (what == GATHER)
			store_gather(plain, keys, BATCH, out);
		else
			apply_adagrad(adagrad, keys, out);
		spent += seconds() - start;
	}
	return (double)ROUNDS * BATCH / spent / 1e6;
}

int main(int argc, char **argv)
{
	uint64_t rows = argc > 1 ? strtoull(argv[1], NULL, 10) : 2000000;
	rows = (rows / BATCH + 1) * BATCH;
	struct bare b;
	bare_fill(&b, rows);
	struct store *s = store_create(NULL);
	struct store_table *plain = fill(s, WEIR_OPT_SGD, 0, rows), *adagrad = fill(s, WEIR_OPT_ADAGRAD, 1, rows);
	float *out = calloc(BATCH * WIDTH, sizeof *out);
	double best[WHATS] = {0};
	for (uint32_t i = 0; i < REPEAT; i++) /* interleaved, so that disturbances affect all */
		for (enum what w = BARE; w < WHATS; w++) {
			double rate = run(w, &b, plain, adagrad, rows, out);
			best[w] = rate > best[w] ? rate : best[w];
		}
	printf("rows %llu, width %u, uniform keys, batches of %u\n", (unsigned long long)rows, WIDTH, BATCH);
	printf("bare gather    %6.1f M rows/s\n", best[BARE]);
	printf("store gather   %6.1f M rows/s  %.2f of bare\n", best[GATHER], best[GATHER] / best[BARE]);
	printf("store adagrad  %6.1f M rows/s  %.2f of bare gather\n", best[ADAGRAD], best[ADAGRAD] / best[BARE]);
	free(out);
	store_destroy(s);
	pages_unmap(b.slots, (b.mask + 1) * sizeof *b.slots);
	pages_unmap(b.rows, rows * sizeof *b.rows);
	return 0;
}
