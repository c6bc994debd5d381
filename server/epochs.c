#include "epochs.h"

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
