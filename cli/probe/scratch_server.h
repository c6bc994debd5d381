/* A weir-server process in a folder of its own, and one libweir client of it: for measurements.
 * Tables are those that the client registers. */
#ifndef WEIR_SCRATCH_SERVER_H
#define WEIR_SCRATCH_SERVER_H

#include <stdbool.h>
#include <stdint.h>

#include "cli/core/supervise.h"
#include "common/base/limits.h"
#include "weir/weir.h"

struct scratch_options {
	bool tls;         /* mutual TLS, with certificates of an authority that this makes */
	bool unix_socket; /* instead of a loopback TCP port */
	bool log_on_disk; /* cluster.log: disk */
	bool no_lanes;    /* cluster.lane: grpc */
	uint32_t partitions;
};

struct scratch_server {
	char dir[64];
	struct supervisor *supervisor;
	struct child *child;
	char address[1][WEIR_ADDRESS_BYTES_MAX];
	weir_client *client;
	weir_unit unit; /* the unit of the current pushes; next_batch counts its batches */
	bool leased;
	uint32_t next_batch;
};

weir_status scratch_server_start(struct scratch_server *s, const struct scratch_options *options,
                                 weir_error *err) WEIR_MUST_CHECK;
/* Call also after a failed start. */
void scratch_server_stop(struct scratch_server *s);
/* Removes a folder of /tmp with all that it holds. */
void scratch_folder_remove(const char *path);
/* Returns the identity of the next batch. Commits a unit that is used up and leases the next
 * one. */
weir_status scratch_server_batch(struct scratch_server *s, weir_batch *out, weir_error *err) WEIR_MUST_CHECK;
/* Returns the processor seconds that the server has used so far. */
double scratch_server_cpu_s(const struct scratch_server *s);

#endif
