/* Rejoins a job that has gone back to a checkpoint. The worker's work in hand is of a generation
 * that is over. The worker drops it silently and joins the next generation as any worker does. */
#ifndef WEIR_REJOIN_H
#define WEIR_REJOIN_H

#include <stdatomic.h>
#include <stdint.h>

#include "common/system/logger.h"
#include "weir/weir.h"

struct rejoin {
	/* It has returned E_GENERATION; points to NULL while there is no client. */
	weir_client **client;
	/* Opens it again, with its dependents. */
	weir_status (*open)(void *arg, weir_error *err);
	void *arg;
	const atomic_bool *stop;
	struct logger *logger;
};

/* Retries until there is a client of a later generation, because it may first reach a server that
 * has not heard of one. Gives up after WEIR_SERVER_PATIENCE_MS, or at `stop` (E_CANCELLED). */
weir_status rejoin(const struct rejoin *g, weir_error *err) WEIR_MUST_CHECK;

#endif
