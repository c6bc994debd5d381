/* The address of a web server, as jobs name it: https://HOST, http://HOST:PORT or http://[::1]:PORT, and perhaps a slash. */
#ifndef WEIR_WEB_ENDPOINT_H
#define WEIR_WEB_ENDPOINT_H

#include <stdbool.h>
#include <stddef.h>

#define WEB_ENDPOINT_EXPECTED "expected https://HOST or http://HOST:PORT, without a path"

/* False: it is none. *bytes: its length without the slashes at its end. */
bool web_endpoint_check(const char *endpoint, size_t *bytes);

#endif
