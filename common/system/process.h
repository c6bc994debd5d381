/* What this process is to the machine. */
#ifndef WEIR_PROCESS_H
#define WEIR_PROCESS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* Its memory, descriptors, threads and processor time as Prometheus' client libraries name them (process_*); what the system does not say is left out. */
void process_series(FILE *out);
/* Bytes of memory of its own: resident, and no file's. 0 when the system does not say. */
uint64_t process_memory(void);
/* Processors that its threads may use: the machine's, of these those that it is bound to, and no
 * more than its control group has time for (cgroup.h). */
uint32_t process_cores(void);
/* Bytes of memory that the machine has, or that its control group may use where these are fewer. 0
 * when the system does not say. */
uint64_t process_machine_memory(void);
/* As many descriptors as the system lets this process have, which is often far more than it was given. */
void process_raise_descriptors(void);
/* Identifies the machine's start and the pid namespace of this process: within it a pid names
 * one process. 0 when the system does not say. */
uint64_t process_pid_namespace(void);
bool process_is_gone(uint32_t pid); /* no process of this namespace has that pid; false when that cannot be told */
/* Names the start of the machine (in a container, of its host) since which the page cache has lived. False, and zeros, when the system does not say. */
bool process_machine_boot(uint8_t id[16]);

#endif
