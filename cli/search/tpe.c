/* Tree-structured Parzen estimator (Bergstra et al. 2011), multivariate (Watanabe 2023,
 * arXiv 2304.11127).
 *
 * Trials are compared by their best results, after whichever step: what a search reports of them.
 * The best min(ceil(0.1 n), 25) of n are good, the others bad; trials that still run count
 * as bad, so that parallel trials differ. Each set is a mixture of kernels, one around each result
 * and one, the prior, over the whole space. A kernel is a product over the dimensions: a normal
 * around the place of a number, cut to the range, with a standard deviation of
 * 0.2 (n+1)^(-1/(d+4)); for a choice, half of the probability on the result's choice and half
 * spread over all. A dimension that a result does not have is uniform. Of 24 candidates drawn from
 * the good mixture, the one with the largest ratio good/bad is chosen.
 */
#include <math.h>
#include <stdlib.h>

#include "cli/search/search_state.h"

#define GOOD_SHARE 0.1
#define WIDTH      0.2
enum { GOOD_MOST = 25, CANDIDATES = 24, NORMAL_DRAWS = 64 };

/* Kernels around these points, and the prior. */
struct mixture {
	const struct space *space;
	const struct space_point **points; /* (count) */
	uint32_t count;
	double width;
};

static double width_of(const struct space *space, uint32_t count)
{
	return WIDTH * pow(count + 1, -1.0 / (space->count + 4));
}

static double normal_cdf(double z)
{
	return 0.5 * (1 + erf(z / sqrt(2)));
}

/* --- Drawing */

static double draw_near(const struct space_dim *d, double x, double width, struct prng *r)
{
	const double at = space_place(d, x);
	for (uint32_t i = 0; i < NORMAL_DRAWS; i++) {
		const double place = at + width * (double)prng_normal(r);
		if (place >= 0 && place <= 1)
			return space_at(d, place);
	}
	return x;
}

static double draw_choice(const struct space_dim *d, double x, struct prng *r)
{
	return prng_below(r, 2) ? x : space_draw(d, r);
}

static void draw(const struct mixture *m, struct prng *r, struct space_point *out)
{
	const uint64_t kernel = prng_below(r, m->count + 1);
	for (uint32_t i = 0; i < m->space->count; i++) {
		const struct space_dim *d = &m->space->dims[i];
		const double x = kernel < m->count ? m->points[kernel]->x[i] : NAN;
		if (!space_counts(m->space, out, i))
			out->x[i] = NAN;
		else if (isnan(x))
			out->x[i] = space_draw(d, r);
		else
			out->x[i] = d->choices_count ? draw_choice(d, x, r) : draw_near(d, x, m->width, r);
	}
}

/* --- Densities */

static double log_kernel(const struct space_dim *d, double around, double x, double width)
{
	if (d->choices_count) {
		const double spread = 1.0 / d->choices_count;
		return log(isnan(around) ? spread : (spread + (around == x)) / 2);
	}
	if (isnan(around))
		return 0;
	const double at = space_place(d, around), z = (space_place(d, x) - at) / width;
	return -0.5 * z * z - log(width * sqrt(2 * M_PI)) - log(normal_cdf((1 - at) / width) - normal_cdf(-at / width));
}

static double log_density(const struct mixture *m, const struct space_point *p)
{
	double sum = 0, most = -INFINITY;
	for (uint32_t k = 0; k <= m->count; k++) {
		double part = 0;
		for (uint32_t i = 0; i < m->space->count; i++)
			if (!isnan(p->x[i]))
				part += log_kernel(&m->space->dims[i], k < m->count ? m->points[k]->x[i] : NAN, p->x[i], m->width);
		if (part > most) {
			sum = sum * exp(most - part) + 1;
			most = part;
		} else {
			sum += exp(part - most);
		}
	}
	return most + log(sum / (m->count + 1));
}

/* --- The choice */

/* Points of trials with results, best first, then of those without. Returns the number of the
 * former. */
static uint32_t collect(const struct search *s, struct ranked *order, const struct space_point **out, uint32_t *all)
{
	const uint32_t told = search_best(s, order);
	*all = 0;
	for (uint32_t i = 0; i < told; i++)
		out[(*all)++] = &s->trials[order[i].trial].point;
	for (uint32_t i = 0; i < s->trials_count; i++)
		if (!search_last(&s->trials[i]))
			out[(*all)++] = &s->trials[i].point;
	return told;
}

static void choose(const struct mixture *good, const struct mixture *bad, struct prng *r, struct space_point *out)
{
	double most = -INFINITY;
	for (uint32_t i = 0; i < CANDIDATES; i++) {
		struct space_point candidate;
		draw(good, r, &candidate);
		const double ratio = log_density(good, &candidate) - log_density(bad, &candidate);
		if (i > 0 && !(ratio > most))
			continue;
		most = ratio;
		*out = candidate;
	}
}

void sample_tpe(const struct search *s, struct prng *r, struct space_point *out)
{
	const struct space *space = &s->options.space;
	struct ranked *order = calloc(s->trials_count + 1, sizeof *order);
	const struct space_point **points = calloc(s->trials_count + 1, sizeof *points);
	uint32_t all = 0;
	const uint32_t told = order && points ? collect(s, order, points, &all) : 0;
	if (told > 0 && told >= s->options.startup) {
		const uint32_t tenth = (uint32_t)ceil(GOOD_SHARE * told), count = tenth < GOOD_MOST ? tenth : GOOD_MOST;
		const struct mixture good = {space, points, count, width_of(space, count)};
		const struct mixture bad = {space, points + count, all - count, width_of(space, all - count)};
		choose(&good, &bad, r, out);
	} else {
		sample_random(s, r, out);
	}
	free(order);
	free(points);
}
