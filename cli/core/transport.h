/* The connection from a verb to the servers of a job, with the rights of an admin. */
#ifndef WEIR_TRANSPORT_H
#define WEIR_TRANSPORT_H

#include "common/job/job.h"
#include "proto/rpc/rpc.h"

/* job: gives the security settings. NULL: only an address is known; the connection is plain text,
 * and only local addresses are allowed. */
weir_status transport_open(struct rpc **out, const struct job *job, struct logger *logger, weir_error *err) WEIR_MUST_CHECK;

#endif
