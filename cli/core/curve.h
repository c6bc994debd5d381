/* Learning curve by pass: the time at which each pass completed, the rows trained, and the bytes
 * transferred over the network by then. Polls of the job supply the data.
 *
 * The ledger knows immediately that a pass is complete, so a poll gives its time to within the
 * interval since the previous poll. Workers report rows and bytes about once a second, always
 * together. The bytes of a pass are those at which its rows were reported, interpolated linearly
 * between two polls. */
#ifndef WEIR_CURVE_H
#define WEIR_CURVE_H

#include <stdint.h>

#include "overview/overview.h"

struct curve_point {
	uint32_t pass;  /* the pass that completed; counts from 1 */
	double seconds; /* since training began */
	uint64_t rows, bytes_pushed, bytes_pulled;
};

struct curve {
	/* (count), by pass; the first `told` are fully known, the others have only the time */
	struct curve_point *points;
	uint32_t count, told;
	/* passes complete at the last poll; passes that were complete before the first poll have no
	 * points */
	uint32_t known;
};

/* Returns the number of complete passes. */
uint32_t curve_complete(const struct overview *s);
/* Records a poll of the job. before: the previous poll; NULL: this is the first. seconds: since
 * training began. When memory runs out, the curve has gaps. */
void curve_look(struct curve *c, const struct overview *before, const struct overview *now, double seconds);
/* Ends the curve: pending values are those of the last poll. */
void curve_end(struct curve *c, const struct overview *last);
/* Returns the point of a pass, or NULL. */
const struct curve_point *curve_find(const struct curve *c, uint32_t pass);
void curve_destroy(struct curve *c);

#endif
