#include "server/service/server_addresses.h"

#include <stdio.h>
#include <string.h>

#include "server/service/server_arguments.h"

bool server_address_by_job(const struct job *job, uint32_t i, char out[WEIR_ADDRESS_BYTES_MAX])
{
	const char *listen = job->cluster.listen, *port = strrchr(listen, ':');
	uint64_t first;
	int n = -1;
	if (job->cluster.servers_at_count)
		n = i < job->cluster.servers_at_count ? snprintf(out, WEIR_ADDRESS_BYTES_MAX, "%s", job->cluster.servers_at[i]) : -1;
	else if (strcmp(listen, "auto") == 0)
		n = snprintf(out, WEIR_ADDRESS_BYTES_MAX, "unix:%s/server-%u.sock", job->run_dir, i);
	else if (port && server_arguments_number(port + 1, 65535 - i, &first) && first > 0)
		n = snprintf(out, WEIR_ADDRESS_BYTES_MAX, "%.*s:%llu", (int)(port - listen), listen, (unsigned long long)first + i);
	return n >= 0 && n < (int)WEIR_ADDRESS_BYTES_MAX;
}

bool server_addresses_are_fixed(const struct job *job)
{
	char address[WEIR_ADDRESS_BYTES_MAX];
	return server_address_by_job(job, job->cluster.servers - 1, address);
}

static weir_status split_addresses(const char *list, struct server_addresses *out, weir_error *err)
{
	while (true) {
		size_t n = strcspn(list, ",");
		if (n == 0 || n >= WEIR_ADDRESS_BYTES_MAX || out->count == WEIR_SERVERS_MAX)
			return weir_fail(err, WEIR_E_INVALID, "--servers: address %u is empty, too long or one too many", out->count);
		memcpy(out->text[out->count], list, n);
		out->text[out->count++][n] = '\0';
		if (!list[n])
			return WEIR_OK;
		list += n + 1;
	}
}

weir_status server_addresses_find(const char *list, const struct job *job, struct server_addresses *out, weir_error *err)
{
	if (list) {
		weir_status status = split_addresses(list, out, err);
		if (!status && out->count != job->cluster.servers)
			status = weir_fail(err, WEIR_E_INVALID, "--servers: %u addresses, the job has %u servers", out->count,
			                   job->cluster.servers);
		return status;
	}
	for (; out->count < job->cluster.servers; out->count++)
		if (!server_address_by_job(job, out->count, out->text[out->count]))
			return weir_fail(err, WEIR_E_INVALID,
			                 "the addresses of all servers are not known from cluster.listen '%s': give --servers",
			                 job->cluster.listen);
	return WEIR_OK;
}
