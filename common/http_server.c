#include "http_server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "limits.h"

#define CLOSING_MAX 16u

struct http_server {
	struct MHD_Daemon *daemon;
	/* Open, the oldest first; those beyond WEIR_HTTP_CONNECTIONS_MAX are about to be closed. The server's thread has them. */
	MHD_socket open[WEIR_HTTP_CONNECTIONS_MAX + CLOSING_MAX];
	unsigned open_count;
	http_page_fn page;
	void *arg;
	char address[INET_ADDRSTRLEN + sizeof ":65535"];
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

static enum MHD_Result on_request(void *arg, struct MHD_Connection *c, const char *url, const char *method, const char *version,
                                  const char *upload, size_t *upload_bytes, void **seen)
{
	static char refusal[] = "GET and HEAD only\n", no_memory[] = "out of memory\n";
	struct http_server *s = arg;
	(void)version, (void)upload;
	if (!*seen) { /* the head alone is here: a reply now would end the connection under a body that comes */
		*seen = s;
		return MHD_YES;
	}
	if (*upload_bytes) {
		*upload_bytes = 0;
		return MHD_YES;
	}
	if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 && strcmp(method, MHD_HTTP_METHOD_HEAD) != 0)
		return answer(c, MHD_HTTP_METHOD_NOT_ALLOWED, "text/plain", refusal, MHD_RESPMEM_PERSISTENT);
	struct http_page page = {.code = HTTP_NOT_FOUND, .type = "text/plain"};
	s->page(s->arg, url, &page);
	if (!page.text)
		return answer(c, HTTP_UNAVAILABLE, "text/plain", no_memory, MHD_RESPMEM_PERSISTENT);
	return answer(c, page.code, page.type, page.text, MHD_RESPMEM_MUST_FREE);
}

/* The oldest connection makes room for the newest, so that nobody is kept out by who only holds connections open. */
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

static weir_status parse_address(const char *text, struct sockaddr_in *out, weir_error *err)
{
	char host[INET_ADDRSTRLEN] = "127.0.0.1", *end;
	const char *colon = strrchr(text, ':'), *port = colon ? colon + 1 : text;
	const size_t n = colon ? (size_t)(colon - text) : 0;
	errno = 0;
	const unsigned long number = strtoul(port, &end, 10);
	if (colon && n < sizeof host) {
		memcpy(host, text, n);
		host[n] = '\0';
	}
	*out = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons((uint16_t)number)};
	if (errno || *port < '0' || *port > '9' || *end || number > UINT16_MAX || n >= sizeof host ||
	    inet_pton(AF_INET, host, &out->sin_addr) != 1)
		return weir_fail(err, WEIR_E_INVALID, "'%s' is no address to serve pages at: expected PORT, or HOST:PORT as 0.0.0.0:9090",
		                 text);
	return WEIR_OK;
}

static weir_status note_address(struct http_server *s, const struct sockaddr_in *asked, weir_error *err)
{
	const union MHD_DaemonInfo *port = MHD_get_daemon_info(s->daemon, MHD_DAEMON_INFO_BIND_PORT);
	char host[INET_ADDRSTRLEN];
	if (!port || !inet_ntop(AF_INET, &asked->sin_addr, host, sizeof host))
		return weir_fail(err, WEIR_E_IO, "the port that pages are served at is not known");
	snprintf(s->address, sizeof s->address, "%s:%u", host, (unsigned)port->port);
	return WEIR_OK;
}

weir_status http_server_start(struct http_server **out, const char *address, http_page_fn page, void *arg, weir_error *err)
{
	struct sockaddr_in at;
	*out = NULL;
	weir_status status = parse_address(address, &at, err);
	if (status)
		return status;
	struct http_server *s = calloc(1, sizeof *s);
	if (!s)
		return weir_fail(err, WEIR_E_MEMORY, "out of memory");
	s->page = page;
	s->arg = arg;
	errno = 0;
	s->daemon = MHD_start_daemon(
	    MHD_USE_POLL_INTERNAL_THREAD, 0, NULL, NULL, on_request, s, MHD_OPTION_SOCK_ADDR, &at, MHD_OPTION_CONNECTION_LIMIT,
	    WEIR_HTTP_CONNECTIONS_MAX + CLOSING_MAX, MHD_OPTION_NOTIFY_CONNECTION, on_connection, s, MHD_OPTION_CONNECTION_TIMEOUT,
	    WEIR_HTTP_TIMEOUT_S, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)WEIR_HTTP_REQUEST_BYTES_MAX, MHD_OPTION_END);
	if (!s->daemon)
		status = weir_fail(err, WEIR_E_IO, "cannot serve pages at %s: %s", address, strerror(errno));
	if (!status)
		status = note_address(s, &at, err);
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
