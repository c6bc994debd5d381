#include "common/base/address.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
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

long address_port(const char *address)
{
	const char *colon = strrchr(address, ':');
	const bool bracketed = address[0] == '[' && colon && colon > address + 1 && colon[-1] == ']';
	if (!bracketed && colon != strchr(address, ':'))
		return -1; /* the last colon may be part of an IPv6 address */
	if (!colon || colon == address || colon[1] == 0 || strlen(colon + 1) > 5 || colon[1 + strspn(colon + 1, "0123456789")] != 0)
		return -1;
	const long port = strtol(colon + 1, NULL, 10);
	return port <= 65535 ? port : -1;
}
