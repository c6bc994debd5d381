#include "proto/rpc/rpc_address.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/base/limits.h"

#define PORT_MAX 65535u

static weir_status in_use(const char *address, weir_error *err)
{
	return weir_fail(err, WEIR_E_EXISTS, "%s: in use by another process; stop it or listen elsewhere", address);
}

/* Whether a process listens on this unix socket. */
static bool unix_is_live(const struct sockaddr_un *a)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	bool live = fd >= 0 && (connect(fd, (const struct sockaddr *)a, sizeof *a) == 0 || errno != ECONNREFUSED);
	if (fd >= 0)
		close(fd);
	return live;
}

static weir_status check_unix(const char *address, weir_error *err)
{
	const char *path = address + 5;
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	size_t n = strlen(path);
	if (n == 0 || n >= sizeof a.sun_path)
		return weir_fail(err, WEIR_E_LIMIT, "%s: a socket path has 1 to %zu bytes; use a shorter run directory", address,
		                 sizeof a.sun_path - 1);
	memcpy(a.sun_path, path, n + 1);
	char directory[sizeof a.sun_path];
	memcpy(directory, path, n + 1);
	char *slash = strrchr(directory, '/');
	if (slash)
		slash[slash == directory ? 1 : 0] = '\0';
	const char *parent = slash ? directory : ".";
	if (access(parent, W_OK | X_OK))
		return weir_fail(err, WEIR_E_IO, "%s: cannot create a socket in %s: %s; create it or choose another directory", address,
		                 parent, strerror(errno));
	struct stat st;
	if (lstat(path, &st))
		return WEIR_OK;
	if (!S_ISSOCK(st.st_mode))
		return weir_fail(err, WEIR_E_EXISTS, "%s: exists and is no socket; remove it or listen elsewhere", address);
	if (unix_is_live(&a))
		return in_use(address, err);
	if (unlink(path) && errno != ENOENT)
		return weir_fail(err, WEIR_E_IO, "%s: cannot remove the socket of a server that is gone: %s", address, strerror(errno));
	return WEIR_OK;
}

static weir_status check_bind(const char *address, const struct addrinfo *info, weir_error *err)
{
	int one = 1, code = 0;
	int fd = socket(info->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) || bind(fd, info->ai_addr, info->ai_addrlen) ||
	    listen(fd, 1))
		code = errno;
	if (fd >= 0)
		close(fd);
	if (code == EADDRINUSE)
		return in_use(address, err);
	return code ? weir_fail(err, WEIR_E_IO, "%s: cannot listen: %s; choose an address of this machine", address, strerror(code))
	            : WEIR_OK;
}

static weir_status check_tcp(const char *address, weir_error *err)
{
	char host[WEIR_ADDRESS_BYTES_MAX];
	const char *colon = strrchr(address, ':');
	char *end = NULL;
	unsigned long port = colon && colon[1] ? strtoul(colon + 1, &end, 10) : PORT_MAX + 1ul;
	if (!colon || colon == address || !end || *end || port > PORT_MAX || strlen(address) >= sizeof host)
		return weir_fail(err, WEIR_E_INVALID, "address '%s': expected HOST:PORT, with a port up to %u, or unix:/path", address,
		                 PORT_MAX);
	bool brackets = address[0] == '[' && colon[-1] == ']';
	snprintf(host, sizeof host, "%.*s", (int)(colon - address) - 2 * brackets, address + brackets);
	struct addrinfo hints = {.ai_flags = AI_PASSIVE | AI_NUMERICSERV, .ai_socktype = SOCK_STREAM}, *info = NULL;
	int code = getaddrinfo(host, colon + 1, &hints, &info);
	if (code)
		return weir_fail(err, WEIR_E_IO, "%s: host '%s' does not resolve: %s", address, host, gai_strerror(code));
	weir_status status = check_bind(address, info, err);
	freeaddrinfo(info);
	return status;
}

weir_status rpc_address_check(const char *address, weir_error *err)
{
	return strncmp(address, "unix:", 5) == 0 ? check_unix(address, err) : check_tcp(address, err);
}

/* Whether a character is allowed, and has no special meaning, in a URI's path. */
static bool is_plain(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || (c && strchr("/._-~:", c));
}

void rpc_address_uri(const char *address, char out[RPC_URI_BYTES])
{
	const bool is_path = strncmp(address, "unix:", 5) == 0;
	size_t at = 0;
	for (const char *from = address; *address && at + 4 < RPC_URI_BYTES; address++) {
		if (is_path && address > from + 5 && address[-1] == '/' && *address == '/')
			continue;
		if (is_path && !is_plain(*address))
			at += (size_t)snprintf(out + at, 4, "%%%02X", (unsigned char)*address);
		else
			out[at++] = *address;
	}
	out[at] = 0;
}
