/* TCP ports and sockets: free ones, for servers that must know each other's addresses before
 * they start, and whether somebody listens at one. */
#ifndef WEIR_PORTS_H
#define WEIR_PORTS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/limits.h"
#include "weir/status.h"

/* Fills addresses (count) with "HOST:PORT" of different ports that were free a moment ago: all are bound at once and let go. A server that finds its
 * port taken since says so. */
weir_status ports_pick(const char *host, uint32_t count, char (*addresses)[WEIR_ADDRESS_BYTES_MAX],
                       weir_error *err) WEIR_MUST_CHECK;
/* Whether a connection to "HOST:PORT" or "unix:PATH" is taken within the time. */
bool ports_answer(const char *address, uint32_t timeout_ms);

#endif
