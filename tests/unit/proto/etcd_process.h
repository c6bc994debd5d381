/* A private etcd of one member: ephemeral loopback ports, a temporary folder, gone with the test. */
#ifndef ETCD_PROCESS_H
#define ETCD_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/base/limits.h"

struct etcd_process {
	pid_t pid; /* 0: does not run */
	uint16_t client_port, spare_port, peer_port;
	bool on_client_port, on_spare_port; /* where it serves from the next start on; the first only, unless changed */
	char program[256], folder[64];
	char address[WEIR_ADDRESS_BYTES_MAX], spare_address[WEIR_ADDRESS_BYTES_MAX]; /* "127.0.0.1:PORT" */
};

/* Chooses ports and a folder; fails the test when there is no etcd, naming its package. Nothing runs yet. */
void etcd_process_prepare(struct etcd_process *p);
void etcd_process_start(struct etcd_process *p); /* also again, on the same ports and data; does not wait for it to serve */
void etcd_process_kill(struct etcd_process *p);  /* -9 */
void etcd_process_stop(struct etcd_process *p, bool stop); /* SIGSTOP, SIGCONT */
/* A call that production never makes, over its JSON gateway: "/v3/kv/compaction", "{...}". */
void etcd_process_post(const struct etcd_process *p, const char *path, const char *body);
void etcd_process_print_log(const struct etcd_process *p);
void etcd_process_end(struct etcd_process *p); /* kills it and removes the folder */

#define FREE_PORTS_MAX 8u
void free_ports(uint16_t *ports, size_t count); /* no two are the same */
uint16_t free_port(void);

#endif
