/* A trainer or an evaluator of a test's cluster, on a thread of its own. */
#ifndef WEIR_TESTS_ROLE_H
#define WEIR_TESTS_ROLE_H

#include <pthread.h>
#include <stdatomic.h>

#include "tests/unit/worker/train/cluster.h"

struct role {
	struct cluster *cluster;
	const char *name;
	bool evaluator;
	atomic_bool stop;
	weir_status status;
	weir_error err;
	pthread_t thread;
};

void cluster_role_start(struct role *r);
/* Waits for its end, and fails the test unless it ends with this status. */
void cluster_role_join(struct role *r, weir_status expected);

#endif
