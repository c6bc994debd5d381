#include "cli/search/ranking.h"

#include <math.h>
#include <stdlib.h>

bool ranking_dominates(const struct ranked *a, const struct ranked *b, uint32_t costs)
{
	bool better = false;
	if (a->violation > 0 || b->violation > 0)
		return a->violation < b->violation;
	for (uint32_t i = 0; i < costs; i++) {
		if (a->costs[i] > b->costs[i])
			return false;
		better |= a->costs[i] < b->costs[i];
	}
	return better;
}

static void swap(struct ranked *a, struct ranked *b)
{
	const struct ranked t = *a;
	*a = *b;
	*b = t;
}

/* Moves the items of the next front to the beginning, in their order, and returns their number. */
static uint32_t take_front(struct ranked *items, uint32_t count, uint32_t costs, uint32_t front)
{
	uint32_t taken = 0;
	for (uint32_t i = 0; i < count; i++) {
		bool dominated = false;
		for (uint32_t k = 0; k < count && !dominated; k++)
			dominated = ranking_dominates(&items[k], &items[i], costs);
		items[i].front = dominated ? UINT32_MAX : front;
	}
	for (uint32_t i = 0; i < count; i++) {
		if (items[i].front != front)
			continue;
		for (uint32_t k = i; k > taken; k--)
			swap(&items[k], &items[k - 1]);
		taken++;
	}
	return taken;
}

static int by_number(const struct ranked *a, const struct ranked *b)
{
	if (a->trial != b->trial)
		return a->trial < b->trial ? -1 : 1;
	return (a->step > b->step) - (a->step < b->step);
}

static int compare_costs(const struct ranked *a, const struct ranked *b, uint32_t cost)
{
	if (a->costs[cost] != b->costs[cost])
		return a->costs[cost] < b->costs[cost] ? -1 : 1;
	return by_number(a, b);
}

/* An insertion sort: the number of the cost is no part of the items. */
static void sort_by_cost(struct ranked *items, uint32_t count, uint32_t cost)
{
	for (uint32_t i = 1; i < count; i++)
		for (uint32_t k = i; k > 0 && compare_costs(&items[k], &items[k - 1], cost) < 0; k--)
			swap(&items[k], &items[k - 1]);
}

static int by_crowding(const void *a, const void *b)
{
	const struct ranked *x = a, *y = b;
	if (x->crowding != y->crowding)
		return x->crowding > y->crowding ? -1 : 1;
	return by_number(x, y);
}

/* The outermost of a front come first, then those with the most room around them. */
static void spread(struct ranked *items, uint32_t count, uint32_t costs)
{
	for (uint32_t i = 0; i < count; i++)
		items[i].crowding = 0;
	for (uint32_t c = 0; c < costs; c++) {
		sort_by_cost(items, count, c);
		const double range = items[count - 1].costs[c] - items[0].costs[c];
		items[0].crowding = items[count - 1].crowding = INFINITY;
		for (uint32_t i = 1; i + 1 < count && range > 0 && isfinite(range); i++)
			items[i].crowding += (items[i + 1].costs[c] - items[i - 1].costs[c]) / range;
	}
	qsort(items, count, sizeof *items, by_crowding);
}

static int by_one_cost(const void *a, const void *b)
{
	const struct ranked *x = a, *y = b;
	if (x->violation != y->violation)
		return x->violation < y->violation ? -1 : 1;
	return compare_costs(x, y, 0);
}

void ranking_sort(struct ranked *items, uint32_t count, uint32_t costs)
{
	for (uint32_t i = 0; i < count; i++)
		for (uint32_t c = 0; c < costs; c++)
			items[i].costs[c] = isnan(items[i].costs[c]) ? INFINITY : items[i].costs[c];
	if (costs == 1) {
		qsort(items, count, sizeof *items, by_one_cost);
		for (uint32_t i = 0; i < count; i++)
			items[i].front = i > 0 && by_one_cost(&items[i], &items[0]) != 0 ? i : 0;
		return;
	}
	for (uint32_t done = 0, front = 0; done < count; front++) {
		const uint32_t taken = take_front(items + done, count - done, costs, front);
		spread(items + done, taken, costs);
		done += taken;
	}
}
