/* What this process is to the machine. */
#ifndef WEIR_PROCESS_H
#define WEIR_PROCESS_H

#include <stdint.h>

/* Bytes of memory of its own: resident, and no file's. 0 when the system does not say. */
uint64_t process_memory(void);

#endif
