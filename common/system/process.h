/* Facts about this process and its machine. */
#ifndef WEIR_PROCESS_H
#define WEIR_PROCESS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* Writes memory, descriptors, threads and processor time under the names that Prometheus' client
 * libraries use (process_*). Omits what the system does not report. */
void process_series(FILE *out);
/* Resident bytes of memory that belong to no file. 0: the system does not say. */
uint64_t process_memory(void);
/* Processors that this process's threads may use: those of the machine that it is bound to, limited
 * by its control group (cgroup.h). */
uint32_t process_cores(void);
/* Bytes of memory of the machine, or of its control group's limit if that is smaller. 0: the system
 * does not say. */
uint64_t process_machine_memory(void);
/* The folder of this program, without the last slash; "." if it is unknown. */
void process_program_folder(char *out, size_t bytes);
/* Raises the limit of descriptors as far as the system allows, often far above the initial one. */
void process_raise_descriptors(void);
/* Identifies the machine's boot and the pid namespace of this process. Within these, a pid names
 * one process. 0: the system does not say. */
uint64_t process_pid_namespace(void);
/* True: no process of this namespace has that pid. False also if that cannot be determined. */
bool process_is_gone(uint32_t pid);
/* Identifies the boot of the machine (for a container, of its host). The page cache has lived since
 * then. False, and zeros: the system does not say. */
bool process_machine_boot(uint8_t id[16]);

#endif
