/* What a server shows of itself for Prometheus: the status that anybody may ask it for, the ledger's where that is here, and how long calls take. It asks
 * over the network like anybody, so that whoever is told that it is ready knows that it answers. */
#ifndef WEIR_SELF_SERIES_H
#define WEIR_SELF_SERIES_H

#include <stdio.h>

#include "metrics.h"
#include "rpc.h"

struct self_series;
/* Before rpc's first loop: it observes calls. metrics: borrowed. NULL: out of memory. */
struct self_series *self_series_create(struct rpc *rpc, struct metrics *metrics);
/* The server that is asked; from then on there is something to write. */
weir_status self_series_open(struct self_series *s, const char *address, uint32_t index, weir_error *err) WEIR_MUST_CHECK;
weir_status self_series_write(void *self_series, FILE *out, weir_error *err);
/* Whether it is in sync in all that it is to have, and not about to end: as the health service says of `ready`. */
weir_status self_series_ready(void *self_series, weir_error *err);
void self_series_close(struct self_series *s);   /* asks no more; while the server runs, or later */
void self_series_destroy(struct self_series *s); /* when no call can end any more; NULL is fine */

#endif
