/* An overview as Prometheus series, with the same numbers as `weir status`. */
#ifndef WEIR_OVERVIEW_METRICS_H
#define WEIR_OVERVIEW_METRICS_H

#include <stdio.h>

#include "overview/overview.h"

/* Text exposition, version 0.0.4. */
void overview_series(FILE *out, const struct overview *s);

#endif
