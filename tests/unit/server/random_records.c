#include "tests/unit/server/random_records.h"

#include "tests/unit/server/partition/partition_fixture.h"

uint32_t random_below(struct prng *random, uint32_t n)
{
	return (uint32_t)prng_below(random, n);
}

static void draw_values(struct prng *random, float *out, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		out[i] = (float)random_below(random, 100) - 50;
}

/* Sorts the keys as a client does and removes duplicates. Returns the new count. */
static uint32_t in_order(uint64_t *keys, uint32_t n)
{
	uint32_t distinct = 0;
	for (uint32_t i = 1; i < n; i++)
		for (uint32_t k = i; k > 0 && keys[k - 1] > keys[k]; k--) {
			const uint64_t key = keys[k];
			keys[k] = keys[k - 1];
			keys[k - 1] = key;
		}
	for (uint32_t i = 0; i < n; i++)
		if (distinct == 0 || keys[i] != keys[distinct - 1])
			keys[distinct++] = keys[i];
	return distinct;
}

struct built random_rows(struct prng *random, const struct record *r, uint16_t table, uint32_t rows_max, uint32_t keys_end)
{
	uint64_t keys[RANDOM_ROWS_MAX];
	float values[RANDOM_ROWS_MAX * ROW_WIDTH];
	struct rows rows = {
	    .table = table, .width = ROW_WIDTH, .count = 1 + random_below(random, rows_max), .keys = keys, .values = values};
	for (uint32_t i = 0; i < rows.count; i++)
		keys[i] = random_below(random, keys_end);
	if (keys[0] % 2)
		rows.count = in_order(keys, rows.count);
	rows.values_count = rows.count * ROW_WIDTH;
	draw_values(random, values, rows.count * ROW_WIDTH);
	return records_build(r, &rows, 1);
}

struct built random_dense(struct prng *random, const struct record *r, uint16_t table)
{
	static const uint64_t chunk = 0;
	float values[DENSE_ELEMENTS];
	const struct rows rows = {
	    .table = table, .width = WEIR_CHUNK, .count = 1, .keys = &chunk, .values = values, .values_count = DENSE_ELEMENTS};
	draw_values(random, values, DENSE_ELEMENTS);
	return records_build(r, &rows, 1);
}

struct built random_eviction(struct prng *random, uint16_t table, uint32_t keys_end)
{
	uint64_t keys[RANDOM_ROWS_MAX];
	struct rows rows = {.table = table, .width = ROW_WIDTH, .keys = keys};
	for (uint64_t key = random_below(random, 4); key < keys_end; key += 1 + random_below(random, 4))
		keys[rows.count++] = key;
	return records_build(&(struct record){.kind = RECORD_EVICT}, &rows, 1);
}

struct built random_close(struct prng *random, uint64_t step)
{
	uint32_t ids[3][3];
	const uint32_t included = random_below(random, 3), dropped = random_below(random, 2), unit = random_below(random, 6);
	for (uint32_t i = 0; i < 3; i++) {
		ids[i][0] = 1;
		ids[i][1] = (unit + i) % 6;
		ids[i][2] = random_below(random, 4);
	}
	return records_build_close(step, (const uint32_t(*)[3])ids, included, dropped);
}

struct built random_unit_change(struct prng *random)
{
	struct record r = {.kind = RECORD_SEAL, .pass = 1, .unit = random_below(random, 6), .attempt = 1 + random_below(random, 4)};
	if (random_below(random, 3) == 0)
		r = (struct record){
		    .kind = RECORD_RETIRE, .attempt = 1, .retire.unit_key = (uint64_t)1 << 32 | (6 + random_below(random, 6))};
	if (random_below(random, 12) == 0)
		r = (struct record){.kind = RECORD_RETIRE, .pass = 1, .unit = random_below(random, 2)};
	return records_build(&r, NULL, 0);
}
