/* The address of a web server in a job file: https://HOST, http://HOST:PORT or http://[::1]:PORT,
 * with an optional slash at the end. */
#ifndef WEIR_WEB_ENDPOINT_H
#define WEIR_WEB_ENDPOINT_H

#include <stdbool.h>
#include <stddef.h>

#define WEB_ENDPOINT_EXPECTED "expected https://HOST or http://HOST:PORT, without a path"

/* False: not such an address. *bytes: its length without trailing slashes. */
bool web_endpoint_check(const char *endpoint, size_t *bytes);

#endif
