/* Finds free TCP ports, and tests whether an address accepts connections. */
#include "cli/core/ports.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* Strips the brackets: "[::1]" becomes "::1", as the resolver expects. */
static void without_brackets(const char *host, char out[WEIR_ADDRESS_BYTES_MAX])
{
	const size_t n = strlen(host);
	const bool bracketed = n > 2 && host[0] == '[' && host[n - 1] == ']';
	snprintf(out, WEIR_ADDRESS_BYTES_MAX, "%.*s", (int)(n - 2 * bracketed), host + bracketed);
}

/* Returns a socket bound to any free port of host, and that port; -1 with errno. */
static int bind_any(const char *host, unsigned *port)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE}, *found = NULL;
	struct sockaddr_storage bound;
	socklen_t bytes = sizeof bound;
	char service[16], bare[WEIR_ADDRESS_BYTES_MAX];
	without_brackets(host, bare);
	if (getaddrinfo(bare, "0", &hints, &found) != 0) {
		errno = EADDRNOTAVAIL;
		return -1;
	}
	int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd >= 0 && bind(fd, found->ai_addr, found->ai_addrlen) == 0 && getsockname(fd, (struct sockaddr *)&bound, &bytes) == 0 &&
	    getnameinfo((struct sockaddr *)&bound, bytes, NULL, 0, service, sizeof service, NI_NUMERICSERV) == 0) {
		*port = (unsigned)strtoul(service, NULL, 10);
	} else if (fd >= 0) {
		close(fd);
		fd = -1;
	}
	freeaddrinfo(found);
	return fd;
}

weir_status ports_pick(const char *host, uint32_t count, char (*addresses)[WEIR_ADDRESS_BYTES_MAX], weir_error *err)
{
	uint32_t bound = 0;
	int *fds = calloc(count, sizeof *fds);
	if (!fds)
		return weir_fail(err, WEIR_E_MEMORY, "no memory for %u addresses", count);
	weir_status status = WEIR_OK;
	for (; bound < count; bound++) {
		unsigned port = 0;
		fds[bound] = bind_any(host, &port);
		if (fds[bound] < 0) {
			status = weir_fail(err, WEIR_E_IO, "cannot bind a port of '%s': %s", host, strerror(errno));
			break;
		}
		snprintf(addresses[bound], sizeof *addresses, "%.200s:%u", host, port);
	}
	for (uint32_t i = 0; i < bound; i++)
		close(fds[i]);
	free(fds);
	return status;
}

/* --- Testing a connection */

static bool connects(int family, const struct sockaddr *to, socklen_t bytes, uint32_t timeout_ms)
{
	int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), failed = 0;
	socklen_t n = sizeof failed;
	bool connected = fd >= 0 && connect(fd, to, bytes) == 0;
	struct pollfd p = {.fd = fd, .events = POLLOUT};
	if (fd >= 0 && !connected && errno == EINPROGRESS && poll(&p, 1, (int)timeout_ms) == 1)
		connected = getsockopt(fd, SOL_SOCKET, SO_ERROR, &failed, &n) == 0 && failed == 0;
	if (fd >= 0)
		close(fd);
	return connected;
}

bool ports_answer(const char *address, uint32_t timeout_ms)
{
	static const char unix_scheme[] = "unix:";
	const size_t scheme = sizeof unix_scheme - 1;
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found = NULL;
	if (strncmp(address, unix_scheme, scheme) == 0) {
		struct sockaddr_un to = {.sun_family = AF_UNIX};
		const int n = snprintf(to.sun_path, sizeof to.sun_path, "%s", address + scheme);
		return n < (int)sizeof to.sun_path && connects(AF_UNIX, (struct sockaddr *)&to, sizeof to, timeout_ms);
	}
	const char *colon = strrchr(address, ':');
	char host[WEIR_ADDRESS_BYTES_MAX], bare[WEIR_ADDRESS_BYTES_MAX];
	if (!colon)
		return false;
	snprintf(host, sizeof host, "%.*s", (int)(colon - address), address);
	without_brackets(host, bare);
	if (getaddrinfo(bare, colon + 1, &hints, &found) != 0)
		return false;
	bool answers = false;
	for (const struct addrinfo *a = found; a && !answers; a = a->ai_next)
		answers = connects(a->ai_family, a->ai_addr, a->ai_addrlen, timeout_ms);
	freeaddrinfo(found);
	return answers;
}
