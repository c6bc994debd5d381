/* What this process is to the machine. */
#ifndef WEIR_PROCESS_H
#define WEIR_PROCESS_H

#include <stdbool.h>
#include <stdint.h>

/* Bytes of memory of its own: resident, and no file's. 0 when the system does not say. */
uint64_t process_memory(void);
/* Names the start of the machine (in a container, of its host) since which the page cache has lived. False, and zeros, when the system does not say. */
bool process_machine_boot(uint8_t id[16]);

#endif
