#include "common/web/http_server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <microhttpd.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/limits.h"

#define CLOSING_MAX 16u

union socket_address {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

struct http_server {
	struct MHD_Daemon *daemon;
	/* Open connections, oldest first. Those beyond WEIR_HTTP_CONNECTIONS_MAX are about to be
	 * closed. Only the server's thread uses the list. */
	MHD_socket open[WEIR_HTTP_CONNECTIONS_MAX + CLOSING_MAX];
	unsigned open_count;
	http_page_fn page;
	void *arg;
	union socket_address bound;
	struct http_names names;
	char address[INET6_ADDRSTRLEN + sizeof "[]:65535"];
};

static enum MHD_Result answer(struct MHD_Connection *c, unsigned code, const char *type, char *text,
                              enum MHD_ResponseMemoryMode mode)
{
	struct MHD_Response *r = MHD_create_response_from_buffer(strlen(text), text, mode);
	if (!r) {
		if (mode == MHD_RESPMEM_MUST_FREE)
			free(text);
		return MHD_NO;
	}
	enum MHD_Result ok = MHD_add_response_header(r, MHD_HTTP_HEADER_CONTENT_TYPE, type);
	if (ok == MHD_YES)
		ok = MHD_add_response_header(r, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
	if (ok == MHD_YES)
		ok = MHD_queue_response(c, code, r);
	MHD_destroy_response(r);
	return ok;
}

/* Closes the oldest connection for the newest, so that peers that only hold connections open lock
 * nobody out. */
static void on_connection(void *arg, struct MHD_Connection *c, void **context, enum MHD_ConnectionNotificationCode what)
{
	struct http_server *s = arg;
	const MHD_socket fd = MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
	(void)context;
	if (what == MHD_CONNECTION_NOTIFY_STARTED) {
		s->open[s->open_count++] = fd;
		if (s->open_count > WEIR_HTTP_CONNECTIONS_MAX)
			(void)shutdown(s->open[s->open_count - 1 - WEIR_HTTP_CONNECTIONS_MAX], SHUT_RDWR);
		return;
	}
	unsigned i = 0;
	while (s->open[i] != fd)
		i++;
	s->open_count--;
	memmove(&s->open[i], &s->open[i + 1], (s->open_count - i) * sizeof *s->open);
}

/* --- Addresses */

static bool parse_host(const char *host, size_t n, union socket_address *out)
{
	char text[INET6_ADDRSTRLEN];
	const bool bracketed = n > 2 && host[0] == '[' && host[n - 1] == ']';
	n -= 2 * bracketed;
	*out = (union socket_address){0};
	if (n >= sizeof text)
		return false;
	memcpy(text, host + bracketed, n);
	text[n] = '\0';
	out->any.sa_family = bracketed ? AF_INET6 : AF_INET;
	return bracketed ? inet_pton(AF_INET6, text, &out->v6.sin6_addr) == 1 : inet_pton(AF_INET, text, &out->v4.sin_addr) == 1;
}

/* The bytes of an address, without its port. */
static const uint8_t *host_bytes(const union socket_address *a, size_t *n)
{
	*n = a->any.sa_family == AF_INET6 ? sizeof a->v6.sin6_addr : sizeof a->v4.sin_addr;
	return a->any.sa_family == AF_INET6 ? (const uint8_t *)&a->v6.sin6_addr : (const uint8_t *)&a->v4.sin_addr;
}

static weir_status parse_address(const char *text, union socket_address *out, weir_error *err)
{
	static const char loopback[] = "127.0.0.1";
	const char *colon = strrchr(text, ':'), *port = colon ? colon + 1 : text;
	char *end;
	errno = 0;
	const unsigned long number = strtoul(port, &end, 10);
	const bool parsed = colon ? parse_host(text, (size_t)(colon - text), out) : parse_host(loopback, strlen(loopback), out);
	if (!parsed || errno || *port < '0' || *port > '9' || *end || number > UINT16_MAX)
		return weir_fail(err, WEIR_E_INVALID,
		                 "'%s' is no address to serve pages at: expected PORT, or HOST:PORT as 0.0.0.0:9090 or [::1]:9090", text);
	if (out->any.sa_family == AF_INET6)
		out->v6.sin6_port = htons((uint16_t)number);
	else
		out->v4.sin_port = htons((uint16_t)number);
	return WEIR_OK;
}

static socklen_t address_bytes(const union socket_address *a)
{
	return a->any.sa_family == AF_INET6 ? sizeof a->v6 : sizeof a->v4;
}

weir_status http_server_check(const char *address, weir_error *err)
{
	union socket_address at;
	const int one = 1;
	const weir_status status = parse_address(address, &at, err);
	if (status)
		return status;
	const int fd = socket(at.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	const bool bound = fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) == 0 &&
	                   bind(fd, &at.any, address_bytes(&at)) == 0 && listen(fd, 1) == 0;
	const int e = errno;
	if (fd >= 0)
		close(fd);
	return bound ? WEIR_OK
	             : weir_fail(err, WEIR_E_IO, "cannot serve pages at %s: %s; choose another port, or 0 for any", address,
	                         strerror(e));
}

static weir_status note_address(struct http_server *s, weir_error *err)
{
	const union MHD_DaemonInfo *port = MHD_get_daemon_info(s->daemon, MHD_DAEMON_INFO_BIND_PORT);
	const bool v6 = s->bound.any.sa_family == AF_INET6;
	char host[INET6_ADDRSTRLEN];
	size_t n;
	if (!port || !inet_ntop(s->bound.any.sa_family, host_bytes(&s->bound, &n), host, sizeof host))
		return weir_fail(err, WEIR_E_IO, "the port that pages are served at is not known");
	snprintf(s->address, sizeof s->address, v6 ? "[%s]:%u" : "%s:%u", host, (unsigned)port->port);
	return WEIR_OK;
}

/* --- The Host header */

static bool is_loopback(const union socket_address *a)
{
	size_t n;
	const uint8_t *bytes = host_bytes(a, &n);
	return n == 4 ? bytes[0] == 127 : memcmp(bytes, &in6addr_loopback, n) == 0;
}

static bool is_wildcard(const union socket_address *a)
{
	static const uint8_t zeros[16];
	size_t n;
	const uint8_t *bytes = host_bytes(a, &n);
	return memcmp(bytes, zeros, n) == 0;
}

static bool is_same_host(const union socket_address *a, const union socket_address *b)
{
	size_t n, m;
	const uint8_t *left = host_bytes(a, &n), *right = host_bytes(b, &m);
	return n == m && memcmp(left, right, n) == 0;
}

static bool may_ask_by(const struct http_server *s, const char *host)
{
	static const char localhost[] = "localhost";
	const char *colon = strrchr(host, ':');
	size_t n = colon && !strchr(colon, ']') ? (size_t)(colon - host) : strlen(host);
	union socket_address numeric;
	n -= n > 1 && host[n - 1] == '.'; /* a name may end in a dot */
	if (parse_host(host, n, &numeric)) {
		return is_same_host(&numeric, &s->bound) || is_loopback(&numeric) || is_wildcard(&s->bound);
	}
	if (n == strlen(localhost) && strncasecmp(host, localhost, n) == 0)
		return true;
	for (uint32_t i = 0; i < s->names.count; i++)
		if (strlen(s->names.items[i]) == n && strncasecmp(host, s->names.items[i], n) == 0)
			return true;
	return false;
}

/* --- Requests */

static enum MHD_Result on_request(void *arg, struct MHD_Connection *c, const char *url, const char *method, const char *version,
                                  const char *upload, size_t *upload_bytes, void **seen)
{
	static char
	    refusal[] = "GET and HEAD only\n",
	    no_memory[] = "out of memory\n", nameless[] = "an HTTP/1.1 request needs a Host header\n",
	    stranger[] =
	        "this is not a name of these pages: --http-name of weir train and status, or metrics.names of the job, adds one\n";
	struct http_server *s = arg;
	(void)upload;
	/* only the head has arrived: a reply now would close the connection before the body */
	if (!*seen) {
		*seen = s;
		return MHD_YES;
	}
	if (*upload_bytes) {
		*upload_bytes = 0;
		return MHD_YES;
	}
	const char *host = MHD_lookup_connection_value(c, MHD_HEADER_KIND, MHD_HTTP_HEADER_HOST);
	if (!host && strcmp(version, MHD_HTTP_VERSION_1_1) == 0)
		return answer(c, MHD_HTTP_BAD_REQUEST, "text/plain", nameless, MHD_RESPMEM_PERSISTENT);
	if (host && !may_ask_by(s, host))
		return answer(c, HTTP_FORBIDDEN, "text/plain", stranger, MHD_RESPMEM_PERSISTENT);
	if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 && strcmp(method, MHD_HTTP_METHOD_HEAD) != 0)
		return answer(c, MHD_HTTP_METHOD_NOT_ALLOWED, "text/plain", refusal, MHD_RESPMEM_PERSISTENT);
	struct http_page page = {.code = HTTP_NOT_FOUND, .type = "text/plain"};
	s->page(s->arg, url, &page);
	if (!page.text)
		return answer(c, HTTP_UNAVAILABLE, "text/plain", no_memory, MHD_RESPMEM_PERSISTENT);
	return answer(c, page.code, page.type, page.text, MHD_RESPMEM_MUST_FREE);
}

weir_status http_server_start(struct http_server **out, const char *address, struct http_names names, http_page_fn page,
                              void *arg, weir_error *err)
{
	union socket_address at;
	*out = NULL;
	weir_status status = parse_address(address, &at, err);
	if (status)
		return status;
	struct http_server *s = calloc(1, sizeof *s);
	if (!s)
		return weir_fail(err, WEIR_E_MEMORY, "out of memory");
	s->page = page;
	s->arg = arg;
	s->bound = at;
	s->names = names;
	errno = 0;
	s->daemon = MHD_start_daemon(MHD_USE_POLL_INTERNAL_THREAD | (at.any.sa_family == AF_INET6 ? MHD_USE_IPv6 : 0u), 0, NULL, NULL,
	                             on_request, s, MHD_OPTION_SOCK_ADDR, &at.any, MHD_OPTION_CONNECTION_LIMIT,
	                             WEIR_HTTP_CONNECTIONS_MAX + CLOSING_MAX, MHD_OPTION_NOTIFY_CONNECTION, on_connection, s,
	                             MHD_OPTION_CONNECTION_TIMEOUT, WEIR_HTTP_TIMEOUT_S, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
	                             (size_t)WEIR_HTTP_REQUEST_BYTES_MAX, MHD_OPTION_END);
	if (!s->daemon)
		status = weir_fail(err, WEIR_E_IO, "cannot serve pages at %s: %s", address, strerror(errno));
	if (!status)
		status = note_address(s, err);
	if (status) {
		http_server_stop(s);
		return status;
	}
	*out = s;
	return WEIR_OK;
}

const char *http_server_address(const struct http_server *s)
{
	return s->address;
}

void http_server_stop(struct http_server *s)
{
	if (!s)
		return;
	if (s->daemon)
		MHD_stop_daemon(s->daemon);
	free(s);
}
