/* The etcd process of a run on one machine. */
#ifndef WEIR_COORDINATOR_H
#define WEIR_COORDINATOR_H

#include "cli/core/supervise.h"
#include "common/job/job.h"

struct train;

enum { COORDINATOR_PORTS = 2 };

struct coordinator {
	char url[WEIR_PATH_BYTES_MAX];     /* the URL for the servers; "": they need no coordinator */
	char program[WEIR_PATH_BYTES_MAX]; /* "": the run starts no etcd */
	/* of our etcd: for servers, and for etcd peers, which it does not have */
	char addresses[COORDINATOR_PORTS][WEIR_ADDRESS_BYTES_MAX];
	struct child *child; /* NULL: not started */
};

/* Tells whether the run starts an etcd. */
bool coordinator_is_ours(const struct job *job);
/* Finds the etcd program that the run is to start, to report a missing one before generating data.
 * E_NOT_FOUND names the package to install. */
weir_status coordinator_find(struct train *t, weir_error *err) WEIR_MUST_CHECK;
/* Fills the other fields of t->coordinator. */
weir_status coordinator_choose(struct train *t, weir_error *err) WEIR_MUST_CHECK;
/* Starts our etcd and waits until it, or the job's own, answers. Call before starting the
 * servers. */
weir_status coordinator_start(struct train *t, weir_error *err) WEIR_MUST_CHECK;
void coordinator_stop(struct train *t); /* call after ending the servers */
/* Checks that the data of the run's own etcd still exist, so that the run can resume. */
weir_status coordinator_check_kept(const struct job *job, weir_error *err) WEIR_MUST_CHECK;
/* deletes the data of our etcd; missing data are not an error */
weir_status coordinator_remove(const struct job *job, weir_error *err);

#endif
