/* TCP ports and sockets: finds free ports, for servers that must know each other's addresses before
 * they start, and tests whether an address accepts connections. */
#ifndef WEIR_PORTS_H
#define WEIR_PORTS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/limits.h"
#include "weir/status.h"

/* Fills addresses (count) with "HOST:PORT" of different ports that were free a moment ago: binds
 * all of them at once, then releases them. A server reports an error if its port has been taken
 * since. */
weir_status ports_pick(const char *host, uint32_t count, char (*addresses)[WEIR_ADDRESS_BYTES_MAX],
                       weir_error *err) WEIR_MUST_CHECK;
/* Tests whether "HOST:PORT" or "unix:PATH" accepts a connection within the time. */
bool ports_answer(const char *address, uint32_t timeout_ms);

#endif
