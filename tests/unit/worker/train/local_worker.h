/* A worker with a backend and rounds of local steps, in a cluster over memory. */
#ifndef WEIR_TESTS_LOCAL_WORKER_H
#define WEIR_TESTS_LOCAL_WORKER_H

#include "kernels/backend.h"
#include "tests/unit/worker/client/cluster.h" /* over memory, not train/cluster.h */
#include "tests/unit/worker/train/local_reference.h"
#include "worker/train/loop/local_sgd.h"

struct worker {
	const struct scenario *scenario;
	weir_client *client;
	struct backend *backend;
	struct local_sgd *local;
	uint32_t dense, rows;
	uint64_t sequence; /* acknowledged pushes */
	float *grad, *own, *pulled;
	float *grad_there; /* backend memory */
};

/* `device`: an emulated one. */
struct backend *worker_backend(bool device);
/* The worker's values. */
const float *worker_own(struct worker *w);
void worker_open(struct worker *w, struct cluster *c, const struct scenario *s, const char *name, uint32_t units,
                 weir_mode_kind kind);
void worker_close(struct worker *w);
/* Leases a unit and begins it, with the scenario's shortened round. */
void worker_lease(struct worker *w, weir_unit *u);
void worker_begin(struct worker *w, const weir_unit *u, uint32_t batch);
/* A step with w->grad. The push also adds 1 to the batch's row. */
void worker_step(struct worker *w, const weir_unit *u, uint32_t batch);
/* Pulls the servers' values to w->pulled. */
void worker_pull(struct worker *w);
/* Takes batches [from, to) of a unit in the worker and in the reference. Their values agree. */
void worker_follow(struct worker *w, struct reference *r, const weir_unit *u, uint32_t from, uint32_t to);
/* Every batch added 1 to its row, once. */
void worker_expect_rows(struct worker *w, uint32_t units);

#endif
