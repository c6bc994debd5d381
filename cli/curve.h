/* How far a job was when each of its passes was complete: the time, what was trained, and what had crossed the network. Learnt from looks at the job,
 * which see the end of a pass a little late: figures are those between the two looks around it, in proportion to the rows. */
#ifndef WEIR_CURVE_H
#define WEIR_CURVE_H

#include <stdint.h>

#include "overview.h"

struct curve_point {
	uint32_t pass;  /* complete then; counts from 1 */
	double seconds; /* since training began */
	uint64_t rows, bytes_pushed, bytes_pulled;
};

struct curve {
	struct curve_point *points; /* (count), by pass */
	uint32_t count;
	uint32_t known; /* passes complete at the last look; set before the first one, those have no points */
};

/* Passes that are complete. */
uint32_t curve_complete(const struct overview *s);
/* A look at the job, after the one `before` (NULL: this is the first). Seconds since training began, of each. Without memory the curve has gaps. */
void curve_look(struct curve *c, const struct overview *before, double before_s, const struct overview *now, double now_s);
/* The point of a pass, or NULL. */
const struct curve_point *curve_find(const struct curve *c, uint32_t pass);
void curve_free(struct curve *c);

#endif
