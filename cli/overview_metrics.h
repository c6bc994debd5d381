/* A job's overview for Prometheus. The numbers are those that `weir status` shows: one count, shown twice. */
#ifndef WEIR_OVERVIEW_METRICS_H
#define WEIR_OVERVIEW_METRICS_H

#include <stdio.h>

#include "overview.h"

/* Beyond these a job's workers, or partitions, are only in the sums: each is a series of several names. */
#define METRICS_WORKERS_MAX    256u
#define METRICS_PARTITIONS_MAX 1024u

/* Text exposition, version 0.0.4, in malloc'ed memory. NULL when out of memory. */
char *overview_metrics(const struct overview *s);

#endif
