/* Pages for people and for Prometheus, over plain HTTP: GET and HEAD, nothing else, nothing kept of
 * a request. The only user of libmicrohttpd.
 *
 * It listens on loopback unless the address names another host: whoever does that decides who may
 * read. One thread answers, one request after the other, and so `page` needs no lock for what only
 * pages use.
 *
 * A web page that somebody's browser shows may have a name that leads here (DNS rebinding), and
 * would read what we answer. So requests are answered whose Host is localhost, a loopback address,
 * the address that we listen at (any numeric one where that is 0.0.0.0 or [::]), or one of `names`;
 * others get 403. A request without a Host is no browser's. */
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
	const char *type; /* static, as "text/plain" */
	char *text;       /* malloc'ed, the server's from then on; NULL: out of memory */
};
/* Makes the page at a path ("/metrics", without what follows a `?`), on the server's thread. */
typedef void (*http_page_fn)(void *arg, const char *path, struct http_page *out);

/* Host names, borrowed as long as the server runs. */
struct http_names {
	const char *const *items;
	uint32_t count;
};

struct http_server;
/* address: PORT, of loopback, or HOST:PORT with a numeric HOST, of IPv6 in brackets; port 0: any.
 * E_INVALID, E_IO. */
weir_status http_server_start(struct http_server **out, const char *address, struct http_names names, http_page_fn page,
                              void *arg, weir_error *err) WEIR_MUST_CHECK;
/* Whether it would start there now. */
weir_status http_server_check(const char *address, weir_error *err) WEIR_MUST_CHECK;
const char *http_server_address(const struct http_server *s); /* HOST:PORT, with the real port */
void http_server_stop(struct http_server *s);                 /* waits for the page being made; NULL is fine */

#endif
