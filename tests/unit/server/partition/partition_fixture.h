/* One partition with four tables, and its last reply. */
#ifndef TEST_PARTITION_FIXTURE_H
#define TEST_PARTITION_FIXTURE_H

#include "server/partition/partition.h"
#include "tests/unit/server/records.h"

enum { ASYNC_ROWS = 1, SYNC_DENSE = 2, SYNC_ROWS = 3, ASYNC_DENSE = 4 };
#define ROW_WIDTH      4u
#define DENSE_ELEMENTS 1000u

struct fixture {
	struct partition *p;
	struct partition_reply reply;
	uint64_t bitmap[64];
	uint32_t replies;
	char text[WEIR_ERROR_TEXT_BYTES];
};

struct fixture_options {
	weir_optimizer_kind optimizer;
	uint32_t not_finite;
	bool staleness_rate; /* of ASYNC_ROWS */
};
void fixture_open(struct fixture *f, const struct fixture_options *options);
/* To f->p; fixture_open calls it. */
void fixture_add_tables(struct fixture *f, const struct fixture_options *options);
void fixture_close(struct fixture *f);
void fixture_failed(void *host, const weir_error *err); /* partition_host_ops.failed: the test fails */
weir_status fixture_submit(struct fixture *f, const struct built *b);
/* Builds, submits, frees. */
weir_status fixture_push(struct fixture *f, const struct record *r, const struct rows *sections, uint32_t count);
weir_status fixture_seal(struct fixture *f, uint32_t pass, uint32_t unit, uint32_t attempt);
weir_status fixture_retire(struct fixture *f, uint32_t pass, uint32_t unit);
weir_status fixture_retire_one(struct fixture *f, uint32_t pass, uint32_t unit);
weir_status fixture_close_step(struct fixture *f, uint64_t step, const uint32_t (*ids)[3], uint32_t included, uint32_t dropped);
/* Value 0 of a row of ASYNC_ROWS or SYNC_ROWS. */
float fixture_row(struct fixture *f, uint32_t table, uint64_t key);
float fixture_dense(struct fixture *f, uint32_t table, size_t element);
/* Hash of all rows: values, slots, versions. */
uint64_t fixture_hash(struct fixture *f);

/* A push of one row of value v (its first element) to a row table. */
struct one_row {
	uint64_t key;
	float values[ROW_WIDTH];
	struct rows rows;
};
struct rows one_row(struct one_row *x, uint16_t table, uint64_t key, float v);
struct record push_record(uint32_t unit, uint32_t attempt, uint32_t batch, uint32_t part, uint64_t step);

#endif
