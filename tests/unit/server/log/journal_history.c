#include "tests/unit/server/log/journal_history.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/prng.h"

enum kind { APPEND, CUT, RESTART, WAIT, FLUSH };

struct operation {
	enum kind kind;
	uint32_t c;
	uint64_t index; /* APPEND: of the new entry; CUT, RESTART: of the next one */
};

struct history history_new(void)
{
	struct history h = {0};
	for (uint32_t c = 0; c < FIXTURE_CHANNELS; c++)
		h.channels[c].first = h.channels[c].needed = 1;
	return h;
}

static uint64_t draw(const struct history *h, uint32_t what, uint64_t below)
{
	return prng_mix(6, h->done, what) % below;
}

/* A cut never voids an entry that a flush covers. */
static struct operation next_of(const struct history *h)
{
	const uint32_t c = h->done % FIXTURE_CHANNELS;
	const struct history_channel *l = &h->channels[c];
	const uint64_t lowest = l->first > l->needed ? l->first : l->needed, kind = draw(h, 0, 20);
	if (kind < 4)
		return (struct operation){CUT, c, lowest + draw(h, 1, l->last + 2 - lowest)};
	if (kind < 5)
		return (struct operation){RESTART, c, l->needed + draw(h, 1, 8)};
	if (kind < 7)
		return (struct operation){.kind = WAIT};
	if (kind < 8)
		return (struct operation){.kind = FLUSH, .c = c};
	return (struct operation){APPEND, c, l->last + 1};
}

uint64_t history_cuts(const struct history *h)
{
	uint64_t cuts = 0;
	for (uint32_t c = 0; c < FIXTURE_CHANNELS; c++)
		cuts += h->channels[c].cuts;
	return cuts;
}

void history_note(struct history *h)
{
	const struct operation o = next_of(h);
	struct history_channel *l = &h->channels[o.c];
	h->done++;
	switch (o.kind) {
	case APPEND:
		l->last = o.index;
		assert_true(o.index < FIXTURE_INDEX_MAX);
		l->cuts_of[o.index] = (uint8_t)l->cuts;
		return;
	case RESTART:
		l->first = o.index;
		/* fallthrough */
	case CUT:
		l->last = o.index - 1;
		l->cuts++;
		return;
	case FLUSH:
		l->needed = l->last + 1;
		/* fallthrough */
	case WAIT:
		h->durable = h->done;
	}
}

weir_status history_step(struct history *h, struct journal *j, weir_error *err)
{
	const struct operation o = next_of(h);
	const struct journal_cut cut = {.next = o.index, .restart = o.kind == RESTART};
	weir_status status;
	switch (o.kind) {
	case APPEND:
		status = fixture_append(j, o.c, o.index, h->channels[o.c].cuts, HISTORY_BODY, err);
		break;
	case CUT:
	case RESTART:
		status = journal_cut(j, fixture_channels[o.c], cut, err);
		break;
	default:
		status = journal_wait(j, err);
	}
	if (status == WEIR_OK)
		history_note(h);
	return status;
}

void history_forget(const struct history *h, struct journal *j)
{
	for (uint32_t c = 0; c < FIXTURE_CHANNELS; c++)
		journal_truncate_below(j, fixture_channels[c], h->channels[c].needed);
}

/* Whether the replay matches the channel. It asked for no entry below `needed`. */
static bool is_seen(const struct history_channel *l, uint64_t needed, const struct fixture_seen *seen, uint32_t c)
{
	const uint64_t first = l->first > needed ? l->first : needed;
	if (seen->channels[c].last != l->last)
		return false;
	if (first > l->last)
		return seen->last[c] == 0;
	return seen->first[c] == first && seen->last[c] == l->last &&
	       memcmp(&seen->cuts[c][first], &l->cuts_of[first], l->last - first + 1) == 0;
}

static bool all_seen(const struct history *then, const struct history *now, const struct fixture_seen *seen)
{
	for (uint32_t c = 0; c < FIXTURE_CHANNELS; c++)
		if (!is_seen(&then->channels[c], now->channels[c].needed, seen, c))
			return false;
	return true;
}

weir_status history_replay(struct history *h, struct journal *j, weir_error *err)
{
	struct fixture_seen *seen = malloc(sizeof *seen);
	struct history then = history_new();
	assert_non_null(seen);
	*seen = fixture_seen_new(HISTORY_BODY);
	for (uint32_t c = 0; c < FIXTURE_CHANNELS; c++) {
		seen->channels[c].first = h->channels[c].needed;
		seen->channels[c].flushed = h->channels[c].needed - 1;
	}
	weir_status status = fixture_replay(j, seen, err);
	while (status == WEIR_OK && (then.done < h->durable || !all_seen(&then, h, seen))) {
		assert_true(then.done <= h->done);
		history_note(&then);
	}
	free(seen);
	if (status != WEIR_OK)
		return status;
	for (uint32_t c = 0; c < FIXTURE_CHANNELS; c++) /* the journal may have dropped more since */
		then.channels[c].needed = h->channels[c].needed;
	then.durable = then.done;
	*h = then;
	return WEIR_OK;
}
