/* The packed cache of text sources: built once, by one process while others wait on its lock, and again when a source (path, size, time of
 * change) or a setting changes. A split is cut while building: one packed file for each part. */
#ifndef WEIR_CACHE_H
#define WEIR_CACHE_H

#include "worker/data/format/load.h"
#include "worker/data/format/packed.h"
#include "worker/data/format/sources.h"

struct cache_options {
	const char *dir; /* made if need be */
	const struct sources *sources;
	struct load_options load; /* parser, split, threads, logger, limits; wanted and deliver are the cache's own */
};

/* Opens the part's packed file, building all parts first unless they are current. */
weir_status cache_open(struct packed **out, const struct cache_options *o, enum split_part part, weir_error *err);

#endif
