/* Free TCP ports. */
#include "ports.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* A socket bound to any free port of host, and that port; -1 with errno. */
static int bind_any(const char *host, unsigned *port)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE}, *found = NULL;
	struct sockaddr_storage bound;
	socklen_t bytes = sizeof bound;
	char service[16];
	if (getaddrinfo(host, "0", &hints, &found) != 0) {
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
	weir_status s = WEIR_OK;
	for (; bound < count; bound++) {
		unsigned port = 0;
		fds[bound] = bind_any(host, &port);
		if (fds[bound] < 0) {
			s = weir_fail(err, WEIR_E_IO, "cannot bind a port of '%s': %s", host, strerror(errno));
			break;
		}
		snprintf(addresses[bound], sizeof *addresses, "%.200s:%u", host, port);
	}
	for (uint32_t i = 0; i < bound; i++)
		close(fds[i]);
	free(fds);
	return s;
}
