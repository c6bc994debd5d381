/* The way from a verb to the servers of a job, as an admin of it. */
#ifndef WEIR_TRANSPORT_H
#define WEIR_TRANSPORT_H

#include "common/job/job.h"
#include "proto/rpc/rpc.h"

/* job: says how it is secured; NULL: only an address is known, and it is spoken to in plain text, if it is of this machine. */
weir_status transport_open(struct rpc **out, const struct job *job, struct logger *logger, weir_error *err) WEIR_MUST_CHECK;

#endif
