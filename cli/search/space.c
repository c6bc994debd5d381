#include "cli/search/space.h"

#include <math.h>
#include <stdio.h>

/* Values of a range print with as many digits as a person would write: the shortest text that reads
 * back to within this share of the value. */
#define SAME_SHARE   1e-6
#define DIGITS_LEAST 3
#define DIGITS_MOST  17

static double clamp(double x, double low, double high)
{
	return fmin(fmax(x, low), high);
}

double space_place(const struct space_dim *d, double x)
{
	if (d->max <= d->min)
		return 0;
	return d->log ? log(x / d->min) / log(d->max / d->min) : (x - d->min) / (d->max - d->min);
}

double space_at(const struct space_dim *d, double place)
{
	const double u = clamp(place, 0, 1);
	double x = d->log ? d->min * exp(u * log(d->max / d->min)) : d->min + u * (d->max - d->min);
	if (d->step > 0)
		x = d->min + d->step * floor(clamp((x - d->min) / d->step + 0.5, 0, floor((d->max - d->min) / d->step + SAME_SHARE)));
	return clamp(d->integer ? round(x) : x, d->min, d->max);
}

double space_draw(const struct space_dim *d, struct prng *r)
{
	return d->choices_count ? (double)prng_below(r, d->choices_count) : space_at(d, prng_unit(r));
}

bool space_counts(const struct space *s, const struct space_point *p, uint32_t i)
{
	const struct space_dim *d = &s->dims[i];
	return d->when == SPACE_ALWAYS || (!isnan(p->x[d->when]) && d->when_choices >> (uint32_t)p->x[d->when] & 1);
}

bool space_equal(const struct space *s, const struct space_point *a, const struct space_point *b)
{
	for (uint32_t i = 0; i < s->count; i++)
		if (a->x[i] != b->x[i] && !(isnan(a->x[i]) && isnan(b->x[i])))
			return false;
	return true;
}

void space_text(const struct space_dim *d, double x, char *out, size_t bytes)
{
	double back = NAN;
	if (d->choices_count) {
		snprintf(out, bytes, "%s", d->choices[(uint32_t)x]);
		return;
	}
	if (d->integer) {
		snprintf(out, bytes, "%.0f", x);
		return;
	}
	for (int digits = DIGITS_LEAST; digits <= DIGITS_MOST && !(fabs(back - x) <= fabs(x) * SAME_SHARE); digits++) {
		snprintf(out, bytes, "%.*g", digits, x);
		if (sscanf(out, "%lf", &back) != 1)
			return;
	}
}

/* --- As a grid */

uint64_t space_values(const struct space_dim *d)
{
	if (d->choices_count)
		return d->choices_count;
	if (d->max <= d->min)
		return 1;
	const double step = d->step > 0 ? d->step : d->integer && !d->log ? 1 : 0;
	return step > 0 ? (uint64_t)floor((d->max - d->min) / step + SAME_SHARE) + 1 : 0;
}

static double grid_value(const struct space_dim *d, uint64_t i)
{
	return d->choices_count ? (double)i : fmin(d->min + (double)i * (d->step > 0 ? d->step : 1), d->max);
}

/* Visits the points in order, until number `stop`. Dimensions that do not count have one value. */
static uint64_t walk(const struct space *s, uint32_t dim, uint64_t seen, uint64_t stop, struct space_point *p)
{
	if (dim == s->count)
		return seen + 1;
	const bool counts = space_counts(s, p, dim);
	const uint64_t values = counts ? space_values(&s->dims[dim]) : 1;
	for (uint64_t i = 0; i < values && seen <= stop; i++) {
		p->x[dim] = counts ? grid_value(&s->dims[dim], i) : NAN;
		seen = walk(s, dim + 1, seen, stop, p);
	}
	return seen;
}

uint64_t space_points(const struct space *s)
{
	struct space_point p;
	double all = 1;
	for (uint32_t i = 0; i < s->count; i++)
		all *= (double)space_values(&s->dims[i]);
	return all > 0 && all < UINT32_MAX ? walk(s, 0, 0, UINT32_MAX, &p) : 0;
}

void space_grid_point(const struct space *s, uint64_t i, struct space_point *out)
{
	(void)walk(s, 0, 0, i, out);
}
