/* Orders results, the best first. Costs are minimized. A result that keeps all constraints comes
 * before one that does not; of two that do not, the smaller violation (Deb 2000). Several costs are
 * ordered by fronts of results that no other one dominates, and within a front by the crowding
 * distance (NSGA-II, Deb et al. 2002). A cost that is not a number counts as infinite. */
#ifndef WEIR_SEARCH_RANKING_H
#define WEIR_SEARCH_RANKING_H

#include <stdbool.h>
#include <stdint.h>

#define RANKING_COSTS_MAX 4u

struct ranked {
	uint32_t trial, step; /* which result; of equal ones the smaller numbers come first */
	double costs[RANKING_COSTS_MAX];
	double violation; /* by how much constraints are broken; 0: all are kept */
	uint32_t front;   /* set by ranking_sort: 0 is the Pareto front of what keeps all constraints */
	double crowding;  /* set by ranking_sort */
};

/* Sorts items (count) of `costs` costs each. */
void ranking_sort(struct ranked *items, uint32_t count, uint32_t costs);
/* Whether a is at least as good as b in every cost, and better in one. */
bool ranking_dominates(const struct ranked *a, const struct ranked *b, uint32_t costs);

#endif
