#include "server/records/epochs.h"

#include <assert.h>
#include <string.h>

void epochs_begin(struct epochs *e, uint64_t epoch, uint64_t first)
{
	if (epochs_now(e) == epoch)
		return;
	assert(epoch > epochs_now(e));
	if (e->count == WEIR_EPOCHS_KEPT)
		memmove(e->starts, e->starts + 1, --e->count * sizeof *e->starts);
	e->starts[e->count++] = (struct epoch_start){epoch, first};
}

uint64_t epochs_now(const struct epochs *e)
{
	return e->count ? e->starts[e->count - 1].epoch : 0;
}

bool epochs_hold(const struct epochs *e, uint64_t epoch, uint64_t index, uint64_t last)
{
	if (index == 0)
		return true;
	bool forgotten = e->count == WEIR_EPOCHS_KEPT && epoch < e->starts[0].epoch;
	if (forgotten || epoch == 0 || epoch > epochs_now(e))
		return false;
	for (uint32_t i = 0; i < e->count; i++)
		if (e->starts[i].epoch > epoch)
			return index < e->starts[i].first;
	return index <= last;
}

void epochs_truncate(struct epochs *e, uint64_t last)
{
	while (e->count && e->starts[e->count - 1].first > last)
		e->count--;
}

/* The last index of epoch i; `last` for the newest. */
static uint64_t epoch_end(const struct epochs *e, uint32_t i, uint64_t last)
{
	return i + 1 < e->count ? e->starts[i + 1].first - 1 : last;
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

bool epochs_common(const struct epochs *primary, const struct epochs *follower, uint64_t last, uint64_t *common)
{
	uint32_t j = primary->count;
	for (uint32_t i = follower->count; i-- > 0;) {
		const struct epoch_start *mine = &follower->starts[i];
		const uint64_t end = least(epoch_end(follower, i, last), last);
		while (j > 0 && primary->starts[j - 1].epoch > mine->epoch)
			j--;
		if (end < mine->first || j == 0 || primary->starts[j - 1].epoch != mine->epoch)
			continue;
		*common = least(end, epoch_end(primary, j - 1, UINT64_MAX));
		if (*common >= mine->first)
			return true;
	}
	if (primary->count == WEIR_EPOCHS_KEPT || follower->count == WEIR_EPOCHS_KEPT)
		return false;
	/* Below all epochs, both logs have the state that they began with. */
	*common = last;
	if (follower->count)
		*common = least(*common, follower->starts[0].first - 1);
	if (primary->count)
		*common = least(*common, primary->starts[0].first - 1);
	return true;
}
