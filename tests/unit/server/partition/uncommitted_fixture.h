/* A partition with a log in memory whose entries are committed when the test says so, and the
 * replies to its records. */
#ifndef WEIR_TESTS_UNCOMMITTED_FIXTURE_H
#define WEIR_TESTS_UNCOMMITTED_FIXTURE_H

#include "tests/cmocka_check.h"
#include "tests/manual_clock.h"
#include "tests/unit/server/partition/partition_fixture.h"

/* LAST_CHUNK: elements of the last chunk. */
enum { TIMED_ROWS = ASYNC_DENSE + 1, TIMED_DENSE, SHORT_ROWS, KEY = 10, LAST_CHUNK = 10, TTL_S = 10 };

struct world {
	struct manual_clock clock;
	int64_t now_ns;
	struct fixture f;
	struct log *log;
	bool holds, full; /* full: of the disk next to the log */
	uint64_t appended;
	uint32_t answers;
};

/* A record and its reply. */
struct asked {
	struct world *w;
	struct built built;
	uint32_t answer; /* the number of the reply, from 1; 0: no reply yet */
	weir_status status;
	uint64_t applied, stable, epoch;
	uint32_t staleness, bitmap_bits;
	uint64_t parts; /* of batch 0, for SEAL */
};

void open_world(struct world *w, bool holds);
void close_world(struct world *w);
void submit(struct world *w, struct asked *a, struct built built);
void ask(struct world *w, struct asked *a, struct record r, const struct rows *rows);
void push(struct world *w, struct asked *a, uint32_t unit, uint32_t attempt, uint32_t part);
void seal(struct world *w, struct asked *a, uint32_t unit, uint32_t attempt);
/* Checks that the record became this entry and waits. */
void assert_entry(const struct asked *a, uint64_t index);
/* Begins an epoch and commits everything. */
void begin(struct world *w, uint64_t epoch);
/* Checks that the record became no entry and waits. */
void assert_waits(const struct asked *a, uint64_t appended);
void assert_told(struct asked *a, weir_status status);
float row(struct world *w);

/* --- Entries made as if the tail were applied */

/* A push of the batch at `place` in the training, from 1. */
struct record push_at(uint32_t place, uint32_t batch, uint32_t part);
void push_timed(struct world *w, struct asked *a, uint32_t place, uint32_t part, float v);

#endif
