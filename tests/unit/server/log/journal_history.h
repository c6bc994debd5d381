/* A fixed list of operations on a journal, with cuts, and the content of its channels after any
 * number of them. An operation is one record of the journal, so a crash leaves the content after
 * some number of operations, the same number for all channels. */
#ifndef WEIR_TESTS_JOURNAL_HISTORY_H
#define WEIR_TESTS_JOURNAL_HISTORY_H

#include "tests/unit/server/log/journal_fixture.h"

enum { HISTORY_BODY = 700, HISTORY_SEGMENT = 4096, HISTORY_OPS = 72 };

struct history_channel {
	uint64_t first, last; /* of its log, without void entries */
	uint64_t cuts;        /* cuts so far */
	uint64_t needed;      /* flushes cover the entries below */
	uint8_t cuts_of[FIXTURE_INDEX_MAX];
};
struct history {
	struct history_channel channels[FIXTURE_CHANNELS];
	uint32_t done, durable; /* operations done; operations reported durable */
};

struct history history_new(void);
uint64_t history_cuts(const struct history *h); /* of all channels */
/* Advances the model by one operation. */
void history_note(struct history *h);
/* Applies the next operation to j, which holds h, and notes it. Keeps the entries that flushes
 * cover. */
weir_status history_step(struct history *h, struct journal *j, weir_error *err);
/* Releases the entries that flushes cover. */
void history_forget(const struct history *h, struct journal *j);
/* Replays j, which held *h, or *h and one operation more, when the machine crashed. On success *h
 * is the content found (asserts that it is the exact content after one of the operations from
 * h->durable on). */
weir_status history_replay(struct history *h, struct journal *j, weir_error *err);

#endif
