/* The life of a journal with cuts in it, as a list of operations that is always the same, and what its channels hold after any number of them. An
 * operation is one record of the journal, so whatever a crash leaves is what they held after some number of operations, the same for all. */
#ifndef WEIR_TESTS_JOURNAL_HISTORY_H
#define WEIR_TESTS_JOURNAL_HISTORY_H

#include "tests/unit/server/log/journal_fixture.h"

enum { HISTORY_BODY = 700, HISTORY_SEGMENT = 4096, HISTORY_OPS = 72 };

struct history_channel {
	uint64_t first, last; /* in its log; void ones do not count */
	uint64_t cuts;        /* so far */
	uint64_t needed;      /* flushes cover what is below */
	uint8_t cuts_of[FIXTURE_INDEX_MAX];
};
struct history {
	struct history_channel channels[FIXTURE_CHANNELS];
	uint32_t done, durable; /* operations; told to be durable */
};

struct history history_new(void);
uint64_t history_cuts(const struct history *h); /* of all channels */
/* As if the next operation had been done. */
void history_note(struct history *h);
/* Does it on j, which holds h, and notes it. What flushes cover is still in the journal then: */
weir_status history_step(struct history *h, struct journal *j, weir_error *err);
/* lets that go. */
void history_forget(const struct history *h, struct journal *j);
/* Replays j, which held *h, or *h and one operation more, when its machine died. On success *h is what is there now (asserts: exactly what it held after one
 * of the operations from h->durable on). */
weir_status history_replay(struct history *h, struct journal *j, weir_error *err);

#endif
