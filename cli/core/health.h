/* Checks the health of one server with the grpc.health.v1 protocol. */
#ifndef WEIR_HEALTH_H
#define WEIR_HEALTH_H

#include <stdbool.h>
#include <stdint.h>

#include "weir/status.h"

struct rpc;
struct rpc_loop;

/* *serves: whether the server serves `service`. "": it is not shutting down. "ready": it is also in
 * sync in everything that it hosts. The error is about the call itself. */
weir_status health_check(struct rpc *rpc, struct rpc_loop *loop, const char *address, const char *service, uint32_t timeout_ms,
                         bool *serves, weir_error *err) WEIR_MUST_CHECK;

#endif
