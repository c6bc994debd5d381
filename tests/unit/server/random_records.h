/* Random records for the tables of partition_fixture.h. */
#ifndef TEST_RANDOM_RECORDS_H
#define TEST_RANDOM_RECORDS_H

#include "common/base/prng.h"
#include "tests/unit/server/records.h"

uint32_t random_below(struct prng *random, uint32_t n);

#define RANDOM_ROWS_MAX 2000u

/* r with up to rows_max rows of keys below keys_end. Keys may repeat: such an entry applies as a
 * whole or not at all. */
struct built random_rows(struct prng *random, const struct record *r, uint16_t table, uint32_t rows_max, uint32_t keys_end);
struct built random_dense(struct prng *random, const struct record *r, uint16_t table);
/* Evicts a part of the keys. */
struct built random_eviction(struct prng *random, uint16_t table, uint32_t keys_end);
/* Closes with batches of six units of pass 1. */
struct built random_close(struct prng *random, uint64_t step);
struct built random_unit_change(struct prng *random); /* a seal, or at times a retirement */

#endif
