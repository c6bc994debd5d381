/* Asks one server how it is, as grpc.health.v1 has it. */
#ifndef WEIR_HEALTH_H
#define WEIR_HEALTH_H

#include <stdbool.h>
#include <stdint.h>

#include "weir/status.h"

struct rpc;
struct rpc_loop;

/* *serves: of `service`, "": it is not about to end; "ready": and in sync in all that it is to have. The error is of the asking. */
weir_status health_check(struct rpc *rpc, struct rpc_loop *loop, const char *address, const char *service, uint32_t timeout_ms,
                         bool *serves, weir_error *err) WEIR_MUST_CHECK;

#endif
