/* How much each dimension of a space explains of the results: fANOVA (Hutter et al. 2014), the
 * variance of the marginal prediction of one dimension over the variance of the whole prediction,
 * both over the whole space, of a random forest (Breiman 2001). Interactions between dimensions
 * belong to no single one, so the shares add up to at most 1. */
#ifndef WEIR_SEARCH_IMPORTANCE_H
#define WEIR_SEARCH_IMPORTANCE_H

#include "cli/search/space.h"

/* points, values: (count); values are finite. out: (space->count) shares from 0 to 1; all 0 with
 * fewer than four points, or if all values are equal. False: out of memory. */
bool importance(const struct space *space, const struct space_point *points, const double *values, uint32_t count, uint64_t seed,
                double *out);

#endif
