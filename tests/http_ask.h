/* Raw requests to an HTTP server of this process. */
#ifndef WEIR_TESTS_HTTP_ASK_H
#define WEIR_TESTS_HTTP_ASK_H

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HTTP_HEAD " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"

/* Connects to HOST:PORT on loopback and sends `request`. */
static inline int http_begin(const char *address, const char *request)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	at.sin_port = htons((uint16_t)atoi(strrchr(address, ':') + 1));
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&at, sizeof at), 0);
	assert_int_equal(write(fd, request, strlen(request)), strlen(request));
	return fd;
}

/* Reads until the server closes. */
static inline void http_end(int fd, char *out, size_t bytes)
{
	size_t n = 0;
	for (ssize_t got; n + 1 < bytes && (got = read(fd, out + n, bytes - n - 1)) > 0;)
		n += (size_t)got;
	out[n] = '\0';
	close(fd);
}

static inline void http_ask(const char *address, const char *request, char *out, size_t bytes)
{
	http_end(http_begin(address, request), out, bytes);
}

#endif
