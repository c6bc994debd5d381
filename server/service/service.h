/* The handlers that a server gives to its transport. Their context is a struct server. */
#ifndef WEIR_SERVICE_H
#define WEIR_SERVICE_H

#include "proto/rpc/rpc.h"

const struct rpc_service *service_handlers(void);

#endif
