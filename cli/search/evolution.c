/* Ageing evolution (Real et al. 2018, arXiv 1802.01548) with crossover. The population is the
 * youngest trials with a result. Each parent is the best of a random sample of it (a tournament).
 * The child takes each value from either parent, and each value mutates with probability
 * 1/dimensions: the place of a number by a normal step, a choice to any choice. */
#include <math.h>
#include <stdlib.h>

#include "cli/search/search_state.h"

#define MUTATION_STEP 0.1 /* standard deviation, of the range */
enum { POPULATION = 20, TOURNAMENT = 5 };

/* The best-ranked member of a sample. order: (count) best first. */
static uint32_t tournament(const struct ranked *order, uint32_t count, struct prng *r)
{
	uint64_t best = count;
	for (uint32_t i = 0; i < TOURNAMENT; i++) {
		const uint64_t drawn = prng_below(r, count);
		best = drawn < best ? drawn : best;
	}
	return order[best].trial;
}

static double mutate(const struct space_dim *d, double x, struct prng *r)
{
	if (d->choices_count || isnan(x))
		return space_draw(d, r);
	return space_at(d, space_place(d, x) + MUTATION_STEP * (double)prng_normal(r));
}

static int by_age(const void *a, const void *b)
{
	const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	return (x < y) - (x > y);
}

/* Leaves the youngest of the ordered trials, in their order. Returns their number. */
static uint32_t keep_youngest(struct ranked *order, uint32_t count)
{
	uint32_t kept = 0, *trials = calloc(count, sizeof *trials);
	if (!trials || count <= POPULATION) {
		free(trials);
		return count;
	}
	for (uint32_t i = 0; i < count; i++)
		trials[i] = order[i].trial;
	qsort(trials, count, sizeof *trials, by_age);
	for (uint32_t i = 0; i < count; i++)
		if (order[i].trial >= trials[POPULATION - 1])
			order[kept++] = order[i];
	free(trials);
	return kept;
}

void sample_evolution(const struct search *s, struct prng *r, struct space_point *out)
{
	const struct space *space = &s->options.space;
	struct ranked *order = calloc(s->trials_count + 1, sizeof *order);
	uint32_t count = order ? search_order(s, order) : 0;
	if (count == 0 || count < s->options.startup) {
		free(order);
		sample_random(s, r, out);
		return;
	}
	count = keep_youngest(order, count);
	const struct space_point *mother = &s->trials[tournament(order, count, r)].point;
	const struct space_point *father = &s->trials[tournament(order, count, r)].point;
	for (uint32_t i = 0; i < space->count; i++) {
		double x = prng_below(r, 2) ? mother->x[i] : father->x[i];
		if (isnan(x) || prng_below(r, space->count) == 0)
			x = mutate(&space->dims[i], x, r);
		out->x[i] = space_counts(space, out, i) ? x : NAN;
	}
	free(order);
}
