/* HyperLogLog: how many different values a stream has, in constant memory (Flajolet, Fusy,
 * Gandouet, Meunier 2007), with Ertl's estimator, which needs no tables for small and large counts
 * (Ertl 2017, "New cardinality estimation algorithms for HyperLogLog sketches", algorithm 6).
 *
 * 2^14 registers of a byte: the standard error is 1.04 / sqrt(2^14), 0.8 %. */
#ifndef WEIR_HYPERLOGLOG_H
#define WEIR_HYPERLOGLOG_H

#include <stdint.h>

#define HYPERLOGLOG_BITS      14u
#define HYPERLOGLOG_REGISTERS (1u << HYPERLOGLOG_BITS)

/* All zero: no value. */
struct hyperloglog {
	/* For the hashes with one value of the first bits: the longest run of zeros after those bits,
	 * plus 1; 0: no such hash. */
	uint8_t registers[HYPERLOGLOG_REGISTERS];
};

/* Adds a value by its hash, of which all 64 bits must be well mixed. */
void hyperloglog_add(struct hyperloglog *h, uint64_t hash);
/* Adds all values of another one. */
void hyperloglog_merge(struct hyperloglog *h, const struct hyperloglog *other);
/* The estimated number of different values. */
double hyperloglog_count(const struct hyperloglog *h);

#endif
