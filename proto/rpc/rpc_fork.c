#include "proto/rpc/rpc_fork.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/base/limits.h"
#include "proto/lane/lane_end.h"

union peer {
	struct sockaddr any;
	struct sockaddr_un unix_socket;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

/* The host as an IPv6 address, IPv4 in mapped form. False: it is a name. */
static bool parse_host(const char *host, struct in6_addr *out)
{
	char mapped[WEIR_ADDRESS_BYTES_MAX + sizeof "::ffff:"];
	snprintf(mapped, sizeof mapped, "::ffff:%s", host);
	return inet_pton(AF_INET6, host, out) == 1 || inet_pton(AF_INET6, mapped, out) == 1;
}

static bool is_at_host(const union peer *peer, const char *address)
{
	char host[WEIR_ADDRESS_BYTES_MAX];
	const char *colon = strrchr(address, ':');
	if (!colon || strlen(address) >= sizeof host)
		return false;
	const bool brackets = address[0] == '[' && colon[-1] == ']';
	snprintf(host, sizeof host, "%.*s", (int)(colon - address) - 2 * brackets, address + brackets);
	const bool is_v4 = peer->any.sa_family == AF_INET;
	if (ntohs(is_v4 ? peer->v4.sin_port : peer->v6.sin6_port) != strtoul(colon + 1, NULL, 10))
		return false;
	struct in6_addr wanted, is = peer->v6.sin6_addr;
	if (is_v4) {
		char text[INET_ADDRSTRLEN];
		inet_ntop(AF_INET, &peer->v4.sin_addr, text, sizeof text);
		parse_host(text, &is);
	}
	return !parse_host(host, &wanted) || memcmp(&wanted, &is, sizeof is) == 0;
}

/* path: as an address has it, with runs of slashes that a bound socket does not have. */
static bool is_at_path(const struct sockaddr_un *peer, const char *path)
{
	size_t at = 0;
	for (; *path && at < sizeof peer->sun_path; path++) {
		if (path[0] == '/' && path[1] == '/')
			continue;
		if (peer->sun_path[at++] != *path)
			return false;
	}
	return at < sizeof peer->sun_path && !peer->sun_path[at];
}

static bool is_at(const union peer *peer, const char *address)
{
	const bool is_path = strncmp(address, "unix:", 5) == 0;
	switch (peer->any.sa_family) {
	case AF_UNIX:
		return is_path && is_at_path(&peer->unix_socket, address + 5);
	case AF_INET:
	case AF_INET6:
		return !is_path && is_at_host(peer, address);
	default:
		return false;
	}
}

void rpc_fork_give_up(const char *const *addresses, size_t count)
{
	DIR *open_files = opendir("/proc/self/fd");
	const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	for (struct dirent *e; open_files && null >= 0 && (e = readdir(open_files));) {
		const int fd = atoi(e->d_name);
		union peer peer;
		memset(&peer, 0, sizeof peer);
		socklen_t bytes = sizeof peer;
		if (e->d_name[0] == '.' || getpeername(fd, &peer.any, &bytes))
			continue;
		bool ours = lane_end_is_client(fd);
		for (size_t i = 0; i < count && !ours; i++)
			ours = is_at(&peer, addresses[i]);
		if (ours)
			(void)dup3(null, fd, O_CLOEXEC);
	}
	if (null >= 0)
		close(null);
	if (open_files)
		closedir(open_files);
}
