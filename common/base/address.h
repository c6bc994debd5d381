/* Addresses that processes listen on and connect to: "HOST:PORT", "[IPV6]:PORT", "unix:/path",
 * "memory:NAME". */
#ifndef WEIR_ADDRESS_H
#define WEIR_ADDRESS_H

#include <stdbool.h>

/* Whether traffic to the address stays on this machine: loopback, a unix socket, or memory. Names
 * are not looked up: every name except localhost counts as another machine. */
bool address_is_local(const char *address);
/* Returns the port of HOST:PORT or [IPV6]:PORT; -1: it is no such address. */
long address_port(const char *address);

#endif
