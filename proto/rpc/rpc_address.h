/* Checks the addresses that a server binds, before gRPC uses them: gRPC would remove a live
 * server's socket, with a poor error text. */
#ifndef WEIR_RPC_ADDRESS_H
#define WEIR_RPC_ADDRESS_H

#include <stdbool.h>

#include "common/base/limits.h"
#include "weir/status.h"

/* Checks "unix:/path" or "HOST:PORT". E_EXISTS: the address is in use. E_IO: this process may not
 * bind it. E_INVALID, E_LIMIT: not an address. Each text names the address and the remedy. Removes
 * a unix socket on which no process listens. */
weir_status rpc_address_check(const char *address, weir_error *err) WEIR_MUST_CHECK;

/* Converts an address to a URI for gRPC: percent-encodes the path of a socket, and reduces runs of
 * slashes to one, because two slashes after "unix:" would begin a host name. */
#define RPC_URI_BYTES (3u * WEIR_ADDRESS_BYTES_MAX)
void rpc_address_uri(const char *address, char out[RPC_URI_BYTES]);

#endif
