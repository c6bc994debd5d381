#include "common/base/address.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#define HOST_BYTES_MAX 256

bool address_is_local(const char *address)
{
	char host[HOST_BYTES_MAX];
	unsigned char ip[16];
	const char *colon = strrchr(address, ':');
	if (strncmp(address, "unix:", 5) == 0 || strncmp(address, "memory:", 7) == 0)
		return true;
	if (!colon || colon - address >= HOST_BYTES_MAX)
		return false;
	snprintf(host, sizeof host, "%.*s", (int)(colon - address), address);
	return strcmp(host, "localhost") == 0 || strcmp(host, "[::1]") == 0 || (inet_pton(AF_INET, host, ip) == 1 && ip[0] == 127);
}
