/* The ways of batches through the job. A flow is the way of one part of a batch's push: from the
 * lease of its unit, the pull and the computation of the batch, to the acknowledgement of the part.
 * Its points are in the order of time. */
#ifndef WEIR_PROFILE_FLOWS_H
#define WEIR_PROFILE_FLOWS_H

#include "cli/profile/profile.h"

#define PROFILE_FLOW_POINTS_MAX (TRACE_FLOW_KINDS + WEIR_REPLICAS_MAX)

struct profile_flow {
	uint32_t count;
	struct profile_place points[PROFILE_FLOW_POINTS_MAX];
};
struct profile_flows {
	struct profile_flow *items; /* (count) those of one batch are neighbours */
	uint64_t count;
};

/* places: profile_places. E_MEMORY. */
weir_status profile_flows_find(const struct profile *p, const struct profile_place *places, struct profile_flows *out,
                               weir_error *err) WEIR_MUST_CHECK;
void profile_flows_destroy(struct profile_flows *f);

/* The flow's point of a kind; NULL: it has none. */
const struct profile_place *profile_flow_point(const struct profile_flow *f, enum trace_kind kind);
/* Its point of COMPUTE or COMPUTE_DEVICE. */
const struct profile_place *profile_flow_computed(const struct profile_flow *f);
/* The last point: ACKNOWLEDGED. */
static inline const struct profile_place *profile_flow_end(const struct profile_flow *f)
{
	return &f->points[f->count - 1];
}
/* Whether both are of one batch. */
bool profile_same_batch(const struct trace_what *a, const struct trace_what *b);

#endif
