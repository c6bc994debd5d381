/* Reads the event files of a run back (events.h): the curves of all its values, over resumptions
 * and rewinds. As TensorBoard does, it drops the values that a later session start invalidates.
 * The end of a file that a killed process left half-written is ignored. */
#ifndef WEIR_EVENT_READ_H
#define WEIR_EVENT_READ_H

#include <stdint.h>

#include "common/base/limits.h"
#include "weir/status.h"

struct event_point {
	uint64_t step; /* batches of the job */
	double wall_s; /* since 1970 */
	double value;
};
struct event_series {
	char tag[WEIR_TRACK_NAME_BYTES]; /* "train/loss" */
	struct event_point *points;      /* (count) steps rise, or stay */
	uint32_t count;
};
struct event_curves {
	struct event_series *series; /* (count) in the order in which they were first written */
	uint32_t count;
};

/* No folder, or no files in it: there are no series. E_IO, E_MEMORY. */
weir_status event_curves_read(const char *folder, struct event_curves *out, weir_error *err) WEIR_MUST_CHECK;
void event_curves_destroy(struct event_curves *c);
/* NULL: the run has no such values. */
const struct event_series *event_curves_find(const struct event_curves *c, const char *tag);
/* The value at a step, between two points in proportion. NaN: the series does not reach there. */
double event_series_at(const struct event_series *s, uint64_t step);

#endif
