#include "worker/data/quality/ranking.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "worker/data/quality/ordered.h"

/* A record of the sort: the group, then the key of ordered.h. */
enum { RECORD_GROUP, RECORD_KEY, RECORD_WORDS };

struct ranker {
	struct ranking *out;
	double weight;                         /* of the groups with both classes */
	double discounts[WEIR_RANK_K_MAX + 1]; /* [p]: sum of 1 / log2(1 + place) over places 1 .. p */
};

/* Probability that r of `rows` rows, drawn at random, have none of the `positive` ones. */
static double chance_of_none(uint64_t rows, uint64_t positive, uint64_t r)
{
	double chance = 1;
	if (r > rows - positive)
		return 0;
	for (uint64_t i = 0; i < r; i++)
		chance *= (double)(rows - positive - i) / (double)(rows - i);
	return chance;
}

/* Adds the list of n rows, of which `positive` are positive, to the sums of one k. */
static void add_list(const struct ranker *r, struct ranking_at *at, const uint64_t *keys, size_t n, uint64_t positive)
{
	double gain = 0, found = 0, none = 1;
	uint64_t before = 0; /* rows of higher scores */
	for (size_t end = n; end > 0 && before < at->k;) {
		const struct tie t = tie_before(keys, RECORD_WORDS, &end);
		if (t.rows == 0)
			continue;
		const uint64_t room = at->k - before, inside = t.rows < room ? t.rows : room;
		const double label = (double)t.positive_rows / (double)t.rows;
		gain += label * (r->discounts[before + inside] - r->discounts[before]);
		found += label * (double)inside;
		none *= chance_of_none(t.rows, t.positive_rows, inside);
		before += inside;
	}
	at->ndcg += gain / r->discounts[positive < at->k ? positive : at->k];
	at->recall += found / (double)positive;
	at->hit_rate += 1 - none;
}

static void add_group(struct ranker *r, const uint64_t *keys, size_t n)
{
	struct ranking *out = r->out;
	const struct tie all = tie_of_all(keys, RECORD_WORDS, n);
	out->groups += all.rows > 0;
	if (all.positives > 0 && all.negatives > 0) {
		const double weight = all.positives + all.negatives;
		out->mixed++;
		out->gauc += weight * ordered_auc(keys, RECORD_WORDS, n);
		r->weight += weight;
	}
	if (all.positive_rows == 0)
		return;
	out->lists++;
	for (uint32_t i = 0; i < out->at_count; i++)
		add_list(r, &out->at[i], keys, n, all.positive_rows);
}

/* Turns sums into means: 0 / 0 is the NaN of a figure without groups. */
static void take_means(struct ranker *r, bool not_a_number)
{
	struct ranking *out = r->out;
	const double lists = not_a_number ? (double)NAN : (double)out->lists;
	out->gauc /= not_a_number ? (double)NAN : r->weight;
	for (uint32_t i = 0; i < out->at_count; i++) {
		out->at[i].ndcg /= lists;
		out->at[i].recall /= lists;
		out->at[i].hit_rate /= lists;
	}
}

static void rate_sorted(struct ranker *r, const uint64_t *records, size_t n)
{
	for (size_t i = 0; i < n;) {
		const size_t first = i;
		const uint64_t group = records[first * RECORD_WORDS + RECORD_GROUP];
		while (i < n && records[i * RECORD_WORDS + RECORD_GROUP] == group)
			i++;
		add_group(r, &records[first * RECORD_WORDS + RECORD_KEY], i - first);
	}
}

/* Writes the records of the rows with a group. Returns their number. */
static size_t fill_records(const struct scored *s, uint64_t *records, bool *not_a_number)
{
	size_t n = 0;
	for (size_t i = 0; i < s->n; i++) {
		const size_t row = scored_row(s, i);
		if (s->groups[row] == 0)
			continue;
		records[n * RECORD_WORDS + RECORD_GROUP] = s->groups[row];
		records[n * RECORD_WORDS + RECORD_KEY] = ordered_key(s, row);
		*not_a_number |= isnan(scored_score(s, row));
		n++;
	}
	return n;
}

weir_status ranking_rate(struct ranking *out, const struct scored *s, const uint32_t *places, uint32_t count)
{
	assert(count <= WEIR_RANK_PLACES_MAX);
	struct ranker r = {.out = out};
	uint64_t *memory = malloc((2 * RECORD_WORDS * s->n + 1) * sizeof *memory), *scratch = memory + RECORD_WORDS * s->n;
	bool not_a_number = false;
	*out = (struct ranking){.at_count = count};
	if (!memory)
		return WEIR_E_MEMORY;
	for (uint32_t i = 0; i < count; i++) {
		assert(places[i] >= 1 && places[i] <= WEIR_RANK_K_MAX);
		out->at[i].k = places[i];
	}
	for (uint32_t p = 1; p <= WEIR_RANK_K_MAX; p++)
		r.discounts[p] = r.discounts[p - 1] + 1 / log2(1.0 + p);
	const size_t n = fill_records(s, memory, &not_a_number);
	uint64_t *sorted = radix_sort(memory, scratch, n, RECORD_WORDS, RECORD_KEY, ORDERED_SCORE_BIT);
	sorted = radix_sort(sorted, sorted == memory ? scratch : memory, n, RECORD_WORDS, RECORD_GROUP, 0);
	rate_sorted(&r, sorted, n);
	free(memory);
	take_means(&r, not_a_number);
	return WEIR_OK;
}
