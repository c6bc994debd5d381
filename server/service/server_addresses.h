/* Addresses of a job's servers, as far as the job file and the command line give them. */
#ifndef WEIR_SERVER_ADDRESSES_H
#define WEIR_SERVER_ADDRESSES_H

#include "common/base/limits.h"
#include "common/job/job.h"

struct server_addresses {
	uint32_t count;
	char text[WEIR_SERVERS_MAX][WEIR_ADDRESS_BYTES_MAX];
};

/* The address of server i by the job file alone. False: the job file does not fix it. */
bool server_address_by_job(const struct job *job, uint32_t i, char out[WEIR_ADDRESS_BYTES_MAX]);
bool server_addresses_are_fixed(const struct job *job);
/* Finds the addresses of all servers that the job begins with. list: --servers; NULL: by the job
 * file. E_INVALID. */
weir_status server_addresses_find(const char *list, const struct job *job, struct server_addresses *out,
                                  weir_error *err) WEIR_MUST_CHECK;

#endif
