#include "worker/data/quality/ordered.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "kernels/bits.h"

#define DIGIT_BITS 11u
#define DIGITS     (1u << DIGIT_BITS)

uint64_t ordered_key(const struct scored *s, size_t row)
{
	const uint32_t score = bits_of(scored_score(s, row) + 0.0f), ordered = score & SIGN_MASK ? ~score : score | SIGN_MASK;
	const uint32_t weight = bits_of(scored_weight(s, row)) & ~SIGN_MASK;
	return (uint64_t)ordered << ORDERED_SCORE_BIT | weight | (scored_is_positive(s, row) ? SIGN_MASK : 0);
}

static float score_of(uint64_t key)
{
	const uint32_t ordered = (uint32_t)(key >> ORDERED_SCORE_BIT);
	return float_of(ordered & SIGN_MASK ? ordered & ~SIGN_MASK : ~ordered);
}

static void add(struct tie *t, uint64_t key)
{
	const double weight = (double)float_of((uint32_t)key & ~SIGN_MASK);
	const bool positive = key & SIGN_MASK, counts = weight > 0;
	*(positive ? &t->positives : &t->negatives) += weight;
	t->rows += counts;
	t->positive_rows += counts && positive;
}

struct tie tie_next(const uint64_t *keys, unsigned words, size_t n, size_t *i)
{
	const uint64_t first = keys[*i * words];
	struct tie t = {.score = score_of(first)};
	for (; *i < n && keys[*i * words] >> ORDERED_SCORE_BIT == first >> ORDERED_SCORE_BIT; ++*i)
		add(&t, keys[*i * words]);
	return t;
}

struct tie tie_before(const uint64_t *keys, unsigned words, size_t *end)
{
	const uint64_t last = keys[(*end - 1) * words];
	struct tie t = {.score = score_of(last)};
	for (; *end > 0 && keys[(*end - 1) * words] >> ORDERED_SCORE_BIT == last >> ORDERED_SCORE_BIT; --*end)
		add(&t, keys[(*end - 1) * words]);
	return t;
}

struct tie tie_of_all(const uint64_t *keys, unsigned words, size_t n)
{
	struct tie t = {.score = n > 0 ? score_of(keys[(n - 1) * words]) : 0};
	for (size_t i = 0; i < n; i++)
		add(&t, keys[i * words]);
	return t;
}

double ordered_auc(const uint64_t *keys, unsigned words, size_t n)
{
	/* The weight of (positive, negative) pairs in the right order. */
	double won = 0, negatives = 0, positives = 0;
	for (size_t i = 0; i < n;) {
		const struct tie t = tie_next(keys, words, n, &i);
		won += t.positives * (negatives + 0.5 * t.negatives);
		positives += t.positives;
		negatives += t.negatives;
	}
	return positives > 0 && negatives > 0 ? won / (positives * negatives) : (double)NAN;
}

static size_t digit_of(uint64_t word, unsigned shift)
{
	return word >> shift & (DIGITS - 1);
}

/* Moves the records in the order of one digit. Returns false if all have the same digit, and moves
 * nothing. */
static bool sort_by_digit(const uint64_t *from, uint64_t *to, size_t n, unsigned words, unsigned word, unsigned shift)
{
	size_t starts[DIGITS] = {0}, sum = 0;
	for (size_t i = 0; i < n; i++)
		starts[digit_of(from[i * words + word], shift)]++;
	if (n == 0 || starts[digit_of(from[word], shift)] == n)
		return false;
	for (size_t d = 0; d < DIGITS; d++) {
		const size_t count = starts[d];
		starts[d] = sum;
		sum += count;
	}
	for (size_t i = 0; i < n; i++) {
		const uint64_t *record = &from[i * words];
		memcpy(&to[starts[digit_of(record[word], shift)]++ * words], record, words * sizeof *record);
	}
	return true;
}

uint64_t *radix_sort(uint64_t *records, uint64_t *scratch, size_t n, unsigned words, unsigned word, unsigned low)
{
	assert(word < words && words <= 2);
	for (unsigned shift = low; shift < 64; shift += DIGIT_BITS) {
		const bool moved =
		    words == 1 ? sort_by_digit(records, scratch, n, 1, 0, shift) : sort_by_digit(records, scratch, n, 2, word, shift);
		if (moved) {
			uint64_t *swap = records;
			records = scratch;
			scratch = swap;
		}
	}
	return records;
}
