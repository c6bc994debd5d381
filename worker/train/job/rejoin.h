/* The job has gone back to a checkpoint: what a worker has in hand is of a generation that is over. It leaves that without a word and joins the next one as anybody does. */
#ifndef WEIR_GO_BACK_H
#define WEIR_GO_BACK_H

#include <stdatomic.h>
#include <stdint.h>

#include "common/system/logger.h"
#include "weir/weir.h"

struct go_back {
	weir_client **client; /* a status of E_GENERATION has come from it; NULL in there where there is none */
	/* Opens it again, with what depends on it. */
	weir_status (*open)(void *arg, weir_error *err);
	void *arg;
	const atomic_bool *stop;
	struct logger *logger;
};

/* Until there is a client of a later generation: a server that has not heard of it yet may be found first. For WEIR_SERVER_PATIENCE_MS, or until it is to stop (E_CANCELLED). */
weir_status go_back(const struct go_back *g, weir_error *err) WEIR_MUST_CHECK;

#endif
