/* Addresses that processes listen at and call: "HOST:PORT", "[IPV6]:PORT", "unix:/path", "memory:NAME". */
#ifndef WEIR_ADDRESS_H
#define WEIR_ADDRESS_H

#include <stdbool.h>

/* Whether what is said there stays on this machine: loopback, a unix socket, memory. Names are not looked up: but for localhost they are taken for other machines. */
bool address_is_local(const char *address);

#endif
