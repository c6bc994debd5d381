/* Initial values. Each element is a counter-based hash of its coordinates, so that any server or
 * worker can compute any row at any time:
 *     base = mix(seed, table, key)         (key 0 for a dense table)
 *     bits = mix(base, element, kind)      (element: in the row; for a dense table in the whole
 *                                           flat space)
 * uniform: the upper 24 bits as u in [0, 1), then a (2 u - 1), one rounding. normal: a times
 * prng_normal_from(bits). */
#include "kernels/init.h"

#include <assert.h>
#include <string.h>

#include "common/base/prng.h"
#include "kernels/vector.h"

#define BLOCK 64u /* elements whose random bits are made at once */

static void uniforms(const uint64_t *bits, float a, float *out, size_t n)
{
	for (size_t i = 0; i < n; i++)
		out[i] = a * ((float)(2 * (int32_t)(bits[i] >> 40) - (1 << 24)) * 0x1p-24f);
}

static void random_values(const struct vector_ops *ops, const uint64_t *bits, const weir_init_segment *segment, float *out,
                          size_t n)
{
	if (segment->kind == WEIR_INIT_NORMAL)
		ops->normals(bits, segment->a, out, n);
	else
		uniforms(bits, segment->a, out, n);
}

static void init_block(uint64_t base, uint64_t first, const weir_init_segment *segment, float *out, size_t n)
{
	const struct vector_ops *ops = vector_ops_best();
	uint64_t bits[BLOCK];
	ops->mix(base, first, segment->kind, bits, n);
	random_values(ops, bits, segment, out, n);
}

static void init_run(uint64_t base, uint64_t first, const weir_init_segment *segment, float *out, size_t n)
{
	const float a = segment->a;
	switch (segment->kind) {
	case WEIR_INIT_ZERO:
		if (n > 0)
			memset(out, 0, n * sizeof *out);
		return;
	case WEIR_INIT_CONSTANT:
		for (size_t i = 0; i < n; i++)
			out[i] = a;
		return;
	case WEIR_INIT_UNIFORM:
	case WEIR_INIT_NORMAL:
		for (size_t at = 0; at < n; at += BLOCK)
			init_block(base, first + at, segment, out + at, n - at < BLOCK ? n - at : BLOCK);
		return;
	}
	assert(0 && "an initialiser that does not exist");
}

void init_embedding_row(uint64_t seed, uint32_t table, uint64_t key, const weir_init_segment *segment, float *out, size_t n)
{
	init_run(prng_mix(seed, table, key), 0, segment, out, n);
}

/* Rows that fill a block: side by side they take less time than one after the other. */
static void init_block_of_rows(uint64_t seed, uint32_t table, const uint64_t *keys, size_t count,
                               const weir_init_segment *segment, float *const *out, size_t n)
{
	const struct vector_ops *ops = vector_ops_best();
	uint64_t bits[BLOCK];
	float values[BLOCK];
	for (size_t i = 0; i < count; i++)
		ops->mix(prng_mix(seed, table, keys[i]), 0, segment->kind, bits + i * n, n);
	random_values(ops, bits, segment, values, count * n);
	for (size_t i = 0; i < count; i++)
		memcpy(out[i], values + i * n, n * sizeof *values);
}

void init_embedding_rows(uint64_t seed, uint32_t table, const uint64_t *keys, size_t count, const weir_init_segment *segment,
                         float *const *out, size_t n)
{
	const bool random = segment->kind == WEIR_INIT_NORMAL || segment->kind == WEIR_INIT_UNIFORM;
	const size_t rows = random && n > 0 && n <= BLOCK ? BLOCK / n : 0;
	for (size_t i = 0; i < count && rows == 0; i++)
		init_embedding_row(seed, table, keys[i], segment, out[i], n);
	for (size_t i = 0; i < count && rows > 0; i += rows)
		init_block_of_rows(seed, table, keys + i, count - i < rows ? count - i : rows, segment, out + i, n);
}

void init_dense(uint64_t seed, uint32_t table, const weir_init_segment *segments, uint32_t count, uint64_t first, float *out,
                size_t n)
{
	const uint64_t base = prng_mix(seed, table, 0);
	uint64_t start = 0; /* of the segment */
	for (uint32_t s = 0; s < count && n > 0; s++) {
		uint64_t end = start + segments[s].elements;
		if (first < end) {
			size_t run = end - first < n ? (size_t)(end - first) : n;
			init_run(base, first, &segments[s], out, run);
			first += run;
			out += run;
			n -= run;
		}
		start = end;
	}
	assert(n == 0); /* the segments cover the table */
}
