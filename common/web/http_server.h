/* A server of pages for people and for Prometheus, over plain HTTP. It supports GET and HEAD only
 * and keeps nothing of a request. http_server.c is the only user of libmicrohttpd.
 *
 * It listens on loopback unless the address names another host: whoever sets that decides who may
 * read. One thread answers one request after the other, so `page` needs no lock for data that only
 * pages use.
 *
 * DNS rebinding: a web page in somebody's browser may have a name that resolves to this address,
 * and could read our answers. So the server answers only requests whose Host is localhost, a
 * loopback address, the address that it listens on (any numeric address if that is 0.0.0.0 or
 * [::]), or one of `names`; others get 403. A request without a Host does not come from a browser
 * and is answered. */
#ifndef WEIR_HTTP_SERVER_H
#define WEIR_HTTP_SERVER_H

#include <stddef.h>
#include <stdint.h>

#include "weir/status.h"

#define HTTP_OK          200u
#define HTTP_FORBIDDEN   403u
#define HTTP_NOT_FOUND   404u
#define HTTP_UNAVAILABLE 503u

struct http_page {
	unsigned code;    /* HTTP_OK, ... */
	const char *type; /* static, for example "text/plain" */
	char *text;       /* malloc'ed; the server takes ownership; NULL: out of memory */
};
/* Makes the page at a path ("/metrics", without the part after a `?`), on the server's thread. */
typedef void (*http_page_fn)(void *arg, const char *path, struct http_page *out);

/* Host names, borrowed while the server runs. */
struct http_names {
	const char *const *items;
	uint32_t count;
};

struct http_server;
/* address: PORT on loopback, or HOST:PORT with a numeric HOST (IPv6 in brackets); port 0: any free
 * port. E_INVALID, E_IO. */
weir_status http_server_start(struct http_server **out, const char *address, struct http_names names, http_page_fn page,
                              void *arg, weir_error *err) WEIR_MUST_CHECK;
/* Checks whether the server could start at the address now. */
weir_status http_server_check(const char *address, weir_error *err) WEIR_MUST_CHECK;
const char *http_server_address(const struct http_server *s); /* HOST:PORT, with the real port */
/* waits for the page in progress; NULL is allowed */
void http_server_stop(struct http_server *s);

#endif
