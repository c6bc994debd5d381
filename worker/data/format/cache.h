/* The packed cache of text sources.
 *
 * One process builds it while others wait for its lock. A change of a source (path, size,
 * modification time, content) or of a setting rebuilds it. Building cuts a split: each part gets
 * its own packed file. */
#ifndef WEIR_CACHE_H
#define WEIR_CACHE_H

#include "worker/data/format/load.h"
#include "worker/data/format/packed.h"
#include "worker/data/format/sources.h"

struct cache_options {
	const char *dir; /* created if missing */
	const struct sources *sources;
	/* Parser, split, threads, logger, limits. The cache sets wanted and deliver itself. */
	struct load_options load;
};

/* Opens the part's packed file. Builds all parts first, unless this one is current. */
weir_status cache_open(struct packed **out, const struct cache_options *o, enum split_part part, weir_error *err);

#endif
