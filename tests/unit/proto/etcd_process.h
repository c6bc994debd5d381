/* A private etcd of one member: ephemeral loopback ports, and a temporary folder that the test
 * removes. */
#ifndef ETCD_PROCESS_H
#define ETCD_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/base/limits.h"

struct etcd_process {
	pid_t pid; /* 0: not running */
	uint16_t client_port, spare_port, peer_port;
	/* listens there from the next start on; by default on the first only */
	bool on_client_port, on_spare_port;
	char program[256], folder[64];
	/* "127.0.0.1:PORT" */
	char address[WEIR_ADDRESS_BYTES_MAX], spare_address[WEIR_ADDRESS_BYTES_MAX];
};

/* Chooses ports and a folder. Fails the test if etcd is missing, and names its package. Starts
 * nothing. */
void etcd_process_prepare(struct etcd_process *p);
/* also restarts, on the same ports and data; does not wait until it serves */
void etcd_process_start(struct etcd_process *p);
void etcd_process_kill(struct etcd_process *p);            /* SIGKILL */
void etcd_process_stop(struct etcd_process *p, bool stop); /* SIGSTOP, SIGCONT */
/* A call that production never makes, through the JSON gateway: "/v3/kv/compaction", "{...}". */
void etcd_process_post(const struct etcd_process *p, const char *path, const char *body);
void etcd_process_print_log(const struct etcd_process *p);
void etcd_process_end(struct etcd_process *p); /* kills it and removes the folder */

#define FREE_PORTS_MAX 8u
void free_ports(uint16_t *ports, size_t count); /* distinct ports */
uint16_t free_port(void);

#endif
