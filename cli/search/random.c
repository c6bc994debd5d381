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

#define SPREAD_STREAM 0x51a7e5u

void sample_spread(const struct search *s, struct prng *r, struct space_point *out)
{
	const struct space *space = &s->options.space;
	const uint32_t shares = s->options.trials;
	for (uint32_t i = 0; i < space->count; i++) {
		const struct space_dim *d = &space->dims[i];
		const uint64_t share = prng_permute(prng_mix(s->options.seed, SPREAD_STREAM, i), shares, s->trials_count);
		const double place = ((double)share + prng_unit(r)) / shares;
		const double drawn = d->choices_count ? floor(place * d->choices_count) : space_at(d, place);
		out->x[i] = space_counts(space, out, i) ? drawn : NAN;
	}
}
