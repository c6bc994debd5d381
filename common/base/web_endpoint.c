#include "common/base/web_endpoint.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define PORT_MAX 65535

static bool is_port(const char *s, size_t n)
{
	unsigned long port = 0;
	for (size_t i = 0; i < n && port <= PORT_MAX; i++) {
		if (!isdigit((unsigned char)s[i]))
			return false;
		port = 10 * port + (unsigned long)(s[i] - '0');
	}
	return port > 0 && port <= PORT_MAX;
}

/* A host: letters, digits, '.', '-' and '_', or an address in brackets. */
static bool is_host(const char *s, size_t n)
{
	const bool bracketed = n > 2 && s[0] == '[' && s[n - 1] == ']';
	for (size_t i = bracketed; i < n - bracketed; i++)
		if (!(bracketed ? isxdigit((unsigned char)s[i]) || strchr(":.", s[i])
		                : isalnum((unsigned char)s[i]) || strchr(".-_", s[i])))
			return false;
	return n > 0;
}

bool web_endpoint_check(const char *endpoint, size_t *bytes)
{
	size_t scheme = strncmp(endpoint, "http://", 7) == 0    ? 7
	                : strncmp(endpoint, "https://", 8) == 0 ? 8
	                                                        : 0,
	       n = strlen(endpoint);
	while (n > scheme && endpoint[n - 1] == '/')
		n--;
	*bytes = n;
	const char *host = endpoint + scheme, *user = memchr(host, '@', n - scheme);
	host = user ? user + 1 : host;
	size_t host_bytes = (size_t)(endpoint + n - host);
	if (scheme == 0 || host_bytes == 0)
		return false;
	const char *colon = memrchr(host, ':', host_bytes);
	if (colon && (host[0] != '[' || colon[-1] == ']')) {
		if (colon == host || !is_port(colon + 1, (size_t)(host + host_bytes - colon - 1)))
			return false;
		host_bytes = (size_t)(colon - host);
	}
	return is_host(host, host_bytes);
}
