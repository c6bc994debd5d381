/* What this process is to the machine. */
#ifndef WEIR_PROCESS_H
#define WEIR_PROCESS_H

#include <stdint.h>

/* Bytes of memory of its own: resident, and no file's. 0 when the system does not say. */
uint64_t process_memory(void);

/* The calling thread gives way: it takes the processor time that others leave, and a tenth of theirs where they leave none. */
void process_thread_gives_way(void);

#endif
