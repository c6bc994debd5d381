#include "common/base/hyperloglog.h"

#include <math.h>

#define TAIL_BITS (64u - HYPERLOGLOG_BITS)

void hyperloglog_add(struct hyperloglog *h, uint64_t hash)
{
	uint8_t *r = &h->registers[hash >> TAIL_BITS];
	const uint64_t tail = hash << HYPERLOGLOG_BITS;
	const unsigned rank = tail == 0 ? TAIL_BITS + 1 : (unsigned)__builtin_clzll(tail) + 1;
	if (rank > *r)
		*r = (uint8_t)rank;
}

void hyperloglog_merge(struct hyperloglog *h, const struct hyperloglog *other)
{
	for (uint32_t i = 0; i < HYPERLOGLOG_REGISTERS; i++)
		if (other->registers[i] > h->registers[i])
			h->registers[i] = other->registers[i];
}

/* The share of empty registers tells of small counts (Ertl, equation 15). */
static double sigma(double x)
{
	double weight = 1, sum = x, before;
	if (x == 1)
		return INFINITY;
	do {
		x *= x;
		before = sum;
		sum += x * weight;
		weight += weight;
	} while (sum != before);
	return sum;
}

/* The share of full registers tells of very large ones (Ertl, equation 17). */
static double tau(double x)
{
	double weight = 1, sum = 1 - x, before;
	if (x == 0 || x == 1)
		return 0;
	do {
		x = sqrt(x);
		before = sum;
		weight /= 2;
		sum -= (1 - x) * (1 - x) * weight;
	} while (sum != before);
	return sum / 3;
}

double hyperloglog_count(const struct hyperloglog *h)
{
	const double m = HYPERLOGLOG_REGISTERS;
	uint32_t having[TAIL_BITS + 2] = {0}; /* number of registers with each value */
	for (uint32_t i = 0; i < HYPERLOGLOG_REGISTERS; i++)
		having[h->registers[i]]++;
	double z = m * tau(1 - having[TAIL_BITS + 1] / m);
	for (uint32_t k = TAIL_BITS; k >= 1; k--)
		z = (z + having[k]) / 2;
	z += m * sigma(having[0] / m);
	return m * m / (2 * M_LN2 * z);
}
