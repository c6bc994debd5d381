#include "cli/search/importance.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TREES = 48, DEPTH_MOST = 12, LEAF_LEAST = 2, POINTS_LEAST = 4 };

/* The space is a box with sides [0, 1]. Choice i of c is at (i + 1/2) / c; a dimension that does
 * not count is at 1/2. */
struct box {
	double low[SPACE_DIMS_MAX], high[SPACE_DIMS_MAX];
};

struct leaf {
	struct box box;
	double value;
};

struct tree {
	struct leaf *leaves; /* (leaves_count) */
	uint32_t leaves_count;
};

struct sample {
	double x, value;
};

struct grower {
	const struct space *space;
	const double *x; /* (count, space->count) */
	const double *values;
	struct prng r;
	struct tree *tree;
	struct sample *sorted; /* (count) scratch */
};

static double side(const struct space_dim *d, double x)
{
	if (isnan(x))
		return 0.5;
	return d->choices_count ? (x + 0.5) / d->choices_count : space_place(d, x);
}

/* --- A tree */

static double mean_of(const struct grower *g, const uint32_t *rows, uint32_t n)
{
	double sum = 0;
	for (uint32_t i = 0; i < n; i++)
		sum += g->values[rows[i]];
	return sum / n;
}

static int by_x(const void *a, const void *b)
{
	const struct sample *x = a, *y = b;
	return (x->x > y->x) - (x->x < y->x);
}

/* Half-way between two neighbours, or at the lower one where nothing lies between them: the higher
 * one must be above the cut. */
static double between(double low, double high)
{
	const double middle = (low + high) / 2;
	return middle < high ? middle : low;
}

/* Finds the best cut of one dimension: the one that leaves the least squared error. Returns what it
 * takes away from the sum of squares; -INFINITY: no cut. */
static double cut_dimension(struct grower *g, const uint32_t *rows, uint32_t n, uint32_t dim, double *cut)
{
	double all = 0, below = 0, most = -INFINITY;
	for (uint32_t i = 0; i < n; i++) {
		g->sorted[i] = (struct sample){g->x[(size_t)rows[i] * g->space->count + dim], g->values[rows[i]]};
		all += g->sorted[i].value;
	}
	qsort(g->sorted, n, sizeof *g->sorted, by_x);
	for (uint32_t i = 1; i < n; i++) {
		const double above = all - (below += g->sorted[i - 1].value);
		if (i < LEAF_LEAST || n - i < LEAF_LEAST || g->sorted[i].x <= g->sorted[i - 1].x)
			continue;
		const double taken = below * below / i + above * above / (n - i);
		*cut = taken > most ? between(g->sorted[i - 1].x, g->sorted[i].x) : *cut;
		most = fmax(most, taken);
	}
	return most;
}

/* Finds the best cut over a random half of the dimensions. Returns false if no cut helps. */
static bool find_cut(struct grower *g, const uint32_t *rows, uint32_t n, uint32_t *dim, double *cut)
{
	double most = -INFINITY;
	for (uint32_t d = 0; d < g->space->count; d++) {
		double at = 0;
		if (g->space->count > 1 && prng_below(&g->r, 2))
			continue;
		const double taken = cut_dimension(g, rows, n, d, &at);
		if (taken > most) {
			most = taken;
			*dim = d;
			*cut = at;
		}
	}
	return isfinite(most);
}

/* Puts the rows below the cut first and returns their number. */
static uint32_t part(const struct grower *g, uint32_t *rows, uint32_t n, uint32_t dim, double cut)
{
	uint32_t below = 0;
	for (uint32_t i = 0; i < n; i++) {
		if (g->x[(size_t)rows[i] * g->space->count + dim] > cut)
			continue;
		const uint32_t row = rows[i];
		rows[i] = rows[below];
		rows[below++] = row;
	}
	return below;
}

static void grow(struct grower *g, uint32_t *rows, uint32_t n, const struct box *box, uint32_t depth)
{
	uint32_t dim = 0;
	double cut = 0;
	if (depth == DEPTH_MOST || n < 2 * LEAF_LEAST || !find_cut(g, rows, n, &dim, &cut)) {
		g->tree->leaves[g->tree->leaves_count++] = (struct leaf){.box = *box, .value = mean_of(g, rows, n)};
		return;
	}
	const uint32_t below = part(g, rows, n, dim, cut);
	struct box half = *box;
	half.high[dim] = cut;
	grow(g, rows, below, &half, depth + 1);
	half = *box;
	half.low[dim] = cut;
	grow(g, rows + below, n - below, &half, depth + 1);
}

/* --- Variances */

static double volume(const struct box *b, uint32_t dims, uint32_t except)
{
	double v = 1;
	for (uint32_t d = 0; d < dims; d++)
		if (d != except)
			v *= b->high[d] - b->low[d];
	return v;
}

static double variance(const struct tree *t, uint32_t dims, double *mean)
{
	double squares = 0;
	*mean = 0;
	for (uint32_t i = 0; i < t->leaves_count; i++) {
		const double v = volume(&t->leaves[i].box, dims, UINT32_MAX);
		*mean += v * t->leaves[i].value;
		squares += v * t->leaves[i].value * t->leaves[i].value;
	}
	return squares - *mean * *mean;
}

/* The marginal of a dimension is constant between two borders of leaves. */
static double marginal_variance(const struct tree *t, uint32_t dims, uint32_t dim, double mean)
{
	double from = 0, sum = 0;
	while (from < 1) {
		double to = 1, value = 0;
		for (uint32_t i = 0; i < t->leaves_count; i++) {
			const double high = t->leaves[i].box.high[dim];
			to = high > from && high < to ? high : to;
		}
		for (uint32_t i = 0; i < t->leaves_count; i++)
			if (t->leaves[i].box.low[dim] <= from && t->leaves[i].box.high[dim] >= to)
				value += volume(&t->leaves[i].box, dims, dim) * t->leaves[i].value;
		sum += (to - from) * (value - mean) * (value - mean);
		from = to;
	}
	return sum;
}

static void add_tree(struct grower *g, uint32_t *rows, uint32_t count, double *shares, uint32_t *trees)
{
	const uint32_t dims = g->space->count;
	struct box whole;
	double mean;
	for (uint32_t d = 0; d < dims; d++) {
		whole.low[d] = 0;
		whole.high[d] = 1;
	}
	for (uint32_t i = 0; i < count; i++)
		rows[i] = (uint32_t)prng_below(&g->r, count);
	g->tree->leaves_count = 0;
	grow(g, rows, count, &whole, 0);
	const double all = variance(g->tree, dims, &mean);
	if (!(all > 0))
		return;
	for (uint32_t d = 0; d < dims; d++)
		shares[d] += fmin(marginal_variance(g->tree, dims, d, mean) / all, 1);
	++*trees;
}

bool importance(const struct space *space, const struct space_point *points, const double *values, uint32_t count, uint64_t seed,
                double *out)
{
	const uint32_t dims = space->count;
	memset(out, 0, dims * sizeof *out);
	if (count < POINTS_LEAST || dims == 0)
		return true;
	struct tree tree = {.leaves = calloc(count, sizeof *tree.leaves)};
	double *x = calloc((size_t)count * dims, sizeof *x);
	uint32_t *rows = calloc(count, sizeof *rows), trees = 0;
	struct grower g = {.space = space, .x = x, .values = values, .tree = &tree, .sorted = calloc(count, sizeof *g.sorted)};
	prng_seed(&g.r, seed);
	const bool made = tree.leaves && x && rows && g.sorted;
	for (size_t i = 0; made && i < (size_t)count * dims; i++)
		x[i] = side(&space->dims[i % dims], points[i / dims].x[i % dims]);
	for (uint32_t i = 0; made && i < TREES; i++)
		add_tree(&g, rows, count, out, &trees);
	for (uint32_t d = 0; trees && d < dims; d++)
		out[d] /= trees;
	free(tree.leaves);
	free(x);
	free(rows);
	free(g.sorted);
	return made;
}
