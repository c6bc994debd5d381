/* How far a job was when each of its passes was complete: the time, what was trained, and what had crossed the network. Learnt from looks at the job.
 *
 * The ledger knows at once that a pass is complete, so a look tells when, up to the time since the last one. Workers tell their rows and bytes
 * about once a second, but always together: the bytes of a pass are those at which its rows had been told, in proportion between two looks. */
#ifndef WEIR_CURVE_H
#define WEIR_CURVE_H

#include <stdint.h>

#include "overview/overview.h"

struct curve_point {
	uint32_t pass;  /* complete then; counts from 1 */
	double seconds; /* since training began */
	uint64_t rows, bytes_pushed, bytes_pulled;
};

struct curve {
	struct curve_point *points; /* (count), by pass; of the first `told` of them all is known, of the others the time */
	uint32_t count, told;
	uint32_t known; /* passes complete at the last look; set before the first one, those have no points */
};

/* Passes that are complete. */
uint32_t curve_complete(const struct overview *s);
/* A look at the job, after the one `before` (NULL: this is the first), so many seconds since training began. Without memory the curve has gaps. */
void curve_look(struct curve *c, const struct overview *before, const struct overview *now, double seconds);
/* There is no further look: what was not told since the end of a pass is what the last one says. */
void curve_end(struct curve *c, const struct overview *last);
/* The point of a pass, or NULL. */
const struct curve_point *curve_find(const struct curve *c, uint32_t pass);
void curve_free(struct curve *c);

#endif
