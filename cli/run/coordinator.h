/* The etcd of a run on one machine. */
#ifndef WEIR_RUN_COORDINATOR_H
#define WEIR_RUN_COORDINATOR_H

#include "cli/core/supervise.h"
#include "common/job/job.h"

struct train;

enum { COORDINATOR_PORTS = 2 };

struct coordinator {
	char url[WEIR_PATH_BYTES_MAX];     /* what servers are told; "": they need none */
	char program[WEIR_PATH_BYTES_MAX]; /* "": the etcd is not ours, */
	char addresses[COORDINATOR_PORTS]
	              [WEIR_ADDRESS_BYTES_MAX]; /* else where it listens: for servers, and for members that it has none of */
	struct child *child;                    /* NULL: not started */
};

/* Whether an etcd is started with the run. */
bool coordinator_is_ours(const struct job *job);
/* Whether there is the etcd that the run is to start: to be said before data are made. E_NOT_FOUND: no; the text names its package. */
weir_status coordinator_find(struct train *t, weir_error *err) WEIR_MUST_CHECK;
/* Fills the rest of t->coordinator. */
weir_status coordinator_choose(struct train *t, weir_error *err) WEIR_MUST_CHECK;
/* Before the servers: starts ours, and waits until it, or the job's, answers. */
weir_status coordinator_start(struct train *t, weir_error *err) WEIR_MUST_CHECK;
void coordinator_end(struct train *t); /* behind the servers */
/* That a run which goes on finds what its own etcd had. */
weir_status coordinator_check_kept(const struct job *job, weir_error *err) WEIR_MUST_CHECK;
weir_status coordinator_remove(const struct job *job, weir_error *err); /* what it left; none is fine */

#endif
