#include <math.h>

#include "cli/search/search_state.h"

void sample_random(const struct search *s, struct prng *r, struct space_point *out)
{
	const struct space *space = &s->options.space;
	for (uint32_t i = 0; i < space->count; i++) {
		const double drawn = space_draw(&space->dims[i], r);
		out->x[i] = space_counts(space, out, i) ? drawn : NAN;
	}
}
