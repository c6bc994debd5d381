/* A whole cluster in one process: servers on unix sockets in a temporary folder, a job, and data
 * from a synthetic linear model. */
#ifndef WEIR_TEST_CLUSTER_H
#define WEIR_TEST_CLUSTER_H

#include <stdbool.h>
#include <stdint.h>

#include "common/job/job.h"
#include "proto/rpc/rpc.h"

#define CLUSTER_SERVERS 2u

struct server;

struct cluster {
	char folder[64];
	char ledger[96]; /* address */
	struct job *job;
	struct rpc *rpc;
	struct server *servers[CLUSTER_SERVERS];
};

/* Writes `rows` lines of data and starts the servers. `settings` is YAML for the job's model,
 * tables and train sections. Fails the test on any error. */
void cluster_start(struct cluster *c, uint32_t rows, const char *settings);
/* The same with a text in which two bytes usually determine the next: its entropy is 0.7 nats a
 * byte, and 2.7 from byte frequencies alone. */
void cluster_start_text(struct cluster *c, uint32_t bytes, const char *settings);
void cluster_stop(struct cluster *c);

#endif
