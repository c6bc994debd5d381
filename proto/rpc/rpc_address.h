/* Addresses that a server binds, checked before gRPC gets them: it would remove a live server's socket and say little. */
#ifndef WEIR_RPC_ADDRESS_H
#define WEIR_RPC_ADDRESS_H

#include <stdbool.h>

#include "common/base/limits.h"
#include "weir/status.h"

/* "unix:/path" or "HOST:PORT". E_EXISTS: somebody listens there. E_IO: we may not bind it. E_INVALID, E_LIMIT: not an address. Each text names the
 * address and what to do. A unix socket that nobody listens on is removed. */
weir_status rpc_address_check(const char *address, weir_error *err) WEIR_MUST_CHECK;

/* The same as gRPC has it, a URI: the path of a socket is percent-encoded, and a run of slashes in it is one, as two behind "unix:"
 * would begin the name of a host. */
#define RPC_URI_BYTES (3u * WEIR_ADDRESS_BYTES_MAX)
void rpc_address_uri(const char *address, char out[RPC_URI_BYTES]);

#endif
